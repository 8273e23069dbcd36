"""`relaytrain collect`: traces to learn the loss from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, get_args

import typer

from ..core.errors import UsageError
from .options import Format, Output, Sets, whole_numbers
from .output import emit, emit_json, note, progress
from .reading import need_torch

SHORT = "Train a campaign and write traces to learn the loss from."
HELP = """Train many relays that share their beginnings, and write what they showed as traces.

One trajectory serves every switching epoch: branches start from its checkpoints. Beside pruning with new nodes there
are switches of nodes alone, of the version alone, and distillation; every switch is probed by forward passes before and
after. Interrupted, or killed, the same command goes on; what is finished is not trained again, and the traces are the
same bit for bit. The estimate comes first, with the share that is done already; --dry-run stops there.
"""
EXAMPLES = """\b
Examples:
  relaytrain collect --preset digits traces/digits
  relaytrain collect --preset v16s traces/v16s --data ~/data/cifar10 --seeds 6
  relaytrain collect --preset paper traces/paper --dry-run     what it takes, and how much of it is done
  relaytrain collect my.toml traces/mine --switch 2,5,10 --then 3
"""

Words = Annotated[
    list[str], typer.Argument(metavar="[SCENARIO] OUTDIR", help="A scenario, unless --preset; where to write.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset", metavar="NAME", help="digits, v16s, v32, paper, depl, depl-small, depl-sgd or depl-small-mobilenet."
    ),
]
Seeds = Annotated[int | None, typer.Option("--seeds", metavar="N", help="Repetitions; more can be added later.")]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of CIFAR-10, for a preset that needs it.")
]
Cifar100 = Annotated[
    bool, typer.Option("--cifar100", help="Preset paper: new classes from CIFAR-100, beside CIFAR-10.")
]
Switch = Annotated[str | None, typer.Option("--switch", metavar="K,K...", help="A scenario's first switches (2,5,10).")]
Then = Annotated[str | None, typer.Option("--then", metavar="K,K...", help="Its second ones, epochs later (3).")]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="Epochs after its switches (8).")]
Workers = Annotated[
    int,
    typer.Option("--workers", metavar="N", help="Processes (2); the traces do not depend on it.", show_default=False),
]
Compress = Annotated[bool, typer.Option("--compress", help="Write .csv.gz.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only the estimate: images and CPU-hours.")]


def collect(
    words: Words,
    preset: Preset = None,
    seeds: Seeds = None,
    data: Data = None,
    cifar100: Cifar100 = False,
    switch: Switch = None,
    then: Then = None,
    epochs: Epochs = None,
    workers: Workers = 2,
    compress: Compress = False,
    dry_run: DryRun = False,
    sets: Sets = None,
    output: Output = Format.text,
) -> int:
    """Estimate, train, write."""
    scenario, folder = _words(words, preset)
    if workers < 1:
        raise UsageError(f"--workers: got {workers}, expected at least 1")
    if seeds is not None and not 1 <= seeds <= 10_000:
        raise UsageError(f"--seeds: got {seeds}, expected 1 to 10000")
    if preset is not None and (sets or switch or then or epochs):
        raise UsageError("--set, --switch, --then and --epochs are for a scenario; a preset has its own")
    if preset is None and (data is not None or cifar100):
        raise UsageError("--data and --cifar100 are for a preset; a scenario names its data under [data]")
    need_torch("collect")
    from ..campaigns.campaign_estimate import estimate
    from ..campaigns.campaign_estimate import words as in_words

    if preset is not None:
        from ..campaigns.preset_campaigns import preset as named

        campaign = named(preset, data=None if data is None else str(data.resolve()), cifar100=cifar100)
    else:
        from .. import api
        from ..campaigns.scenario_campaign import SwitchGrid, campaign_of

        usual = SwitchGrid()
        grid = SwitchGrid(
            _switches("--switch", switch, usual.first), _switches("--then", then, usual.second), epochs or usual.epochs
        )
        campaign = campaign_of(api.scenario(scenario, overrides=sets or ()), grid)
    count = seeds if seeds is not None else campaign.seeds
    expected = estimate(campaign, count)
    from ..campaigns.collect import collected_so_far

    so_far = collected_so_far(campaign, folder, range(count))
    told = {**in_words(expected), **({"so far": str(so_far)} if so_far.epochs else {})}
    lines = "".join(f"{key:>10}  {value}\n" for key, value in told.items())
    if dry_run:
        if output is Format.json:
            emit_json({**expected.to_dict(), "epochs_done": so_far.epochs, "cpu_s_spent": so_far.cpu_s})
        else:
            emit(lines)
        return 0
    note(lines.rstrip())
    from ..campaigns.collect import collect as train
    from ..traces.trace import ChangeKind

    with progress("epochs") as bar:
        collected = train(campaign, folder, seeds=range(count), workers=workers, compress=compress, progress=bar)
    traces = collected.traces
    if output is Format.json:
        emit_json(
            {
                "schema": "relaytrain.collected/1",
                "folder": str(collected.folder),
                "seeds": count,
                "segments": len(traces.segments),
                "switches": len(traces.switches),
                "images": traces.images,
                "naive_images": traces.naive_images,
                "pieces_trained": collected.trained,
                "pieces_found": collected.found,
                "cpu_s": collected.cpu_s,
            }
        )
        return 0
    kinds = Counter(switch.change for switch in traces.switches)
    listed = ", ".join(f"{kinds[kind]} {kind}" for kind in get_args(ChangeKind) if kinds[kind])
    times = traces.naive_images / traces.images
    emit(
        f"{count} seeds, {len(traces.segments)} segments, {len(traces.switches)} switches ({listed}) -> "
        f"{collected.folder}\n"
        f"{collected.trained} pieces trained, {collected.found} found; {collected.cpu_s:.0f} CPU-s in all; "
        f"{traces.images:,} images instead of {traces.naive_images:,} ({times:.1f} times fewer)"
    )
    return 0


def _words(words: list[str], preset: str | None) -> tuple[str, Path]:
    if preset is not None and len(words) == 1:
        return "", Path(words[0])
    if preset is None and len(words) == 2:
        return words[0], Path(words[1])
    wanted = (
        "OUTDIR alone beside --preset" if preset is not None else "SCENARIO and OUTDIR, or --preset NAME and OUTDIR"
    )
    raise UsageError(f"collect: got {len(words)} words ({' '.join(words)[:80]}), expected {wanted}")


def _switches(option: str, text: str | None, usual: tuple[int, ...]) -> tuple[int, ...]:
    if text is None:
        return usual
    return tuple(sorted(set(whole_numbers(option, text, "epochs such as 2,5,10", most=100_000))))

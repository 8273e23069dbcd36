"""mcPipe at full width: a short run of VGG16 on CIFAR-10, its bytes and seconds against the closed forms.

Figures 2 to 4 train an eighth of the width. Here a few updates of the whole network run in a process a worker, at the
devices' emulated pace, with PipeDream's versions and with mcPipe's pairs.

Paper: section V, Theorem 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, legend_below, new_figure, save
from ..trainings import Progress, data_set, need_torch
from .accuracy import IN_FLIGHT, steps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "mcpipe-width"
TITLE = "mcPipe: VGG16 at full width, bytes and seconds against the closed forms"
SOURCES = ("cifar10", "digits")
METHODS = ("PipeDream", "mcPipe")
WORKERS = 2


@dataclass(frozen=True)
class WidthScale:
    """The network's width, images a minibatch, updates before the clock starts and those that are timed."""

    width: float = 1.0
    batch: int = 4
    warm: int = 6
    count: int = 4


FULL, QUICK = WidthScale(), WidthScale(0.125, 4, 6, 4)


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, quick: bool = False, progress: Progress | None = None
) -> Reproduction:
    """Run both ways of keeping versions for a few updates, draw and judge; `quick` trains an eighth of the width."""
    need_torch(NAME)
    from .clock_check import timed
    from .comparison import ComparisonTask, PipelineBench

    scale = QUICK if quick else FULL
    source, missing = data_set(SOURCES)
    images = scale.batch * (scale.warm + scale.count)
    task = ComparisonTask(
        source, width=scale.width, shrink=1, images=images, test_images=2, batch=scale.batch, in_flight=IN_FLIGHT
    )
    bench = PipelineBench.of(task)
    clock = steps(bench.units(), WORKERS)
    rows: list[Row] = []
    for method in METHODS:
        if progress is not None:
            ahead_s = clock.seconds[method] * (scale.warm + scale.count)
            progress(
                f"{NAME}: {method}, {scale.warm + scale.count} updates, about {ahead_s:.0f} s at the devices' pace"
            )
        measured_s, result = timed(bench, clock, method, scale.warm, scale.count, count_bytes=True)
        for stage, (peak, allowed) in enumerate(zip(result.peak_bytes, result.predicted_bytes, strict=True)):
            choice = clock.choices[method][stage]
            rows.append(
                {
                    "method": method,
                    "stage": stage + 1,
                    "weight_mb": choice.size.weights / 1e6,
                    "versions_mb": choice.size.versions / 1e6,
                    "held_mb": peak / 1e6,
                    "closed_mb": (choice.size.total - choice.size.transient) / 1e6,
                    "allowed_mb": allowed / 1e6,
                    "step_s": clock.seconds[method],
                    "measured_s": measured_s,
                    "first_loss": result.losses[0],
                    "last_loss": result.losses[-1],
                }
            )
    table = tuple(rows)
    with house_style():
        files = save(_draw(table), out_dir, NAME, formats)
    expected = expected_of(__file__)
    notes = (
        f"{source}, {task.family} at {scale.width:g} of its width, {WORKERS} workers of 1 GFLOP/s (emulated), "
        f"minibatches of {scale.batch}, {IN_FLIGHT} under way, {scale.warm} + {scale.count} updates; stages cut at "
        f"{clock.cuts}",
        *([missing] if missing else []),
    )
    return written(
        NAME, TITLE, out_dir, files, table, judged("mcPipe width", expected, _checks(table, expected)), notes
    )


def _draw(rows: tuple[Row, ...]) -> Figure:
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    labels = [f"{row['method']}\nstage {row['stage']}" for row in rows]
    for offset, key, name, colour in (
        (-0.2, "held_mb", "held, measured", "#0072B2"),
        (0.2, "closed_mb", "closed form", "#E69F00"),
    ):
        bars = left.bar(
            [i + offset for i in range(len(rows))], [row[key] for row in rows], 0.38, label=name, color=colour
        )
        left.bar_label(bars, [f"{row[key]:.0f}" for row in rows], padding=2, fontsize=8)
    left.set_xticks(range(len(rows)), labels)
    left.set_ylabel("memory [MB]")
    once = [row for row in rows if row["stage"] == 1]
    for offset, key, colour in ((-0.2, "measured_s", "#0072B2"), (0.2, "step_s", "#E69F00")):
        bars = right.bar([i + offset for i in range(len(once))], [row[key] for row in once], 0.38, color=colour)
        right.bar_label(bars, [f"{row[key]:.2f}" for row in once], padding=2, fontsize=8)
    right.set_xticks(range(len(once)), [row["method"] for row in once])
    right.set_ylabel("seconds of an update")
    legend_below(figure, left, columns=2)
    return figure


def _checks(rows: tuple[Row, ...], expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    by = {(row["method"], row["stage"]): row for row in rows}
    apart = max(abs(row["held_mb"] / row["closed_mb"] - 1) for row in rows)
    slower = {m: by[m, 1]["measured_s"] / by[m, 1]["step_s"] for m in METHODS}
    versions = {m: sum(row["versions_mb"] for row in rows if row["method"] == m) for m in METHODS}
    limit = expected["seconds"].limits["ratio"]
    return {
        "bytes": (
            apart <= expected["bytes"].limits["share"],
            "held and closed form: "
            + ", ".join(f"{m} stage {s} {r['held_mb']:.1f} and {r['closed_mb']:.1f} MB" for (m, s), r in by.items()),
        ),
        "seconds": (
            max(slower.values()) <= limit,
            ", ".join(
                f"{m} {by[m, 1]['step_s']:.2f} s predicted, {by[m, 1]['measured_s']:.2f} measured" for m in METHODS
            ),
        ),
        "saves": (
            versions["mcPipe"] < versions["PipeDream"],
            f"versions kept: mcPipe {versions['mcPipe']:.1f} MB, PipeDream {versions['PipeDream']:.1f} MB; an update "
            f"takes {by['mcPipe', 1]['step_s'] / by['PipeDream', 1]['step_s']:.2f} times as long",
        ),
    }

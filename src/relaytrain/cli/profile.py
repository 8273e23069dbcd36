"""`relaytrain profile`: what each version costs on this machine."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import UsageError
from .on_flower import Certificates, LocalFlower, SuperLinkAddress, Where, on_flower, on_its_nodes
from .options import SCENARIO, Format, Output, Scenario, Sets
from .output import check_file, emit_json, emit_view, note, progress
from .reading import need_torch

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..core.cost import CostTable
    from ..core.problem import Problem
    from ..costs.profiled import Profile
    from ..scenario import Scenario as Loaded

SHORT = "What each version costs here, or on the nodes."
HELP = """Time a few batches of every version on this machine and fit what an epoch costs: CPU seconds and joules.

FLOPs overstate what pruning saves; these figures do not. Effective FLOPs are those with which a device profile gives
the measured ratios between versions. --pairs writes the costs as [[pairs]] to paste into a scenario.

With --superlink or --local-flower every node times them itself: an epoch of a pair takes what its slowest node takes,
and the joules of all its nodes by their own meters. `run --profile-nodes` does so before its first plan.
"""
EXAMPLES = """\b
Examples:
  relaytrain profile my.toml
  relaytrain profile my.toml --batches 40 --pairs measured.toml
  relaytrain profile my.toml --superlink 10.0.0.1:8000 --certs DIR
"""

Batches = Annotated[
    int,
    typer.Option("--batches", metavar="N", help="Steps to time at each of two batch sizes (12).", show_default=False),
]
Pairs = Annotated[Path | None, typer.Option("--pairs", metavar="FILE.toml", help="Write the costs as [[pairs]] here.")]


def profile(
    scenario: Scenario = SCENARIO,
    batches: Batches = 12,
    pairs: Pairs = None,
    local_flower: LocalFlower = None,
    superlink: SuperLinkAddress = None,
    certs: Certificates = None,
    sets: Sets = None,
    output: Output = Format.text,
) -> int:
    """Time, fit, show."""
    from .. import api

    need_torch("profile")
    if batches < 1:
        raise UsageError(f"--batches: got {batches}, expected at least 1")
    check_file("--pairs", pairs)
    loaded = api.scenario(scenario, overrides=sets or ())
    if (local_flower, superlink, certs) != (None, None, None):
        return _on_nodes(loaded, Where(local_flower, superlink, certs), batches, pairs, output)
    from ..costs.profiled import profile as measure
    from ..training.setup import TrainingSetup

    setup = TrainingSetup.from_scenario(loaded)
    with progress("timing"):
        measured = measure(setup, batches=batches)
    samples = {name: setup.counted_at(name) for name in setup.datasets}
    costs = measured.costs(loaded.problem, samples, loaded.costs)
    if output is Format.json:
        emit_json({**measured.to_dict(), "pairs": _rows(loaded.problem, costs)})
    else:
        emit_view(_view(measured, loaded.problem, costs))
    if pairs is not None:
        from ..store.files import write_atomic

        write_atomic(pairs, _toml(measured.machine, loaded.problem, costs))
        note(f"costs: {pairs}")
    return 0


def _on_nodes(loaded: Loaded, where: Where, batches: int, pairs: Path | None, output: Format) -> int:
    """As above, timed by the nodes; this command line itself runs in a ServerApp."""
    from ..executors.flower.inside import is_serverapp

    if not is_serverapp():
        return on_flower(loaded, where)
    measured = on_its_nodes(loaded, batches)
    if output is Format.json:
        emit_json({"schema": "relaytrain.node-profile/1", "pairs": _rows(measured.problem, measured.costs)})
    else:
        from ..report.tables import titled

        emit_view(titled("one epoch on the nodes, as they measured it", _epochs(measured.problem, measured.costs)))
    if pairs is not None:
        from ..store.files import write_atomic

        write_atomic(pairs, _toml("the nodes", measured.problem, measured.costs))
        note(f"costs: {pairs}")
    return 0


def _rows(problem: Problem, costs: CostTable) -> list[dict[str, Any]]:
    """Pairs that can run, with the seconds and joules of an epoch."""
    return [
        {
            "version": pair.version,
            "nodes": pair.nodes,
            "seconds": float(costs.run_s[i]),
            "energy": float(costs.run_j[i]),
        }
        for i, pair in enumerate(problem.pairs)
        if math.isfinite(costs.run_s[i]) and math.isfinite(costs.run_j[i])
    ]


def _toml(where: str, problem: Problem, costs: CostTable) -> str:
    lines = [f"# Measured on {where}: one epoch of each pair, seconds and joules. Paste into a scenario."]
    for row in _rows(problem, costs):
        lines += ["[[pairs]]", f'version = "{row["version"]}"', f'nodes = "{row["nodes"]}"']
        lines += [f"seconds = {row['seconds']:.6g}", f"energy = {row['energy']:.6g}"]
    return "\n".join(lines) + "\n"


def _view(measured: Profile, problem: Problem, costs: CostTable) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from ..report.tables import table, titled

    columns = ("version", "a sample", "a batch", "a pass", "FLOPs a sample", "effective FLOPs")
    versions = table(columns, numbers=columns[1:])
    effective = measured.effective_flops()
    for name, row in measured.versions.items():
        times = (f"{1e6 * row.per_sample_s:.4g} us", f"{1e3 * row.per_batch_s:.4g} ms", f"{1e3 * row.pass_s:.4g} ms")
        versions.add_row(Text(name), *times, f"{row.flops_per_sample:.4g}", f"{effective[name]:.4g}")
    epochs = _epochs(problem, costs)
    head = f"CPU time on {measured.machine}, batches of {measured.batch}"
    return Group(titled(head, versions), Text(), titled("one epoch on this machine, one node after the other", epochs))


def _epochs(problem: Problem, costs: CostTable) -> Table:
    from rich.text import Text

    from ..core.explain import say_energy, say_time
    from ..report.tables import table

    epochs = table(("pair", "an epoch", "energy"), numbers=("an epoch", "energy"))
    for pair in _rows(problem, costs):
        seconds, joules = say_time(pair["seconds"]), say_energy(pair["energy"])
        epochs.add_row(Text(f"{pair['version']} on {pair['nodes']}"), seconds, joules)
    return epochs

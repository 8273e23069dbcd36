"""mcPipe figure 1 (Examples 1 and 2): four workers without and with pipelining, and how long weight versions live."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...planners.pipeline.version_lifetimes import peak, steady_peaks
from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, new_figure, save
from .example import HOP, WORKERS, Example, Lives, lives, most, play
from .theorem import theorem_1

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "mcpipe-fig1"
TITLE = "mcPipe Fig. 1: model-distributed learning without and with pipelining, and its weight versions"
WINDOW = 4
SLOTS = 30
SIZE = 1024
"""K: a layer has K x K weights; the paper leaves it open."""
COLOURS = {"A": "#D55E00", "D": "#F0E442", "U": "#009E73"}
LABELS = {"A": "activation vector", "D": "error vector", "U": "weight update"}
STORED = {"weights": "#0072B2", "pairs": "#56B4E9"}


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS) -> Reproduction:
    """Play both examples, draw and judge."""
    examples = {"no": play(1, 2 * SLOTS), "yes": play(WINDOW, 2 * SLOTS)}
    until = [box.end for box in examples["no"].boxes[1] if box.what == "U"][1]  # tau: Worker 2's second update in (a)
    stored = {worker: lives(examples["yes"], worker, until) for worker in range(WORKERS - 1)}
    rows = tuple(_row(worker, examples, stored, until) for worker in range(WORKERS))
    with house_style():
        files = save(_draw(examples, stored, until), out_dir, NAME, formats)
    expected = expected_of(__file__)
    notes = (
        f"a box takes one slot, a link {HOP}; the paper prints neither. tau is the end of Worker 2's second update "
        f"without pipelining, slot {until}. Sizes are numbers stored, for layers of {SIZE} x {SIZE} weights "
        "and one sample",
    )
    findings = judged("mcPipe Fig. 1", expected, _checks(rows, examples, expected, until))
    return written(NAME, TITLE, out_dir, files, rows, findings, notes)


def _row(worker: int, examples: Mapping[str, Example], stored: Mapping[int, Lives], until: int) -> Row:
    kept = stored.get(worker, Lives((), (), ()))
    versions, weights, pairs = most(kept.stash), most(kept.weights), most(kept.pairs)
    return {
        "worker": worker + 1,
        "updates_plain": examples["no"].updates(worker, until),
        "updates_pipelined": examples["yes"].updates(worker, until),
        "busy_plain": examples["no"].busy(worker, until),
        "busy_pipelined": examples["yes"].busy(worker, until),
        "versions_stash": versions,
        "versions_mcpipe": weights,
        "pairs_mcpipe": pairs,
        "stored_stash": versions * SIZE**2,
        "stored_mcpipe": weights * SIZE**2 + pairs * 2 * SIZE,
    }


def _draw(examples: Mapping[str, Example], stored: Mapping[int, Lives], until: int) -> Figure:
    figure = new_figure(10.0, 7.2)
    grid = figure.add_gridspec(3, 2, height_ratios=[1.0, 1.0, 1.35])
    titles = {"no": "(a) without pipelining (Example 1)", "yes": f"(b) with pipelining, window {WINDOW} (Example 2)"}
    for index, (key, example) in enumerate(examples.items()):
        axes = figure.add_subplot(grid[index, :])
        _boxes(axes, example, until)
        axes.set_title(titles[key])
    axes.set_xlabel("slot")
    _lifetimes(figure.add_subplot(grid[2, 0]), stored, until, mcpipe=False)
    _lifetimes(figure.add_subplot(grid[2, 1]), stored, until, mcpipe=True)
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=COLOURS[what], edgecolor="black", linewidth=0.5, label=LABELS[what]) for what in COLOURS]
    handles += [
        Patch(facecolor=STORED["weights"], label="weights stored"),
        Patch(facecolor=STORED["pairs"], label="pair stored"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
    return figure


def _boxes(axes: Axes, example: Example, until: int) -> None:
    for box in example:
        if box.end <= SLOTS:
            at = WORKERS - 1 - box.worker
            axes.broken_barh(
                [(box.start, 1)], (at - 0.38, 0.76), facecolor=COLOURS[box.what], edgecolor="black", linewidth=0.5
            )
            axes.text(box.start + 0.5, at, _index(box.index), ha="center", va="center", fontsize=7)
    axes.axvline(until, color="#444444", linestyle="--", linewidth=1)
    axes.text(until + 0.15, WORKERS - 0.45, r"$\tau$", fontsize=9)
    axes.set_yticks(range(WORKERS), [f"Worker {WORKERS - at}" for at in range(WORKERS)])
    axes.set_xlim(0, SLOTS)
    axes.set_ylim(-0.6, WORKERS - 0.1)
    axes.grid(visible=False)


def _lifetimes(axes: Axes, stored: Mapping[int, Lives], until: int, *, mcpipe: bool) -> None:
    """One line for each thing stored; Worker 1 above Worker 2."""
    labels, line = [], 0
    for worker in (0, 1):
        kept = stored[worker]
        lines = [("weights", f"w({_index(x.number, 't')})", x) for x in (kept.weights if mcpipe else kept.stash)]
        if mcpipe:
            lines += [("pairs", f"pair {_index(x.number)}", x) for x in kept.pairs]
        for kind, label, life in lines:
            axes.broken_barh([(life.begin, life.end - life.begin)], (-line - 0.36, 0.72), facecolor=STORED[kind])
            labels.append((-line, f"W{worker + 1} {label}"))
            line += 1
        line += 1
    axes.set_yticks([at for at, _ in labels], [text for _, text in labels], fontsize=7.5)
    axes.set_xlim(0, until)
    axes.set_xlabel("slot")
    axes.set_title("(d) stored under mcPipe" if mcpipe else "(c) stored under PipeDream")


def _index(number: int, base: str = "k") -> str:
    return base if number == 0 else f"{base}+{number}"


def _checks(
    rows: tuple[Row, ...],
    examples: Mapping[str, Example],
    expected: Mapping[str, Expected],
    until: int,
) -> dict[str, Judgement]:
    two, with_weights = rows[1], rows[:3]
    wanted, plain = expected["more-updates"].limits["pipelined"], expected["more-updates"].limits["plain"]
    held = ", ".join(f"Worker {row['worker']} {row['versions_stash']}" for row in with_weights)
    bound = int(theorem_1((WORKERS - 1) * SIZE**2, WORKERS - 1, WINDOW))
    alive = [peak(examples["yes"].schedule(until), worker) for worker in range(WORKERS - 1)]
    lean = ", ".join(str(alive.versions) for alive in steady_peaks(WORKERS - 1, WINDOW)[: WORKERS - 1])
    return {
        "more-updates": (
            two["updates_pipelined"] == wanted and two["updates_plain"] == plain,
            f"Worker 2 by tau: {two['updates_pipelined']} updates with, {two['updates_plain']} without pipelining",
        ),
        "busier": (
            all(row["busy_pipelined"] > row["busy_plain"] for row in rows),
            "busy until tau: " + ", ".join(f"{row['busy_plain']:.0%} -> {row['busy_pipelined']:.0%}" for row in rows),
        ),
        "four-forwards": (
            all(counts.in_flight == WINDOW for counts in alive),
            "activations before the first update: " + ", ".join(str(counts.in_flight) for counts in alive),
        ),
        "four-weights": (
            two["versions_stash"] == WINDOW,
            f"versions that some backward or forward still needs, at most: {held}",
        ),
        "four-weights-first": (rows[0]["versions_stash"] == WINDOW, f"at most: {held}"),
        "one-matrix": (
            all(row["versions_mcpipe"] == 1 and row["pairs_mcpipe"] <= WINDOW - 1 for row in with_weights),
            "weight matrices and pairs at most: "
            + ", ".join(f"{r['versions_mcpipe']} and {r['pairs_mcpipe']}" for r in with_weights),
        ),
        "theorem": (
            max(row["stored_mcpipe"] for row in with_weights) == bound,
            f"numbers stored, at most {max(row['stored_mcpipe'] for row in with_weights)}, the bound is {bound}; "
            f"PipeDream {max(row['stored_stash'] for row in with_weights)}",
        ),
        "fewer-later": (
            [counts.pending for counts in steady_peaks(WORKERS - 1, WORKERS - 1)] == [2, 1, 0],
            "three workers with weights and as many minibatches: pending updates 2, 1, 0; "
            f"with {WINDOW}, versions {lean}",
        ),
    }

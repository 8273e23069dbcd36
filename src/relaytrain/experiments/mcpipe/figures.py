"""What mcPipe's figures 2, 3 and 4 share: the picture, the table, the checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..expected import Expected, Judgement, expected_of, judged
from ..kept import at_least_one
from ..over_seeds import all_of
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, legend_below, new_figure, save
from ..trainings import SIZES, Progress, data_set, need_torch
from .accuracy import (
    FLOPS_PER_S,
    FULL,
    IN_FLIGHT,
    LINK_BITS_PER_S,
    QUICK,
    AccuracyCurve,
    AccuracyScale,
    UpdateSteps,
    curves,
    gap,
    task_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES: dict[str, dict[str, Any]] = {
    "Local": {"color": "#999999", "linestyle": ":", "marker": "s"},
    "data-distributed": {"color": "#E69F00", "linestyle": "-.", "marker": "D"},
    "PipeDream": {"color": "#B8B8B8", "linestyle": "-", "linewidth": 4.5, "marker": None},
    "mcPipe": {"color": "#0072B2", "linestyle": "--", "marker": "o"},
    "best-of": {"color": "#009E73", "linestyle": "-", "marker": None},
    "GreedyUpdates": {"color": "#D55E00", "linestyle": "-", "marker": "^"},
}
BANDS = ("PipeDream", "GreedyUpdates")
"""Drawn from the lowest to the highest initialisation."""
LEVELS = (0.4, 0.5, 0.6, 0.7, 0.8)
Extra = Callable[[Mapping[str, AccuracyCurve], AccuracyScale, Path, Progress | None], dict[str, Judgement]]
"""What one figure alone is judged by."""


@dataclass(frozen=True)
class AccuracyFigure:
    """One of the figures: its number, the data sets it wants, the best first, and how many workers train.

    `module_file` is the module whose TOML holds its findings, `extra` what they need beside the checks that all share.
    `full` is how much is trained unless it is only to see that it runs; with `measure` the emulated clock is then held
    against processes.
    """

    number: int
    sources: tuple[str, ...]
    workers: int
    module_file: str
    full: AccuracyScale = FULL
    measure: bool = False
    extra: Extra = lambda methods, scale, out_dir, progress: {}

    @property
    def name(self) -> str:
        """As `relaytrain reproduce` knows it."""
        return f"mcpipe-fig{self.number}"

    @property
    def title(self) -> str:
        """Above the picture."""
        count = {2: "two", 3: "three"}[self.workers]
        return f"mcPipe Fig. {self.number}: accuracy over time, {count} workers"

    def reproduce(
        self,
        out_dir: Path,
        *,
        formats: tuple[str, ...] = DEFAULT_FORMATS,
        quick: bool = False,
        seeds: int | None = None,
        progress: Progress | None = None,
    ) -> Reproduction:
        """Train all ways, draw and judge; `quick` trains next to nothing, to see that it runs."""
        need_torch(self.name)
        scale = QUICK if quick else self.full
        scale = scale if seeds is None else replace(scale, seeds=at_least_one(seeds))
        source, missing = data_set(self.sources)
        methods, clock = curves(out_dir, source, self.workers, scale, progress)
        with house_style():
            files = save(_draw(methods, f"{self.title} ({source}; {_count(scale.seeds)})"), out_dir, self.name, formats)
        rows: tuple[Row, ...] = tuple(_row(curve, methods) for curve in methods.values())
        timed = _timed(source, scale, clock, progress) if self.measure and not quick else {}
        if timed:
            rows = tuple({**row, "measured_step_s": timed[str(row["method"])]} for row in rows)
        expected = expected_of(self.module_file)
        seen = _checks(methods, expected) | self.extra(methods, scale, out_dir, progress)
        notes = (*_notes(source, self.workers, scale, clock), *_compared(clock, timed), *([missing] if missing else []))
        findings = judged(f"mcPipe Fig. {self.number}", expected, seen)
        return written(self.name, self.title, out_dir, files, rows, findings, notes)


def _count(seeds: int) -> str:
    """How many initialisations a caption speaks of; the paper has ten."""
    return f"{seeds} initialisation{'s' if seeds != 1 else ''}"


def end_s(methods: Mapping[str, AccuracyCurve]) -> float:
    """When PipeDream's curve ends: all are compared up to there."""
    return methods["PipeDream"].seconds[-1]


def _row(curve: AccuracyCurve, methods: Mapping[str, AccuracyCurve]) -> Row:
    end = end_s(methods)
    row: Row = {"method": curve.method, "step_s": curve.step_s, "updates_by_end": end / curve.step_s}
    row |= {
        "accuracy_third": curve.at(end / 3),
        "accuracy_end": curve.at(end),
        "deviation_end": float(np.std(curve.each((end,)))),
    }
    return {**row, **{f"s_to_{level:g}": curve.reaches(level) for level in LEVELS}}


def _draw(methods: Mapping[str, AccuracyCurve], title: str) -> Figure:
    figure = new_figure(7.5, 4.8)
    axes = figure.subplots()
    for method, curve in methods.items():
        style = {"linewidth": 1.6, **STYLES[method]}
        axes.plot(curve.seconds, curve.accuracy, label=method, markevery=4, markersize=4, **style)
        if method in BANDS:
            rows = np.array(curve.rows)
            axes.fill_between(
                curve.seconds, rows.min(axis=0), rows.max(axis=0), color=style["color"], alpha=0.2, linewidth=0
            )
    axes.set_xlim(0, end_s(methods))
    axes.set_ylim(0, 1)
    axes.set_xlabel("training time [s, emulated]")
    axes.set_ylabel("test accuracy")
    axes.set_title(title)
    legend_below(figure, axes, columns=3)
    return figure


def _checks(methods: Mapping[str, AccuracyCurve], expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    end, pipe, greedy = end_s(methods), methods["PipeDream"], methods["GreedyUpdates"]
    times = np.linspace(end / 20, end, 60)
    late, early = [t for t in times if t >= 0.8 * end], [t for t in times if t <= end / 3]
    apart = {m: max(abs(methods[m].at(t) - pipe.at(t)) for t in times) for m in ("mcPipe", "best-of")}
    behind = {m: gap(pipe, methods[m], late) for m in ("Local", "data-distributed", "GreedyUpdates", "mcPipe")}
    rivals = ("Local", "data-distributed", "GreedyUpdates")
    own = [gap(methods["mcPipe"], methods[m], late) for m in rivals]
    ahead, floor = gap(greedy, pipe, early), behind["GreedyUpdates"]
    late_means = ", ".join(f"{m} {np.mean(curve.each(late)):.1%}" for m, curve in methods.items())
    gaps = ", ".join(f"{m} {behind[m]}" for m in rivals)
    return {
        "same": (
            apart["mcPipe"] <= expected["same"].limits["points"] / 100,
            f"same accuracy after every update by construction; over time up to {apart['mcPipe']:.1%} apart, "
            f"an update takes {methods['mcPipe'].step_s / pipe.step_s:.2f}x as long "
            f"(best-of {methods['best-of'].step_s / pipe.step_s:.2f}x)",
        ),
        "best-late": (
            all_of([difference.verdict for difference in (*(behind[m] for m in rivals), *own)]),
            f"mean over the last fifth: {late_means}; PipeDream above {gaps}",
        ),
        "greedy-early": (ahead.verdict, f"GreedyUpdates above PipeDream over the first third: {ahead}"),
        "greedy-floor": (
            floor.above(expected["greedy-floor"].limits["points"]),
            f"PipeDream above GreedyUpdates over the last fifth: {floor}",
        ),
        "local-behind": (behind["Local"].verdict, f"PipeDream above Local over the last fifth: {behind['Local']}"),
        "data-behind": (
            behind["data-distributed"].verdict,
            f"PipeDream above data-distributed over the last fifth: {behind['data-distributed']}",
        ),
    }


def _timed(source: str, scale: AccuracyScale, clock: UpdateSteps, progress: Progress | None) -> Mapping[str, float]:
    from .clock_check import measured

    if progress is not None:
        progress(f"timing {len(clock.devices)} processes at the emulated pace, each method once")
    return measured(task_of(source, scale, 0), clock)


def _compared(clock: UpdateSteps, timed: Mapping[str, float]) -> tuple[str, ...]:
    if not timed:
        return ()
    said = (
        f"{m} {clock.seconds[m]:.3f} and {taken_s:.3f} s ({taken_s / clock.seconds[m] - 1:+.0%})"
        for m, taken_s in timed.items()
    )
    return (f"an update as predicted and as measured with a process a worker (Local: one): {', '.join(said)}",)


def times_to(one: AccuracyCurve, other: AccuracyCurve) -> tuple[list[str], list[bool]]:
    """When two curves reach each level, in words, and whether the first is faster; without levels neither reaches."""
    words, faster = [], []
    for level in LEVELS:
        a, b = one.reaches(level), other.reaches(level)
        if math.isfinite(a) or math.isfinite(b):
            words.append(f"{level:.0%}: {_seconds(a)} against {_seconds(b)}")
            faster.append(a < b)
    return words, faster


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if math.isfinite(value) else "never"


def _notes(source: str, workers: int, scale: AccuracyScale, clock: UpdateSteps) -> tuple[str, ...]:
    speeds = ", ".join(f"{speed / 1e9:g}" for speed in FLOPS_PER_S[:workers])
    return (
        f"scaled: {source}, {SIZES[source]}, {scale.images} images, {scale.test_images} to test; VGG16 with batch norm "
        "at an eighth of its width, minibatches of 32, SGD 0.01 with momentum 0.9, "
        f"{scale.updates} updates, {IN_FLIGHT} minibatches under way; mean of {_count(scale.seeds)}, "
        "bands from the lowest to the highest (the paper: full width, 10 initialisations, hours)",
        f"time is emulated: devices of {speeds} GFLOP/s, links of {LINK_BITS_PER_S / 1e6:g} Mbit/s, stages cut at "
        f"{clock.cuts}; an update takes "
        + ", ".join(f"{method} {seconds:.3f} s" for method, seconds in clock.seconds.items()),
        "the pipeline is drained where accuracy is read; PipeDream, mcPipe and best-of are one training, since their "
        "updates are equal to the last bit",
    )

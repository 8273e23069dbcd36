"""PACT figure 2, trained for real: when to prune, how much, and who joins afterwards.

Five gold nodes train VGG11 for K1 epochs; then a share F of its parameters is pruned, two silver or two bronze nodes
join, and training goes on. Accuracy against emulated time, with the CPU seconds that were really spent.

Paper: section II. Scaled so that one core trains it in about fifteen minutes: see `PruningScale` and the notes of the
result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import UsageError
from ...core.plan import Decision
from ...core.problem import Pair
from ..expected import Expected, Judgement, expected_of, judged
from ..kept import at_least_one, kept
from ..over_seeds import Interval
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, legend_below, new_figure, save
from ..trainings import SIZES, Progress, data_set, need_torch, nothing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "pact-fig2"
TITLE = "PACT Fig. 2: accuracy over training time, by pruning epoch, pruned share and joining nodes"
SOURCES = ("cifar10", "fashion-mnist", "digits")
"""Data sets tried in this order; the files of the first two are looked for in the usual places."""
SHARES = {"half": 0.5, "tenth": 0.9}
GOLD = 5
IMAGES = {"gold": 8000, "silver": 2500, "bronze": 750}
SPEED = {"gold": 1.0, "silver": 1 / 2, "bronze": 1 / 3}
GOLD_FLOPS_PER_S = 1e9
JOINING = ("silver", "bronze")
LAST_EPOCHS = 5
"""Over whose accuracies the end of a curve is judged."""
COLOURS = {
    ("half", "silver"): "#08519C", ("tenth", "silver"): "#6BAED6",
    ("half", "bronze"): "#A63603", ("tenth", "bronze"): "#FD8D3C",
}  # fmt: skip


@dataclass(frozen=True)
class PruningScale:
    """How far it is scaled down: images by `shrink_images`, the network's width, batch, K1, epochs after."""

    shrink_images: int = 40
    width: float = 0.125
    batch: int = 16
    prune_after: tuple[int, int] = (5, 25)
    epochs_after: int = 20
    seeds: int = 6


FULL, QUICK = PruningScale(), PruningScale(80, 0.125, 16, (1, 3), 2, 1)


@dataclass(frozen=True)
class LossCurve:
    """One line of the figure: what was chosen; seconds, accuracy and CPU seconds after every epoch, mean over seeds."""

    prune_after: int
    version: str
    joining: str
    seconds: tuple[float, ...]
    accuracy: tuple[float, ...]
    cpu_s: tuple[float, ...]

    @property
    def label(self) -> str:
        """How the legend calls it."""
        return f"K1 = {self.prune_after}, F = {SHARES[self.version]:g}, {self.joining}"


def reproduce(
    out_dir: Path,
    *,
    formats: tuple[str, ...] = DEFAULT_FORMATS,
    source: str | None = None,
    quick: bool = False,
    seeds: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Train every choice of K1, F and joining nodes with shared prefixes, draw and judge.

    Args:
        out_dir: the folder for figure and table.
        formats: of the figure.
        source: one of `SOURCES`; by default the first that is on this machine.
        quick: a few epochs of a tiny network, to see that it runs; its verdicts say nothing.
        seeds: how many are trained, by default six; finished ones are kept in `pact-fig2-trainings` beside the figure.
        progress: told of every curve, since training takes a while.
    """
    need_torch(NAME)
    scale = QUICK if quick else FULL
    scale = scale if seeds is None else replace(scale, seeds=at_least_one(seeds))
    chosen = _source(source)
    told = progress or nothing
    told(
        f"{NAME}: trains on {chosen}{_instead(chosen, source)}, about "
        f"{'half a minute' if quick else f'{round(2.5 * scale.seeds)} minutes'} of one core"
    )
    runs = [_kept(out_dir, chosen, scale, seed, told) for seed in range(scale.seeds)]
    curves = _averaged(runs)
    with house_style():
        files = save(_draw(curves), out_dir, NAME, formats)
    rows: tuple[Row, ...] = tuple(_row(curve) for curve in curves)
    expected = expected_of(__file__)
    findings = judged("Fig. 2", expected, _checks(curves, runs, expected))
    return written(NAME, TITLE, out_dir, files, rows, findings, _notes(chosen, scale))


def _source(source: str | None) -> str:
    if source is None:
        return data_set(SOURCES)[0]
    if source not in SOURCES:
        raise UsageError(f"source: got '{source}', expected one of {', '.join(SOURCES)}")
    from ...data.source import read

    read(source, split="test")
    return source


def _instead(chosen: str, asked: str | None) -> str:
    """Why it is not the paper's data, if it is not."""
    if asked is not None or chosen == SOURCES[0]:
        return ""
    paper = SOURCES[0]
    return f" ({paper}, which the paper used, is not on this machine: put its files into $RELAYTRAIN_DATA/{paper})"


def scenario_tables(source: str, scale: PruningScale, seed: int) -> dict[str, Any]:
    """The scenario behind one seed: nodes, sets, versions, training."""
    digits = source == "digits"
    shrink = 1 if digits else 2
    count = {kind: max(4, images // (scale.shrink_images * (2 if digits else 1))) for kind, images in IMAGES.items()}
    members = {"gold": GOLD, "silver": 2, "bronze": 2}
    nodes = [
        {"name": f"{kind}-{i}", "device": kind, "samples": count[kind]} for kind, n in members.items() for i in range(n)
    ]
    gold = [f"gold-{i}" for i in range(GOLD)]
    joined = {kind: [*gold, f"{kind}-0", f"{kind}-1"] for kind in ("silver", "bronze")}
    family = {"name": "full", "family": "vgg11", "width": scale.width, "parameters": 1000, "flops_per_sample": 1e6}
    pruned = [
        {"name": name, "ratio": share, "parameters": int(1000 * (1 - share)), "flops_per_sample": 1e6 * (1 - share)}
        for name, share in SHARES.items()
    ]
    return {
        "name": "pact-fig2",
        "target": {"loss": 0.01, "deadline": math.inf},
        "start": {"loss": 2.3, "version": "full", "nodes": "gold"},
        "versions": [family, *pruned],
        "nodes": nodes,
        "node_sets": [{"name": "gold", "nodes": gold}, *({"name": k, "nodes": v} for k, v in joined.items())],
        "devices": {
            kind: {"flops_per_s": GOLD_FLOPS_PER_S * speed, "busy_w": 10.0, "idle_w": 1.0}
            for kind, speed in SPEED.items()
        },
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 2.2, "scale": 5.0, "power": 1.0}]},
        "training": {"lr": 0.01, "batch": scale.batch, "seed": seed},
        "data": {"source": source, "seed": seed, "shrink": shrink, "standardise": True, "validation": 0.03},
    }


def _kept(out_dir: Path, source: str, scale: PruningScale, seed: int, told: Progress) -> list[LossCurve]:
    """All curves of one seed, trained or taken from an earlier call."""
    used = {**asdict(scale), "seeds": None, "source": source, "seed": seed}

    def train() -> list[dict[str, Any]]:
        return [asdict(curve) for curve in _train(source, scale, seed, told)]

    rows = kept(out_dir / f"{NAME}-trainings", f"{source}-{seed}", used, train)
    named = ("prune_after", "version", "joining")
    return [
        LossCurve(*(row[n] for n in named), *(tuple(row[n]) for n in ("seconds", "accuracy", "cpu_s"))) for row in rows
    ]


def _train(source: str, scale: PruningScale, seed: int, told: Progress) -> list[LossCurve]:
    """All curves of one seed; the gold epochs before the later pruning are trained once."""
    from ...relay.assembly import job_of
    from ...relay.runner import TorchRunner
    from ...scenario import load_scenario

    runner = job_of(load_scenario(scenario_tables(source, scale, seed))).runner
    assert isinstance(runner, TorchRunner)
    try:
        checkpoint, path, kept = runner.first(), [(0.0, _accuracy(runner, runner.first()), 0.0)], {}
        for epoch in range(1, max(scale.prune_after) + 1):
            checkpoint, point = _epoch(runner, checkpoint, Pair("full", "gold"), epoch, path[-1])
            path.append(point)
            if epoch in scale.prune_after:
                kept[epoch] = (checkpoint, tuple(path))
        curves = []
        for k1, (start, before) in kept.items():
            for version in SHARES:
                for joining in ("silver", "bronze"):
                    curves.append(
                        _branch(runner, start, list(before), Pair(version, joining), (k1, scale.epochs_after))
                    )
                    told(f"{NAME}: seed {seed}, {curves[-1].label}: accuracy {curves[-1].accuracy[-1]:.3f}")
    finally:
        runner.close()
    return curves


def _branch(
    runner: Any, checkpoint: Any, path: list[tuple[float, float, float]], pair: Pair, span: tuple[int, int]
) -> LossCurve:
    k1, after = span
    decision = Decision(k1 + 1, pair.version, pair.nodes)
    handed = runner.hand_over(checkpoint, Pair("full", "gold"), decision, lambda version: None)
    checkpoint = handed.checkpoint
    path.append((path[-1][0], _accuracy(runner, checkpoint), path[-1][2] + handed.cpu_s))  # the sudden drop
    for epoch in range(k1 + 1, k1 + after + 1):
        checkpoint, point = _epoch(runner, checkpoint, pair, epoch, path[-1])
        path.append(point)
    seconds, accuracy, cpu_s = (tuple(float(v) for v in column) for column in zip(*path, strict=True))
    return LossCurve(k1, pair.version, pair.nodes, seconds, accuracy, cpu_s)


def _epoch(runner: Any, checkpoint: Any, pair: Pair, epoch: int, last: tuple[float, float, float]) -> Any:
    result = runner.run_epoch(Decision(epoch, pair.version, pair.nodes), checkpoint, run="pact-fig2")
    seconds = last[0] + _seconds(runner, pair)
    return result.checkpoint, (seconds, result.evaluation.accuracy, last[2] + (result.outcome.cpu_s or 0.0))


def _seconds(runner: Any, pair: Pair) -> float:
    """The slowest node's: images times counted FLOPs over speed; PACT's emulated clock without the network."""
    flops = runner.setup.version_facts()[pair.version].flops_per_sample
    nodes = runner.setup.nodes_of(pair.nodes)
    return float(
        max(len(runner.setup.datasets[n]) * flops / (GOLD_FLOPS_PER_S * SPEED[n.split("-")[0]]) for n in nodes)
    )


def _accuracy(runner: Any, checkpoint: Any) -> float:
    return float(runner.probe(checkpoint).accuracy)


def _averaged(runs: list[list[LossCurve]]) -> tuple[LossCurve, ...]:
    averages = []
    for same in zip(*runs, strict=True):
        first = same[0]
        columns = [
            tuple(float(v) for v in np.mean([getattr(curve, what) for curve in same], axis=0))
            for what in ("seconds", "accuracy", "cpu_s")
        ]
        averages.append(LossCurve(first.prune_after, first.version, first.joining, *columns))
    return tuple(averages)


def _row(curve: LossCurve) -> Row:
    at = curve.prune_after
    left = len(curve.seconds) - at - 2
    return {
        "K1": at,
        "F": SHARES[curve.version],
        "joining": curve.joining,
        "accuracy_before": curve.accuracy[at],
        "accuracy_pruned": curve.accuracy[at + 1],
        "accuracy_end": curve.accuracy[-1],
        "epoch_s": (curve.seconds[-1] - curve.seconds[at + 1]) / left,
        "seconds": curve.seconds[-1],
        "cpu_s_after": curve.cpu_s[-1] - curve.cpu_s[at + 1],
        "cpu_s": curve.cpu_s[-1],
    }


def _draw(curves: tuple[LossCurve, ...]) -> Figure:
    figure = new_figure(9.0, 5.4)
    axes = figure.subplots()
    early = min(curve.prune_after for curve in curves)
    for curve in curves:
        style = {
            "color": COLOURS[curve.version, curve.joining],
            "linestyle": "--" if curve.prune_after == early else "-",
        }
        axes.plot(curve.seconds, curve.accuracy, marker="o", markevery=10, markersize=4, label=curve.label, **style)  # type: ignore[arg-type]
        axes.annotate(
            f"{curve.cpu_s[-1]:.0f}", (curve.seconds[-1], curve.accuracy[-1]), fontsize=7.5, color=style["color"]
        )
    axes.set_xlabel("training time [s, emulated]")
    axes.set_ylabel("accuracy")
    axes.set_title("Marks: every 10 epochs; numbers: CPU seconds spent here")
    legend_below(figure, axes, columns=4)
    return figure


def _checks(
    curves: tuple[LossCurve, ...], runs: list[list[LossCurve]], expected: Mapping[str, Expected]
) -> dict[str, Judgement]:
    rows = {(c.prune_after, c.version, c.joining): _row(c) for c in curves}
    early, late = sorted({c.prune_after for c in curves})
    pairs = [((k, "half", j), (k, "tenth", j)) for k in (early, late) for j in ("silver", "bronze")]
    cpu = [rows[b]["cpu_s_after"] / rows[a]["cpu_s_after"] for a, b in pairs]
    epoch = [rows[b]["epoch_s"] / rows[a]["epoch_s"] for a, b in pairs]
    gaps = {way: np.array([_gain(run, way) for run in runs]) for way in COLOURS}
    by_set = {j: np.mean([gap for (_, joining), gap in gaps.items() if joining == j], axis=0) for j in JOINING}
    later = Interval.of(np.mean(list(gaps.values()), axis=0))
    bronze = Interval.of(by_set["bronze"] - by_set["silver"])
    return {
        "shorter": (
            max(epoch) < 1.0,
            f"F = 0.9 against 0.5 after pruning: {min(epoch):.2f} to {max(epoch):.2f} of an epoch's emulated time",
        ),
        "cheaper": (
            max(cpu) <= expected["cheaper"].limits["share"],
            f"F = 0.9 against 0.5 after pruning: {min(cpu):.2f} to {max(cpu):.2f} of the CPU seconds",
        ),
        "later-is-better": (
            later.verdict,
            f"K1 = {late} against {early}, as many epochs after pruning: {later}; by choice "
            + ", ".join(f"{np.mean(gap):+.1f} (F = {SHARES[v]:g}, {j})" for (v, j), gap in gaps.items()),
        ),
        "bronze-needs-later": (
            bronze.verdict,
            f"gain of K1 = {late} over {early}, bronze less silver: {bronze}; mean gain "
            f"{np.mean(by_set['bronze']):+.1f} points with bronze, {np.mean(by_set['silver']):+.1f} with silver",
        ),
    }


def _gain(run: list[LossCurve], way: tuple[str, str]) -> float:
    """Points of accuracy that the later pruning ends higher by, in one seed; mean of the last epochs, which swing."""
    early, late = sorted((c for c in run if (c.version, c.joining) == way), key=lambda c: c.prune_after)
    last = min(LAST_EPOCHS, len(early.accuracy) - early.prune_after - 2)
    return 100.0 * float(np.mean(late.accuracy[-last:]) - np.mean(early.accuracy[-last:]))


def _notes(source: str, scale: PruningScale) -> tuple[str, ...]:
    images = "/".join(
        str(max(4, n // (scale.shrink_images * (2 if source == "digits" else 1)))) for n in IMAGES.values()
    )
    return (
        f"kept: five gold nodes, two more that join, images in the ratio 8000 : 2500 : 750, speeds 1 : 1/2 : 1/3, K1 = "
        f"{scale.prune_after[0]} and {scale.prune_after[1]}, F = 0.5 and 0.9, SGD with momentum 0.9, cross-entropy",
        f"scaled: {source}, {SIZES[source]} images, {images} a node; VGG11 at {scale.width:g} of its width; "
        f"batch {scale.batch} and learning rate 0.01, so that an epoch of so few images still teaches; "
        f"{scale.epochs_after} epochs after pruning; mean of {scale.seeds} seed{'s' * (scale.seeds > 1)}",
        "time is emulated (images x counted FLOPs / speed of the slowest node), CPU seconds are measured and move from "
        "run to run",
    )

"""PACT figure 7: energy spent on each version by the optimum, PACT and StaticLearn, for three targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, HATCHES, VERSIONS, house_style, legend_below, new_figure, save
from .panels import COST
from .smart_factory_runs import EASY, HARD, Trace, factory, strategies

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "pact-fig7"
TITLE = "PACT Fig. 7: energy by version"
TARGETS = (HARD, 0.30, EASY)
STRATEGIES = ("Optimum", "PACT", "StaticLearn")
Shares = dict[tuple[float, str], dict[str, float]]


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, rule: str | None = None) -> Reproduction:
    """Run the strategies and `rule`, add up the epochs' energy by version, draw and judge."""
    runs = {target: strategies(target, rule) for target in TARGETS}
    shown, file = ((*STRATEGIES, rule), f"{NAME}-{rule}") if rule else (STRATEGIES, NAME)
    shares: Shares = {(t, name): energy_by_version(runs[t][name], t) for t in TARGETS for name in shown}
    with house_style():
        figure = new_figure(12.0 if rule is None else 14.0, 4.0)
        panels = figure.subplots(1, 3)
        for axes, target in zip(panels, TARGETS, strict=True):
            bars(axes, {name: shares[target, name] for name in shown})
            axes.set_title(rf"$\ell^{{max}}$ = {target:g}")
        panels[0].set_ylabel(COST)
        legend_below(figure, panels[0], columns=3)
        files = save(figure, out_dir, file, formats)
    rows: tuple[Row, ...] = tuple(
        {
            "l_max": target,
            "strategy": name,
            **{f"energy_{version}": value for version, value in by_version.items()},
            "switching": runs[target][name].cost - sum(by_version.values()),
            "cost": runs[target][name].cost,
        }
        for (target, name), by_version in shares.items()
    )
    expected = expected_of(__file__)
    findings = judged("Fig. 7", expected, checks(shares, runs, expected))
    notes = ("the energy of the switches themselves is left out of the bars (column `switching` of the table)",)
    return written(file, TITLE, out_dir, files, rows, findings, notes)


def energy_by_version(trace: Trace, target: float) -> dict[str, float]:
    """Energy of the epochs trained with each version, switches left out."""
    where = factory(target)
    by_version = {pair.version: float(j) for pair, j in zip(where.problem.pairs, where.costs.run_j, strict=True)}
    return {version: trace.epochs(version) * joules for version, joules in by_version.items()}


def bars(axes: Axes, by_strategy: Mapping[str, Mapping[str, float]]) -> None:
    """Three bars a strategy."""
    width = 0.26
    for i, version in enumerate(VERSIONS):
        values = [shares[version] for shares in by_strategy.values()]
        places = [place + (i - 1) * width for place in range(len(values))]
        bars = axes.bar(
            places,
            values,
            0.9 * width,
            label=f"version {version}",
            color=VERSIONS[version],
            hatch=HATCHES[version],
            edgecolor="#444444",
            linewidth=0.6,
        )
        axes.bar_label(bars, [f"{value:.1f}" if value else "0" for value in values], padding=2, fontsize=8)
    axes.set_xticks(range(len(by_strategy)), list(by_strategy))
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.12)


def checks(
    shares: Shares, runs: Mapping[float, Mapping[str, Trace]], expected: Mapping[str, Expected]
) -> dict[str, Judgement]:
    """The verdict on every finding; strategies are called as in `STRATEGIES`."""

    def apart(target: float, name: str) -> float:
        best = shares[target, "Optimum"]
        return sum(abs(shares[target, name][v] - best[v]) for v in VERSIONS) / sum(best.values())

    limit = expected["alike-when-easy"].limits["share_of_energy"]
    easy = TARGETS[1:]
    pact, static = shares[HARD, "PACT"], shares[HARD, "StaticLearn"]
    without_s = {t: all(shares[t, name]["S"] == 0 for name in ("Optimum", "PACT")) for t in TARGETS}
    switches = ", ".join(f"{len(runs[t]['PACT'].switches)} at {t:g}" for t in TARGETS)
    used = ", ".join(f"{shares[t, 'PACT']['S']:.1f} at {t:g}" for t in TARGETS)
    return {
        "pact-like-optimum": (
            all(apart(t, "PACT") <= limit for t in easy),
            "energy moved between versions, PACT against the optimum: "
            + ", ".join(f"{apart(t, 'PACT'):.0%} at {t:g}" for t in easy),
        ),
        "alike-when-easy": (
            all(apart(t, name) <= limit for t in easy for name in ("PACT", "StaticLearn")),
            "energy moved between versions, StaticLearn against the optimum: "
            + ", ".join(f"{apart(t, 'StaticLearn'):.0%} at {t:g}" for t in easy),
        ),
        "more-on-l": (
            pact["L"] > static["L"] and pact["S"] < static["S"],
            f"at {HARD:g}: L {pact['L']:.1f} (StaticLearn {static['L']:.1f}), S {pact['S']:.1f} ({static['S']:.1f})",
        ),
        "no-s-as-printed": (without_s[HARD], f"PACT's energy on S: {used}"),
        "no-s-when-easy": (
            all(without_s[t] and len(runs[t]["PACT"].switches) <= 1 for t in easy) and not without_s[HARD],
            f"PACT's energy on S: {used}; its switches: {switches}",
        ),
    }

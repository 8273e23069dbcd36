"""PACT figure 6: PACT and the benchmark strategies; cost by target loss, loss and cost over time at l_max = 0.15."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from ..expected import Expected, Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import BESIDE, DEFAULT_FORMATS, STRATEGIES, house_style, legend_below, new_figure, save
from .panels import cost_by_target, over_time, zoom
from .smart_factory_runs import EASY, HARD, LOSS_STEP, TARGETS, Trace, closed_loop, factory, strategies
from .sweep import beside_note

NAME = "pact-fig6"
TITLE = "PACT Fig. 6: PACT and benchmark strategies"
Runs = dict[float, dict[str, Trace]]


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, rule: str | None = None) -> Reproduction:
    """Run the four strategies, and `rule` beside them, for every target, draw and judge."""
    runs: Runs = {target: strategies(target, rule) for target in TARGETS}
    styles, name = ({**STRATEGIES, rule: BESIDE}, f"{NAME}-{rule}") if rule else (STRATEGIES, NAME)
    costs = {strategy: {target: runs[target][strategy].cost for target in TARGETS} for strategy in styles}
    with house_style():
        figure = new_figure(12.5, 4.3)
        left, centre, right = figure.subplots(1, 3)
        cost_by_target(left, costs, styles)
        left.set_title("Cost by target")
        at_hard = list(runs[HARD].values())
        over_time(centre, at_hard, styles, what="loss", target=HARD)
        centre.set_title(rf"Loss at $\ell^{{max}}$ = {HARD:g}; marks: switches and end")
        over_time(right, at_hard, styles, what="cost", target=HARD)
        right.set_title(rf"Cost at $\ell^{{max}}$ = {HARD:g}; marks: switches and end")
        close = {"times": (176, 190), "values": (91.0, 94.5)}
        zoom(right, at_hard[:2], styles, what="cost", box=(0.62, 0.08, 0.36, 0.3), **close)
        legend_below(figure, left, columns=len(styles))
        files = save(figure, out_dir, name, formats)
    rows = table(runs)
    expected = expected_of(__file__)
    paper = {target: {s: trace for s, trace in by_name.items() if s in STRATEGIES} for target, by_name in runs.items()}
    findings = judged("Fig. 6", expected, checks(paper, expected))
    exact = closed_loop("PACT without a grid", factory(HARD), grid=None)
    best = runs[HARD]["Optimum"].cost
    notes: tuple[str, ...] = (
        f"PACT: rule `robust`, gamma_l = {LOSS_STEP:g}; without a grid it costs {exact.cost:.1f} at {HARD:g} "
        f"(the optimum {best:.1f})",
        "StaticLearn: gains within 5 % of the whole fall, widened by half as often as whole epochs allow no such plan",
    )
    if rule:
        notes = (*notes, beside_note(rule, *({t: runs[t][name] for t in TARGETS} for name in (rule, "Optimum"))))
    return written(name, TITLE, out_dir, files, rows, findings, notes)


def table(runs: Mapping[float, Mapping[str, Trace]]) -> tuple[Row, ...]:
    """One row for every target and strategy."""
    return tuple(
        {
            "l_max": target,
            "strategy": name,
            **trace.row(by_name["Optimum"]),
        }
        for target, by_name in runs.items()
        for name, trace in by_name.items()
    )


def checks(runs: Runs, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    """The verdict on every finding; the runs of a target are called as in `STRATEGIES`."""
    return _cost_checks(runs, expected) | _time_checks(runs[HARD], expected)


def _cost_checks(runs: Runs, expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    """The left panel."""

    def over(target: float, name: str) -> float:
        return runs[target][name].cost / runs[target]["Optimum"].cost

    def gaps(name: str) -> dict[float, float]:
        return {target: runs[target][name].cost - runs[target]["Optimum"].cost for target in TARGETS}

    def listed(values: Mapping[float, float]) -> str:
        return ", ".join(f"{value:.1f} at {target:g}" for target, value in values.items())

    def grows(values: Mapping[float, float]) -> bool:
        steady = all(values[tighter] >= values[t] - 1e-9 for tighter, t in pairwise(TARGETS))
        return steady and values[HARD] > values[EASY]

    hard, easy = runs[HARD], runs[EASY]
    others = ("OneSwitch", "StaticLearn")
    better = {target: min(runs[target][name].cost for name in others) for target in TARGETS}
    behind = [target for target in TARGETS if runs[target]["PACT"].cost > better[target] + 1e-9]
    costs = ", ".join(f"{name} {trace.cost:.1f}" for name, trace in hard.items())
    worst = max(TARGETS, key=lambda target: over(target, "PACT"))
    alike = expected["alike-when-easy"].limits["ratio"]
    switches = {target: len(runs[target]["Optimum"].switches) for target in TARGETS}
    pact_switches = {target: len(runs[target]["PACT"].switches) for target in TARGETS}
    return {
        "near-optimum": (
            over(worst, "PACT") <= expected["near-optimum"].limits["ratio"],
            f"at most {over(worst, 'PACT'):.3f} times the optimum (at {worst:g}); {over(HARD, 'PACT'):.3f} at {HARD:g}",
        ),
        "beats-when-hard": (all(hard["PACT"].cost < hard[name].cost for name in others), f"at {HARD:g}: {costs}"),
        "never-behind": (
            not behind,
            "PACT is dearer than the better benchmark at: "
            + (", ".join(f"{t:g} ({runs[t]['PACT'].cost:.1f}, not {better[t]:.1f})" for t in behind) or "no target"),
        ),
        "one-switch-worst": (hard["OneSwitch"].cost == max(t.cost for t in hard.values()), f"at {HARD:g}: {costs}"),
        "alike-when-easy": (
            all(over(EASY, name) <= alike for name in STRATEGIES),
            f"at {EASY:g}: " + ", ".join(f"{name} {trace.cost:.1f}" for name, trace in easy.items()),
        ),
        "one-switch-alike": (
            all(over(target, "OneSwitch") <= alike for target in TARGETS[1:]),
            f"from {TARGETS[1]:g} up at most {max(over(t, 'OneSwitch') for t in TARGETS[1:]):.3f} times the optimum",
        ),
        "one-switch-diverges": (grows(gaps("OneSwitch")), f"cost above the optimum: {listed(gaps('OneSwitch'))}"),
        "static-diverges": (grows(gaps("StaticLearn")), f"cost above the optimum: {listed(gaps('StaticLearn'))}"),
        "few-switches": (
            switches[HARD] == pact_switches[HARD] == 2
            and all(max(switches[t], pact_switches[t]) <= 1 for t in TARGETS[1:]),
            "switches of the optimum: " + ", ".join(f"{count} at {target:g}" for target, count in switches.items()),
        ),
    }


def _time_checks(hard: Mapping[str, Trace], expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    """The centre and right panels, at the tightest target."""
    optimum, pact, one, static = (hard[name] for name in ("Optimum", "PACT", "OneSwitch", "StaticLearn"))
    shift = max((abs(mine - best) for mine, best in zip(_times(pact), _times(optimum), strict=False)), default=0.0)
    share = shift / optimum.elapsed
    rises = {name: [t.losses[s.epoch + 1] > t.losses[s.epoch] for s in t.switches] for name, t in hard.items()}
    return {
        "peaks": (
            all(rises["PACT"]) and all(rises["Optimum"]),
            f"the loss rises in {sum(map(sum, rises.values()))} of {sum(map(len, rises.values()))} switching epochs",
        ),
        "same-times": (
            len(pact.switches) == len(optimum.switches) and share <= expected["same-times"].limits["share_of_run"],
            f"L to M after {pact.epochs('L')} epochs (optimum {optimum.epochs('L')}), M to S at time "
            f"{_last(pact):.0f} ({_last(optimum):.0f}): {share:.1%} of the run apart",
        ),
        "one-switch-later": (
            one.epochs("L") > pact.epochs("L"),
            f"OneSwitch leaves L after {one.epochs('L')} epochs, PACT after {pact.epochs('L')}",
        ),
        "static-leaves-l-earlier": (
            static.epochs("L") < pact.epochs("L"),
            f"StaticLearn leaves L after {static.epochs('L')} epochs, PACT after {pact.epochs('L')}",
        ),
        "static-leaves-m-later": (
            _last(static) > _last(pact),
            f"StaticLearn leaves M at time {_last(static):.0f}, PACT at {_last(pact):.0f}",
        ),
        "static-finishes-later": (
            static.elapsed == max(trace.elapsed for trace in hard.values()),
            "time to the target: " + ", ".join(f"{name} {trace.elapsed:.0f}" for name, trace in hard.items()),
        ),
        "earlier-but-dearer": (
            pact.elapsed < optimum.elapsed
            and 1 < pact.cost / optimum.cost <= expected["earlier-but-dearer"].limits["ratio"],
            f"PACT: time {pact.elapsed:.1f}, cost {pact.cost:.1f}; optimum: {optimum.elapsed:.1f}, {optimum.cost:.1f}",
        ),
    }


def _times(trace: Trace) -> tuple[float, ...]:
    return tuple(switch.elapsed for switch in trace.switches)


def _last(trace: Trace) -> float:
    """When the last switch was made; the end where there was none."""
    return _times(trace)[-1] if trace.switches else trace.times[-1]

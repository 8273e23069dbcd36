"""The presets hold the papers' figures, and every checked case can be written as a scenario."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relaytrain
from relaytrain.core.law import EpochLaw, LevelLaw
from relaytrain.core.problem import Pair
from relaytrain.core.state import Grid
from relaytrain.scenario import Scenario, json_schema, load_scenario, new_scenario_text, preset_names
from relaytrain.scenario.read import PRESETS

CASES = sorted((Path(__file__).parent.parent / "conformance" / "cases").rglob("*.json"))
INF = math.inf
# Robust figures are products written out in the case files: a few units in the last place apart.
CLOSE = 1e-12


def same(one: Scenario, other: Scenario) -> None:
    """Equal in all that planners see, not only in `resolved`."""
    assert one.problem == other.problem
    for name in ("run_s", "run_j", "change_s", "change_j", "spread"):
        np.testing.assert_array_equal(getattr(one.costs, name), getattr(other.costs, name))
    assert one.costs.reasons == other.costs.reasons
    assert one.costs.provenance == other.costs.provenance
    for level in ("expected", 0.95, 0.7):
        for a, b in zip(one.law.form(level), other.law.form(level), strict=True):  # type: ignore[arg-type]
            np.testing.assert_array_equal(a, b)
    assert repr(one.depl) == repr(other.depl)
    assert (one.planner, one.world, one.training, one.data, one.prior) == (
        other.planner, other.world, other.training, other.data, other.prior)  # fmt: skip


@pytest.mark.parametrize("name", preset_names())
def test_resolved_gives_an_equal_scenario(name: str) -> None:
    scenario = load_scenario(name)
    again = load_scenario(json.loads(json.dumps(scenario.resolved, allow_nan=False)))
    assert again == scenario
    assert again.digest == scenario.digest
    assert hash(again) == hash(scenario)
    same(again, scenario)


@pytest.mark.parametrize("name", preset_names())
def test_presets_say_what_they_are(name: str) -> None:
    first, second, *_ = (PRESETS / f"{name}.toml").read_text().splitlines()
    assert first == "#:schema ../scenario.schema.json"
    assert second.startswith("# ")
    assert load_scenario(name).warnings == ()


def test_the_presets() -> None:
    known = [
        "deeper",
        "depl_alexnet",
        "depl_digits",
        "depl_mobilenet",
        "depl_placement",
        "epoch_example",
        "far_pipeline",
        "fashion",
        "fig5",
        "quickstart",
        "smart_factory",
        "worlds",
    ]
    assert preset_names() == known


def test_smart_factory_is_the_papers() -> None:
    scenario = load_scenario("smart_factory")
    assert scenario.problem.pairs == (Pair("L", "gold"), Pair("M", "silver"), Pair("S", "bronze"))
    assert scenario.problem.target.deadline_s == 1000
    np.testing.assert_array_equal(scenario.costs.run_s, [1, 0.8, 0.5])
    np.testing.assert_array_equal(scenario.costs.run_j, [1, 0.5, 0.2])
    np.testing.assert_array_equal(scenario.costs.change_s, [[0, 0.3, 0.3], [INF, 0, 0.3], [INF, INF, 0]])
    assert scenario.costs.why_not(1, 0) == "pruned weights cannot be restored"
    assert scenario.costs.provenance == "assumed"
    case = next(json.loads(p.read_text()) for p in CASES if p.stem == "reference_015_slack")
    same_law(scenario, case)


def test_fig5_is_the_papers() -> None:
    case = next(json.loads(p.read_text()) for p in CASES if p.stem == "fig5_toy")
    scenario = load_scenario("fig5")
    same_problem(scenario, case)
    same_law(scenario, case)
    assert scenario.planner.grid == Grid(case["gamma_l"], case["gamma_T"], case["l_hi"])


def test_worlds() -> None:
    scenario = load_scenario("worlds")
    np.testing.assert_array_equal(scenario.costs.run_s, [1, 0.75, 0.5])
    world = scenario.world
    assert (world.progress_noise_sd, world.bias_sd, world.bias_low, world.bias_high) == (0.15, 0.12, 0.5, 1.4)
    assert (world.jump_bias_sd, world.robust_shading, world.robust_jump_factor) == (0.2, (0.15, 0.4), 1.3)
    drawn = world.random
    assert drawn is not None
    assert (drawn.floor, drawn.scale, drawn.power) == ((0.8, 1.15), (0.7, 1.3), (0.9, 1.15))
    assert (drawn.target_loss, drawn.change_cost, drawn.back_jump) == ((0.2, 0.42), (0.25, 0.5), 0.05)
    assert (drawn.slack_factor, drawn.slack_extra_s, drawn.tight_factor, drawn.tight_share) == (
        1.6,
        5,
        1.1,
        (0.15, 0.8),
    )
    assert sorted((j.before, j.now, j.low, j.high, j.per_loss) for j in drawn.jumps) == [
        (0, 1, 0.005, 0.03, 0.02), (0, 2, 0.04, 0.12, 0.04), (1, 2, 0.005, 0.03, 0.02)]  # fmt: skip


def test_a_world_without_a_table_is_noisy_but_not_random() -> None:
    world = load_scenario("smart_factory").world
    assert (world.progress_noise_sd, world.bias_sd, world.random) == (0.15, 0.12, None)


def test_quickstart_is_a_relay_of_three_legs() -> None:
    scenario = load_scenario("quickstart")
    assert scenario.costs.provenance == "modelled"
    reason = scenario.costs.why_not(0, 1)
    assert reason is not None and reason.startswith("full needs ") and "edge-1 of silver has " in reason
    plan = relaytrain.plan("quickstart", planner="optimum")
    assert [(leg.version, leg.nodes) for leg in plan.legs] == [
        ("full", "gold"),
        ("medium", "silver"),
        ("small", "bronze"),
    ]
    assert plan.elapsed_s < scenario.problem.target.deadline_s


def test_epoch_example_has_tables() -> None:
    law = load_scenario("epoch_example").law
    assert isinstance(law, EpochLaw)
    assert law.run.shape == (60, 4)
    assert law.change.shape == (8, 4, 4)
    assert not law.autonomous


def test_the_schema_file_is_current() -> None:
    written = (PRESETS.parent / "scenario.schema.json").read_text()
    assert json.loads(written) == json_schema(), "write it again with: relaytrain schema"


def test_a_new_scenario_validates(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(new_scenario_text("my"))
    scenario = load_scenario(path)
    assert scenario.name == "my"
    (words,) = scenario.warnings
    assert "plans are guesses" in words
    assert relaytrain.plan(path).guess


# --- every checked case as a scenario


def side(case: dict[str, Any], index: int) -> str:
    m, n = case["pairs"][index]
    return f"{case['models'][m]} on {case['nodes'][n]}"


def as_tables(case: dict[str, Any]) -> dict[str, Any]:
    """A case file as scenario tables; null stays null, which is infinity."""
    pairs = case["pairs"]
    named = [{"version": case["models"][m], "nodes": case["nodes"][n]} for m, n in pairs]
    changes, jumps = [], []
    law = case["law"]
    level = law["kind"] == "level"
    for i, (m, _) in enumerate(pairs):
        for j, (q, _) in enumerate(pairs):
            if i == j:
                continue
            ends = {"from": side(case, i), "to": side(case, j)}
            changes.append({**ends, "seconds": case["tau_change"][i][j], "energy": case["eps_change"][i][j]})
            if m == q:
                continue
            if level:
                plain, robust = law["est"]["exp"], law["est"]["rob"]
                jumps.append({**ends, "jump": plain["c0"][m][q], "jump_per_loss": plain["c1"][m][q],
                              "robust_jump": robust["c0"][m][q],
                              "robust_jump_per_loss": robust["c1"][m][q]})  # fmt: skip
            else:
                jumps.append({**ends, "jump": by_epoch(law["change"]["exp"], m, q),
                              "robust_jump": by_epoch(law["change"]["rob"], m, q)})  # fmt: skip
    tables: dict[str, Any] = {"kind": law["kind"], "jumps": jumps}
    if level:
        long = {"a": "floor", "b": "drop", "s": "scale", "alpha": "power"}
        tables["curves"] = [
            {**named[p], "progress": law["est"]["exp"]["mult"][p], "robust_progress": law["est"]["rob"]["mult"][p],
             **{long[k]: v for k, v in law["est"]["exp"]["curves"][p].items()},
             **{f"robust_{long[k]}": v for k, v in law["est"]["rob"]["curves"][p].items()}}
            for p in range(len(pairs))
        ]  # fmt: skip
    else:
        tables["steps"] = [
            {
                **named[p],
                "change": [row[p] for row in law["run"]["exp"]],
                "robust_change": [row[p] for row in law["run"]["rob"]],
            }
            for p in range(len(pairs))
        ]
    start = named[case["start"]]
    return {
        "name": case["name"],
        "units": {"time": "", "energy": ""},
        "target": {"loss": case["l_max"], "deadline": case["T_max"]},
        "start": {"loss": case["l0"], **start},
        "versions": [{"name": name} for name in case["models"]],
        "node_sets": [{"name": name} for name in case["nodes"]],
        "pairs": [{**named[p], "seconds": case["tau_run"][p], "energy": case["eps_run"][p]} for p in range(len(pairs))],
        "changes": changes,
        "law": tables,
        "planner": {"grid": {"loss_step": case["gamma_l"], "time_step": case["gamma_T"], "loss_top": case["l_hi"]}},
    }


def by_epoch(table: Any, m: int, q: int) -> Any:
    deep = isinstance(table[0][0], list)
    return [row[m][q] for row in table] if deep else table[m][q]


def number(value: float | None) -> float:
    return INF if value is None else value


def same_problem(scenario: Scenario, case: dict[str, Any]) -> None:
    assert [str(p) for p in scenario.problem.pairs] == [side(case, i) for i in range(len(case["pairs"]))]
    assert scenario.problem.start == case["start"]
    assert (scenario.problem.initial_loss, scenario.problem.target.loss) == (case["l0"], case["l_max"])
    assert scenario.problem.target.deadline_s == case["T_max"]
    for name, key in {"run_s": "tau_run", "run_j": "eps_run"}.items():
        np.testing.assert_array_equal(getattr(scenario.costs, name), [number(v) for v in case[key]])
    for name, key in {"change_s": "tau_change", "change_j": "eps_change"}.items():
        np.testing.assert_array_equal(getattr(scenario.costs, name), [[number(v) for v in row] for row in case[key]])


def case_step(case: dict[str, Any], estimate: str, epoch: int, loss: float, before: int, now: int) -> float:
    """One step as the cases' own README writes it."""
    law, m, q = case["law"], case["pairs"][before][0], case["pairs"][now][0]
    if law["kind"] == "epoch":
        change = law["change"][estimate]
        table = change[min(epoch, len(change)) - 1] if isinstance(change[0][0], list) else change
        rows = law["run"][estimate]
        jump = 0.0 if m == q else number(table[m][q])
        return max(0.0, loss + jump + rows[min(epoch, len(rows)) - 1][now])
    figures = law["est"][estimate]
    mid = loss if m == q else loss + number(figures["c0"][m][q]) + figures["c1"][m][q] * loss
    a, b, s, alpha = (figures["curves"][now][k] for k in ("a", "b", "s", "alpha"))
    if mid <= a or math.isinf(mid):
        return mid
    u = ((mid - a) / b) ** (-1 / alpha)
    return max(0.0, mid + figures["mult"][now] * (a + b * (u + 1 / s) ** -alpha - mid))


def same_law(scenario: Scenario, case: dict[str, Any]) -> None:
    count = len(case["pairs"])
    for estimate, level in (("exp", "expected"), ("rob", 0.95)):
        for before in range(count):
            for now in range(count):
                for epoch in (1, 2, 7, 100):
                    for loss in (0.05, 0.4, 1.0, 1.15):
                        got = scenario.law.next_loss(epoch, np.array([loss]), before, now, level)[0]  # type: ignore[arg-type]
                        want = case_step(case, estimate, epoch, loss, before, now)
                        assert got == want or abs(got - want) <= CLOSE, (estimate, before, now, epoch, loss)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_every_case_can_be_written(path: Path) -> None:
    case = json.loads(path.read_text())
    if case.get("kind", "pact") not in ("pact",):
        pytest.skip(f"a case of kind {case['kind']}: only PACT's are scenarios of this form")
    scenario = load_scenario(as_tables(case))
    same_problem(scenario, case)
    same_law(scenario, case)
    assert isinstance(scenario.law, LevelLaw if case["law"]["kind"] == "level" else EpochLaw)
    assert load_scenario(scenario.resolved) == scenario

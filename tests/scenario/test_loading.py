"""Loading: overrides, leaving nodes out, lines in messages, JSON's null, plain units, rules that build on each
other."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from malformed import BASE, EPOCH

from relaytrain import api
from relaytrain.core.errors import ScenarioError
from relaytrain.core.law import LevelLaw
from relaytrain.core.problem import Pair
from relaytrain.scenario import apply_overrides, load_scenario, scenario_from
from relaytrain.scenario.lines import find_line


def base(**tables: Any) -> dict[str, Any]:
    return {**tomllib.loads(BASE), **tables}


# --- --set


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("target.loss=0.2", lambda s: s.problem.target.loss == 0.2),
        ("target.deadline=5m", lambda s: s.problem.target.deadline_s == 300),
        ('target.deadline="5m"', lambda s: s.problem.target.deadline_s == 300),
        (" target . deadline = 7 ", lambda s: s.problem.target.deadline_s == 7),
        ("versions.L.parameters=77", lambda s: s.problem.versions[0].parameters == 77),
        ("versions.1.parameters=77", lambda s: s.problem.versions[1].parameters == 77),
        ('pairs."L on gold".seconds=4', lambda s: s.costs.run_s[0] == 4),
        ("pairs.0.energy=inf", lambda s: math.isinf(s.costs.run_j[0])),
        ("devices.box.busy_w=80 W", lambda s: s.resolved["devices"]["box"]["busy_w"] == 80),
        ("costs.grow_back=true", lambda s: math.isfinite(s.costs.change_s[1, 0])),
        ("law.curves.0.progress=[1.0, 0.5]", lambda s: s.law.mult.shape == (2, 2)),
        ("training.lr=0.1", lambda s: s.training["lr"] == 0.1 and s.training["batch"] == 64),
        ("name=other", lambda s: s.name == "other"),
    ],
)
def test_overrides(override: str, read: Any) -> None:
    assert read(load_scenario(base(), [override]))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("target.loss", "key=value"), ("=3", "expected"), ("target..loss=3", "expected"), ("target.loss=x",
        "target.loss"),
        ("target.los=0.2", "did you mean 'loss'"), ("versions.Q.parameters=1", "one of L, S"),
        ("versions.9.parameters=1", "index below 2"), ("target.loss.x=1", "plain value"), ("a;b=1", "expected"),
        ("target.loss=0.1\nx=2", "key=value"), ("target.loss=nan", "--set target.loss=nan"),
        (".".join("a" * 50) + "=1", "expected"),
    ],
)  # fmt: skip
def test_bad_overrides(override: str, says: str) -> None:
    with pytest.raises(ScenarioError, match="expected") as caught:
        load_scenario(base(), [override])
    assert says in str(caught.value)


def test_one_override_needs_no_list() -> None:
    whole = load_scenario("quickstart")
    assert scenario_from(whole, "target.loss=0.9").problem.target.loss == 0.9
    assert scenario_from(whole, without="silver").problem == load_scenario("quickstart", without="silver").problem
    assert load_scenario("quickstart", "target.loss=0.9").problem.target.loss == 0.9
    assert api.plan("quickstart", estimator="zero-trace", overrides="target.loss=0.9").target_loss == 0.9
    assert set(apply_overrides(base(), "target.loss=0.2")[1]) == {("target", "loss")}


def test_overrides_leave_the_original_alone() -> None:
    data = base()
    changed, places = apply_overrides(data, ["target.loss=0.2", "versions.S.parameters=5"])
    assert data == base()
    assert changed["target"]["loss"] == 0.2
    assert set(places) == {("target", "loss"), ("versions", 1, "parameters")}


# --- --without


def test_without_a_node_set() -> None:
    scenario = load_scenario("smart_factory", without=["silver"])
    assert scenario.problem.pairs == (Pair("L", "gold"), Pair("S", "bronze"))
    full = load_scenario("smart_factory")
    np.testing.assert_array_equal(scenario.costs.change_s, full.costs.change_s[np.ix_([0, 2], [0, 2])])
    assert load_scenario(scenario.resolved) == scenario


def test_without_a_node_drops_every_set_that_holds_it() -> None:
    scenario = load_scenario("quickstart", without=["edge-2"])
    assert {pair.nodes for pair in scenario.problem.pairs} == {"gold", "bronze"}


def test_without_the_start_starts_elsewhere_and_says_so() -> None:
    scenario = load_scenario("smart_factory", without=["gold"])
    assert scenario.problem.pairs[scenario.problem.start] == Pair("M", "silver")
    assert "left out" in scenario.warnings[0]


def test_without_drops_rules_that_name_the_set() -> None:
    scenario = load_scenario(base(), without=["b"])  # iron holds b
    assert scenario.problem.pairs == (Pair("L", "gold"),)


@pytest.mark.parametrize(
    ("names", "says"), [(["gold", "iron"], "left"), (["irn"], "did you mean 'iron'"), ([""], "got")]
)
def test_without_too_much(names: list[str], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        load_scenario(base(), without=names)


# --- where things stand


def test_lines_of_toml() -> None:
    assert find_line(BASE, ("target", "loss"), json=False) == 5
    rows = BASE.splitlines()
    assert rows[(find_line(BASE, ("versions", 1, "parameters"), json=False) or 0) - 1] == "parameters = 100"
    assert rows[(find_line(BASE, ("law", "jumps", 0, "jump"), json=False) or 0) - 1] == "jump = 0.02"
    assert rows[(find_line(BASE, ("node_sets", 1, "nodes", 1), json=False) or 0) - 1] == 'nodes = ["a", "b"]'
    assert find_line(BASE, ("nowhere",), json=False) is None


def test_lines_of_json() -> None:
    text = json.dumps(tomllib.loads(BASE), indent=1)
    rows = text.splitlines()
    assert "0.3" in rows[(find_line(text, ("target", "loss"), json=True) or 0) - 1]
    assert "100" in rows[(find_line(text, ("versions", 1, "parameters"), json=True) or 0) - 1]
    assert '"b"' in rows[(find_line(text, ("node_sets", 1, "nodes", 1), json=True) or 0) - 1]


# --- forms


def test_json_and_toml_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(json.dumps(tomllib.loads(BASE)))
    assert load_scenario(path) == load_scenario(tomllib.loads(BASE))


def test_null_is_infinity_where_a_table_allows_it() -> None:
    data = base()
    data["changes"][0]["seconds"] = None
    assert math.isinf(load_scenario(data).costs.change_s[0, 1])
    data["costs"]["batch"] = None
    with pytest.raises(ScenarioError, match=r"costs\.batch: got null"):
        load_scenario(data)


def test_the_name_comes_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "my first (try).toml"
    path.write_text(EPOCH)
    scenario = load_scenario(path)
    assert scenario.name == "my-first-try"
    assert scenario.source == path
    assert scenario.folder == tmp_path


def test_pairs_default_to_all_and_start_to_the_first() -> None:
    data = tomllib.loads(EPOCH)
    del data["pairs"]
    data["versions"] = [
        {"name": "L", "parameters": 10, "flops_per_sample": 1e6},
        {"name": "S", "parameters": 5, "flops_per_sample": 1e5},
    ]
    data["nodes"] = [{"name": "a", "device": "xeon-core", "samples": 10}]
    data["node_sets"] = [{"name": "x", "nodes": ["a"]}, {"name": "y", "nodes": ["a"], "mode": "pipeline"}]
    problem = load_scenario(data).problem
    assert problem.pairs == (Pair("L", "x"), Pair("L", "y"), Pair("S", "x"), Pair("S", "y"))
    assert problem.start == 0
    assert problem.mode_of("y") == "pipeline"


def test_later_rules_win_key_by_key() -> None:
    data = base(changes=[
        {"seconds": 1, "energy": 2},
        {"from": "L", "seconds": 3},
        {"from": "* on gold", "to": "S on iron", "energy": 4},
        {"kind": "nodes", "seconds": 9},
    ])  # fmt: skip
    costs = load_scenario(data).costs
    assert (costs.change_s[0, 1], costs.change_j[0, 1]) == (3, 4)
    assert (costs.change_s[1, 0], costs.change_j[1, 0]) == (1, 2)
    np.testing.assert_array_equal(np.diag(costs.change_s), 0)


def test_robust_jumps_follow_a_new_expected_figure() -> None:
    data = base()
    data["law"]["robust_jump_factor"] = 2.0
    data["law"]["jumps"] = [{"jump": 0.1, "robust_jump": 0.5}, {"from": "L", "to": "S", "jump": 0.2}]
    law = load_scenario(data).law
    assert isinstance(law, LevelLaw)
    assert law.jump0_robust is not None
    assert law.jump0[0, 1] == 0.2
    assert law.jump0_robust[0, 1] == 0.4
    assert law.jump0_robust[1, 0] == 0.5


def test_odd_laws_are_named() -> None:
    data = base()
    data["law"]["robust_progress"] = 1.5
    assert any("robust" in w for w in load_scenario(data).warnings)
    data["law"]["curves"][0].update(progress=50.0, scale=0.5)
    assert any("monotone" in w for w in load_scenario(data).warnings)


def test_free_changes_are_named() -> None:
    data = tomllib.loads(EPOCH)
    data["versions"].append({"name": "S"})
    data["pairs"].append({"version": "S", "nodes": "gold", "seconds": 1, "energy": 1})
    assert load_scenario(data).warnings == (
        "changes: nothing given for L on gold -> S on gold and 1 more: taken as free",
    )


def test_shipped_profiles_are_copied_into_the_resolved_scenario() -> None:
    scenario = load_scenario(base())
    assert set(scenario.resolved["devices"]) == {"box", "jetson-nano"}
    assert "flops_per_s" in scenario.resolved["devices"]["jetson-nano"]["source"]


def test_numpy_and_tuples_are_taken_for_what_they_are() -> None:
    data = base()
    data["target"]["loss"] = np.float64(0.3)
    data["node_sets"][1]["nodes"] = ("a", "b")
    assert load_scenario(data) == load_scenario(base())

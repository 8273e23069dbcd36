"""Every verb as a user meets it: results on stdout, the rest on stderr, JSON that says the same as Python."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

import relaytrain as rt
from relaytrain.cli import app
from relaytrain.scenario import preset_names

SLOW = pytest.mark.slow

VERBS = ("plan", "compare", "simulate", "front", "validate", "new", "schema", "reproduce")
SCREEN_ROWS, SCREEN_COLUMNS = 50, 120


def test_help_names_every_verb_and_fits_a_screen(relaytrain):
    shown = relaytrain("--help")
    assert shown.status == 0 and shown.err == ""
    assert all(f"\n  {verb} " in shown.out for verb in VERBS)
    for verb in ((), *((verb,) for verb in VERBS)):
        text = relaytrain(*verb, "--help").out
        lines = text.splitlines()
        assert len(lines) <= SCREEN_ROWS and max(map(len, lines)) <= SCREEN_COLUMNS
        assert "relaytrain " in text.partition("Options:")[2], "help shows how to call it"
        assert "\\[" not in text


def test_the_quick_list_of_verbs_is_that_of_the_whole_command_line(relaytrain, capsys):
    shown = [relaytrain().out, relaytrain("--help").out, relaytrain("-h").out]
    app._app((*app.VERBS, *app.GROUPS))(args=["--help"], prog_name="relaytrain", standalone_mode=False)
    assert shown == [capsys.readouterr().out] * 3


def test_plan_without_a_scenario_is_the_quickstart(relaytrain):
    assert relaytrain("plan").out == relaytrain("plan", "quickstart").out


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW) if n == "depl_digits" else n for n in preset_names()])
def test_plan_text_and_json_say_what_python_says(relaytrain, name):
    expected = rt.plan(name)
    text = relaytrain("plan", name)
    assert text.out == expected.explain() + "\n"
    answer = relaytrain("plan", name, "--format", "json")
    assert json.loads(answer.out) == json.loads(json.dumps(expected.to_dict()))
    assert text.status == answer.status == (0 if expected.met else 4)
    assert answer.err == ""


def test_plan_options_reach_the_planner(relaytrain):
    call = relaytrain(
        "plan", "smart_factory", "--planner", "one_switch", "--set", "target.deadline=300", "--format", "json"
    )
    plan = json.loads(call.out)
    assert plan["planner"] == "one-switch" and plan["target"]["deadline_s"] == 300
    assert len(plan["legs"]) <= 2
    robust = relaytrain("plan", "smart_factory", "--rule", "robust", "--format", "json")
    assert json.loads(robust.out)["planner"] == "pact/robust"
    left_out = json.loads(relaytrain("plan", "smart_factory", "--without", "silver", "--format", "json").out)
    assert {leg["nodes"] for leg in left_out["legs"]} <= {"gold", "bronze"}


def test_an_infeasible_target_exits_4_with_the_way_out(relaytrain):
    call = relaytrain("plan", "smart_factory", "--set", "target.deadline=5")
    assert call.status == 4
    assert "Infeasible" in call.out and "nearest feasible:" in call.out
    assert call.err == ""


def test_the_nearest_target_named_is_indeed_feasible(relaytrain):
    plan = json.loads(relaytrain("plan", "smart_factory", "--set", "target.deadline=180", "--format", "json").out)
    assert not plan["met"]
    for way in plan["nearest"]:
        sets = ("--set", f"target.loss={way['loss'] + 1e-9}", "--set", f"target.deadline={way['deadline_s'] + 1e-9}")
        assert relaytrain("plan", "smart_factory", *sets).status == 0


def test_a_target_already_met_is_an_empty_plan(relaytrain, tmp_path):
    picture = tmp_path / "nothing.svg"
    call = relaytrain("plan", "quickstart", "--set", "target.loss=5", "--figure", picture)
    assert call.status == 0 and "Nothing to do" in call.out
    ET.parse(picture)


def test_figure_is_written_and_named_on_stderr(relaytrain, tmp_path):
    picture = tmp_path / "plan.svg"
    call = relaytrain("plan", "smart_factory", "--figure", picture)
    assert str(picture) in call.err and str(picture) not in call.out
    words = "".join(ET.parse(picture).getroot().itertext())
    assert "M on silver" in words and "target 0.15" in words and "deadline 1000 units" in words
    quiet = relaytrain("plan", "smart_factory", "--figure", picture, "-q")
    assert quiet.err == ""


def test_compare_has_the_optimum_first_and_nothing_below_it(relaytrain):
    call = relaytrain("compare", "smart_factory", "--format", "json")
    rows = json.loads(call.out)["plans"]
    assert call.status == 0 and next(iter(rows)) == "optimum"
    assert all(row["over_optimum"] is None or row["over_optimum"] >= 1 - 1e-9 for row in rows.values())
    text = relaytrain("compare", "smart_factory").out
    assert all(name in text for name in rows) and "misses the target" in text


@pytest.mark.slow
def test_front_agrees_with_the_optimum_of_each_deadline(relaytrain):
    call = relaytrain(
        "front", "smart_factory", "--format", "json", "--loss", "0.15", "--deadline", "178", "--deadline", "185"
    )
    found = json.loads(call.out)
    for column, deadline_s in enumerate(found["deadlines_s"]):
        best = rt.plan("smart_factory", planner="optimum", overrides=[f"target.deadline={deadline_s}"])
        assert found["energy_j"][0][column] == pytest.approx(best.energy_j, rel=1e-9)
    impossible = relaytrain("front", "smart_factory", "--loss", "0.15", "--deadline", "1", "--format", "json")
    assert json.loads(impossible.out)["energy_j"] == [[None]]


def test_front_and_simulate_do_without_a_node_set(relaytrain):
    ways = json.loads(relaytrain("front", "smart_factory", "--without", "silver", "--format", "json").out)["ways"]
    assert ways and all("silver" not in way["legs"] for way in ways)
    played = relaytrain("simulate", "smart_factory", "--without", "silver", "--worlds", "1", "--rule", "adaptive")
    assert played.status == 0


def test_front_shows_a_table_and_draws_it(relaytrain, tmp_path):
    picture = tmp_path / "front.svg"
    call = relaytrain("front", "quickstart", "--figure", picture)
    assert call.status == 0 and "ways to 0." in call.out
    assert "(target)" in "".join(ET.parse(picture).getroot().itertext())


def test_simulate_pairs_rules_in_the_same_worlds(relaytrain):
    arguments = ("simulate", "worlds", "--worlds", "2", "--rule", "adaptive", "--rule", "true", "--mode", "slack")
    first = relaytrain(*arguments, "--format", "json", "--seed", "3")
    again = relaytrain(*arguments, "--format", "json", "--seed", "3")
    rows = json.loads(first.out)["rows"]
    assert first.status == 0 and [row["rule"] for row in rows] == ["adaptive", "true"]
    same = [[{**row, "decision_ms": 0} for row in json.loads(call.out)["rows"]] for call in (first, again)]
    assert same[0] == same[1]
    text = relaytrain(*arguments)
    assert "0/2" in text.out and "2 worlds in" in text.err


def test_validate_reports_and_resolves(relaytrain):
    text = relaytrain("validate", "smart_factory")
    assert text.status == 0 and text.out.startswith("valid: smart_factory")
    answer = json.loads(relaytrain("validate", "smart_factory", "--format", "json").out)
    assert rt.load_scenario(answer["resolved"]) == rt.load_scenario("smart_factory")


def test_schema_is_json_and_accepts_what_it_describes(relaytrain, tmp_path):
    schema = json.loads(relaytrain("schema").out)
    assert schema["$schema"].startswith("https://json-schema.org/") and "target" in schema["properties"]
    target = tmp_path / "s.json"
    assert relaytrain("schema", "--out", target).status == 0
    assert json.loads(target.read_text()) == schema


@pytest.mark.parametrize("preset", preset_names())
def test_new_writes_a_scenario_that_plans_like_its_preset(relaytrain, tmp_path, preset):
    file = tmp_path / "mine.toml"
    call = relaytrain("new", file, "--from", preset)
    assert call.status == 0 and sorted(p.name for p in tmp_path.iterdir()) == ["mine.toml", "scenario.schema.json"]
    assert file.read_text().startswith("#:schema ./scenario.schema.json\n")
    assert relaytrain("validate", file).out.startswith("valid: mine\n")
    assert rt.plan(file).energies_j == rt.plan(preset).energies_j


def test_new_skeleton_is_commented_and_can_be_planned(relaytrain, tmp_path):
    file = tmp_path / "my first (1).toml"
    assert relaytrain("new", file).status == 0
    assert file.read_text().count("#") >= 10
    assert relaytrain("validate", file).out.startswith("valid: my-first-1\n")
    assert relaytrain("plan", file).status in (0, 4)


def test_new_never_overwrites_unasked(relaytrain, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("precious")
    assert relaytrain("new", file).status == 2
    assert file.read_text() == "precious" and list(tmp_path.iterdir()) == [file]
    assert relaytrain("new", file, "--force").status == 0
    assert file.read_text() != "precious"


def test_reproduce_lists_and_draws(relaytrain, tmp_path):
    listed = json.loads(relaytrain("reproduce", "--list", "--format", "json").out)["figures"]
    assert "pact-fig5" in listed
    call = relaytrain("reproduce", "pact-fig5", "--out", tmp_path, "--as", "svg")
    assert call.status == 0 and "findings" in call.out
    assert (tmp_path / "pact-fig5.svg").exists()


def test_version(relaytrain):
    assert relaytrain("--version").out.startswith("relaytrain ")


def test_front_and_compare_ask_the_scenarios_estimator(relaytrain):
    asked = ("--set", "estimator.name=zero-trace", "--set", "target.loss=0.5", "--format", "json")
    best = json.loads(relaytrain("plan", "quickstart", "--planner", "optimum", *asked).out)
    assert best["energy_j"] != pytest.approx(rt.plan("quickstart", planner="optimum", overrides=asked[3:4]).energy_j)
    compared = json.loads(relaytrain("compare", "quickstart", *asked).out)["plans"]["optimum"]
    swept = rt.front("quickstart", overrides=(asked[1], asked[3]))
    in_front = swept.energy(0.5, swept.problem.target.deadline_s)
    assert compared["energy_j"] == best["energy_j"] and compared["decisions"] == best["decisions"]
    assert in_front == pytest.approx(best["energy_j"], rel=1e-9)


def test_a_negative_deadline_is_told_to_be_positive_also_in_units_of_the_scenario(relaytrain):
    refused = relaytrain("plan", "smart_factory", "--set", "target.deadline=-5")
    assert refused.status == 3 and "got -5, expected a positive plain number" in refused.err

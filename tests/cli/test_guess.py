"""A scenario of which nothing is known: its plan is called a guess, and no percentage is shown anywhere."""

from __future__ import annotations

import json


def test_a_new_scenario_plans_as_a_guess_without_any_percentage(relaytrain, tmp_path):
    file, picture = tmp_path / "my.toml", tmp_path / "my.svg"
    assert relaytrain("new", file).status == 0
    assert "[law]" not in file.read_text().replace("no [law]", "") and "floor" not in file.read_text()
    text = relaytrain("plan", file, "--rule", "sampled", "--figure", picture)
    assert text.status == 4 and text.out.startswith("A guess, for nothing is known of these losses: ")
    assert "%" not in text.out and "sure" not in text.out and "scout" in text.out
    assert "%" not in picture.read_text().partition("<text")[2] and "a guess" in picture.read_text()
    answer = json.loads(relaytrain("plan", file, "--rule", "sampled", "--format", "json").out)
    assert answer["guess"] is True and answer["met"] is False and answer["feasible"] is True
    assert answer["probability"] is None and answer["rung"] is None and answer["probabilities"] == {}
    low, high = answer["energy_interval_j"]
    assert low < high and answer["decisions"]
    assert not any("%" in words or "sure" in words for other in answer["alternatives"] for words in [other["reason"]])


def test_other_verbs_say_it_too(relaytrain, tmp_path):
    file = tmp_path / "my.toml"
    relaytrain("new", file)
    checked = relaytrain("validate", file)
    assert checked.status == 0 and "plans are guesses" in checked.out + checked.err
    compared = relaytrain("compare", file)
    assert compared.status == 0 and "%" not in compared.out.partition("warning")[0]
    refused = relaytrain("front", file)
    assert refused.status == 3 and "guesses" in refused.err and "scout" in refused.err


def test_a_law_makes_it_a_plan(relaytrain, tmp_path):
    file = tmp_path / "my.toml"
    relaytrain("new", file)
    file.write_text(
        file.read_text() + '[law]\nkind = "level"\ncurves = [{ floor = 0.2, drop = 2.1, scale = 5, power = 1 }]\n'
    )
    known = relaytrain("plan", file)
    assert known.status == 0 and "guess" not in known.out and "%" in known.out
    mixed = relaytrain("plan", file, "--set", "law.kind=wide")
    assert mixed.status == 3 and "kind = 'wide'" in mixed.err


def test_a_target_met_before_training_is_nothing_to_do_and_said_beforehand(relaytrain, tmp_path):
    file = tmp_path / "my.toml"
    relaytrain("new", file)
    met = ("--set", "target.loss=2.5", "--set", "start.loss=2.3")
    planned = relaytrain("plan", file, *met)
    assert planned.status == 0 and planned.out.startswith("Nothing to do: the loss is already 2.3")
    answer = json.loads(relaytrain("plan", file, *met, "--format", "json").out)
    assert answer["met"] is True and answer["feasible"] is True and "guess" not in answer
    checked = relaytrain("validate", file, *met)
    assert checked.status == 0 and "the target 2.5 is met before training" in checked.err
    assert "before training" not in relaytrain("validate", file).err

"""Scouting: a run and the branches it did not take, within a budget, on losses that are made up; once for real."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.campaigns.scouting import LEG, Scouting
from relaytrain.cli.app import main
from relaytrain.cli.scout import budget_of
from relaytrain.core.errors import UsageError
from relaytrain.traces.atlas import Atlas, AtlasLeg, LegKey, read_atlas

pytestmark = pytest.mark.slow

TABLES = {
    "name": "plain",
    "target": {"loss": 0.3, "deadline": 600, "probability": 0.9},
    "start": {"loss": 2.3, "version": "full", "nodes": "cloud"},
    "versions": [{"name": "full"}, {"name": "small"}],
    "node_sets": [{"name": "cloud"}, {"name": "edge"}],
    "pairs": [
        {"version": "full", "nodes": "cloud", "seconds": 1, "energy": 1},
        {"version": "small", "nodes": "cloud", "seconds": 1, "energy": 1.5},
        {"version": "small", "nodes": "edge", "seconds": 2, "energy": 3},
        {"version": "full", "nodes": "edge", "seconds": math.inf, "energy": 3, "reason": "too large"},
    ],
    "changes": [{"seconds": 1, "energy": 1}],
}
FLOORS = {0: 0.5, 1: 0.4, 2: 0.15}


class Trainer:
    """Losses of curves with known floors; every leg goes on from the one before."""

    def __init__(self, atlas: Atlas) -> None:
        self.atlas, self.trained = atlas, 0

    def __call__(self, seed: int, key: LegKey, epochs: int) -> AtlasLeg:
        leg = self.atlas.seeds.setdefault(seed, {}).get(key)
        if leg is None:
            leg = self.atlas.seeds[seed][key] = AtlasLeg(self._loss(seed, key.before), [], {})
        while len(leg.losses) < epochs:
            leg.losses.append(self._loss(seed, (*key.before, (key.pair, len(leg.losses) + 1))))
            self.trained += 1
        return leg

    def _loss(self, seed: int, way: tuple[tuple[int, int], ...]) -> float:
        loss, done = 2.3, 0
        for pair, epochs in way:
            floor = FLOORS[pair] + 0.01 * (seed % 3)
            above = max(loss - floor, 1e-3)
            loss, done = floor + 2.3 * ((above / 2.3) ** -0.25 + epochs / 8.0) ** -4.0, done + epochs
        luck = np.random.default_rng([seed, done, *(p for p, _ in way)]).standard_normal()
        return float(loss * np.exp(0.02 * luck))


def scouting(atlas: Atlas | None = None) -> tuple[Scouting, Trainer]:
    loaded = rt.load_scenario(TABLES)
    atlas = atlas or Atlas("plain", loaded.problem.pairs, loaded.problem.start)
    trainer = Trainer(atlas)
    return Scouting(loaded, loaded.costs, atlas, trainer, seed=7000, worlds=32), trainer


@pytest.fixture(scope="module")
def scouted():
    made, trainer = scouting()
    return made, made.scout(lambda run_j: 3.0 * run_j), trainer


def test_a_run_comes_first_then_branches_it_did_not_take_within_the_budget(scouted):
    made, done, trainer = scouted
    assert done.run_met and done.budget_j == pytest.approx(3.0 * done.run_j)
    assert done.run_j < done.spent_j <= done.budget_j + 1e-9
    epoch_j, run = {0: 1.0, 1: 1.5, 2: 3.0}, done.run
    spent = 0.0
    for seed, legs in made.atlas.seeds.items():
        for key, leg in legs.items():
            before = key.before[-1][0] if key.before else 0
            spent += len(leg.losses) * epoch_j[key.pair] + (1.0 if leg.losses and before != key.pair else 0.0)
            assert 7000 <= seed < 7008
    assert spent == pytest.approx(done.spent_j) and trainer.trained == made.atlas.epochs
    own = {(7000, LegKey(run[:i], pair)) for i, (pair, _) in enumerate(run)}
    assert done.lessons and all((lesson.seed, lesson.key) not in own for lesson in done.lessons)
    assert all(lesson.epochs <= LEG for lesson in done.lessons if lesson.seed == 7000)
    firsts = [lesson.energy_j for lesson in done.lessons if lesson.seed == 7000 and lesson.key.before[0] == run[0]]
    assert firsts == sorted(firsts), "the cheapest lesson first"


def test_what_it_taught_is_a_scenario_that_plans_with_a_probability(scouted):
    made, _, _ = scouted
    tables = made.taught()
    known = rt.load_scenario(json.loads(json.dumps(tables)))
    assert not known.guessed and known.warnings == ()
    floors = {index: known.law.curves[index, 0] for index in FLOORS}
    tried = {key.pair for legs in made.atlas.seeds.values() for key, leg in legs.items() if len(leg.losses) >= 4}
    assert all(abs(floors[pair] - FLOORS[pair]) < 0.15 for pair in tried)
    spreads = {(row["version"], row["nodes"]): row["floor_spread"] for row in tables["prior"]["curves"]}
    assert spreads["full", "edge"] == pytest.approx(0.299), "never tried: as wide as before"
    assert 2 * spreads["full", "cloud"] < spreads["full", "edge"]
    assert min(spreads.values()) > 0.05, "few seeds do not make it sure"
    plan = rt.plan(known, rule="sampled")
    assert not plan.guess and 0.0 < plan.probability <= 1.0
    saving = made.saving(tables)
    assert saving is not None and saving.after_j <= saving.before_j * 1.05
    assert saving.energy_interval_j[0] <= saving.after_j


@pytest.mark.slow
def test_the_same_scouting_goes_on_where_it_was_and_a_larger_budget_adds(scouted):
    made, done, _ = scouted
    again, trainer = scouting(made.atlas)
    once_more = again.scout(lambda run_j: 3.0 * run_j)
    assert trainer.trained == 0 and once_more.spent_j == pytest.approx(done.spent_j) and once_more.lessons == []
    more = again.scout(lambda run_j: 5.0 * run_j)
    assert trainer.trained > 0 and done.spent_j < more.spent_j <= more.budget_j


@pytest.mark.parametrize(
    ("text", "joules"), [("3x", 30.0), ("0.5X", 5.0), ("150J", 150.0), ("2 kJ", 2000.0), ("7", 7.0)]
)
def test_budgets(text, joules):
    assert budget_of(text)(10.0) == pytest.approx(joules)


@pytest.mark.parametrize("text", ["", "x", "much", "-2x", "0J", "nanx", "infx", "3 s"])
def test_what_is_no_budget_is_said(text):
    with pytest.raises(UsageError, match="expected times of one run such as 3x, or an energy"):
        budget_of(text)


def test_usage(tmp_path, capsys):
    assert main(["scout", "quickstart", str(tmp_path / "a.toml")]) == 2
    assert "ends in .json" in capsys.readouterr().err
    assert main(["scout", "quickstart", str(tmp_path / "a.json"), "--budget", "lots"]) == 2
    assert "--budget: got 'lots'" in capsys.readouterr().err


@pytest.mark.train
@pytest.mark.slow
def test_for_real_and_again(tmp_path, capsys):
    out = tmp_path / "known.json"
    words = ["scout", "quickstart", str(out), "--budget", "3x", "--set", "target.loss=1.4", "--format", "json"]
    assert main(words) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "relaytrain.scouted/1" and body["run"]["met"] and body["lessons"]
    assert body["spent_j"] <= body["budget_j"] and body["next_run"]["energy_interval_j"][0] > 0.0
    assert read_atlas(out.with_suffix(".npz")).epochs > 4
    before = out.with_suffix(".npz").read_bytes(), out.read_bytes()
    assert main(words) == 0
    assert (out.with_suffix(".npz").read_bytes(), out.read_bytes()) == before
    assert rt.plan(out, rule="sampled").decisions


@pytest.mark.train
@pytest.mark.parametrize(
    ("ends", "needed"),
    [("target.deadline=4s", "a later deadline, another training.lr"), ("target.max_epochs=4", "(target.max_epochs)")],
)
def test_nothing_is_said_of_savings_where_no_relay_met_the_target(tmp_path, capsys, ends, needed):
    out = tmp_path / "unmet.json"
    words = ["scout", "quickstart", str(out), "--budget", "1.2x", "--set", "target.loss=0.05", "--set", ends]
    words += ["--set", "target.deadline=inf"] if "deadline" not in ends else []
    assert main(words) == 0
    said = capsys.readouterr()
    assert "target not met" in said.out and out.exists()
    assert "saves" not in said.out and "pays" not in said.out and "sure" not in said.out
    assert "no relay met the target 0.05" in said.err and needed in said.err
    assert ("deadline" in said.err) == ("deadline" in ends)

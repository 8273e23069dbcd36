"""`fixed`: the schedule that recorded relays show to be best, else the belief's; chosen once, followed to its end."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
import stub

import relaytrain as rt
from relaytrain.cli.app import main
from relaytrain.core.errors import ScenarioError
from relaytrain.planners.pact.fixed import NO_CURVES, NOT_HELD, OTHER_TRAINING
from relaytrain.planners.pact.sampled import best_schedule, worlds_of
from relaytrain.planners.registry import planner_for
from relaytrain.relay.journal import MemoryJournal
from relaytrain.relay.loop import RelayLoop
from relaytrain.scenario import load_scenario
from relaytrain.traces.atlas import Atlas, AtlasLeg, LegKey, read_atlas

pytestmark = pytest.mark.slow

START = rt.State(0, 2.0, 0.0, 0)


def recorded(folder: Path) -> Path:
    """Relays of the stub's scenario: three epochs on L, then S on bronze until met is the cheapest that always is."""
    pairs = stub.scenario().problem.pairs
    atlas = Atlas("stub", pairs, 0, "d" * 64)
    for seed, off in ((1, 0.0), (2, 0.02)):
        atlas.seeds[seed] = {
            LegKey((), 0): AtlasLeg(2.0, [1.5, 1.2, 1.0, 0.9 + off]),
            LegKey(((0, 2),), 2): AtlasLeg(1.3, [1.1, 0.9, 0.8 + off]),
            LegKey(((0, 3),), 2): AtlasLeg(1.1, [0.7, 0.5, 0.44 + off / 4]),
            LegKey(((0, 4),), 2): AtlasLeg(1.0, [0.6, 0.44 + off / 4]),
        }
    atlas.save(folder / "stub.npz")
    return folder / "stub.npz"


def legs_of(plan: rt.Plan) -> list[tuple[str, str, int]]:
    return [(*pair, len(list(group))) for pair, group in groupby(plan.decisions, key=lambda d: tuple(d.pair))]


def with_atlas(path: Path, **overrides: object) -> rt.Scenario:
    return stub.scenario(planner__name="fixed", planner__atlas=str(path), **overrides)


def test_the_recorded_schedule_is_planned_into_its_last_leg(tmp_path):
    scenario = with_atlas(recorded(tmp_path))
    plan = rt.plan(scenario)
    assert [leg[:2] for leg in legs_of(plan)] == [("L", "gold"), ("S", "bronze")] and legs_of(plan)[0][2] == 3
    assert plan.planner == "fixed" and OTHER_TRAINING in plan.warnings
    low, high = plan.energy_interval_j
    assert low <= plan.energy_j <= high and 0.0 <= plan.probability <= 1.0


def test_a_run_keeps_to_the_schedule_whatever_it_sees(tmp_path):
    scenario = with_atlas(recorded(tmp_path))
    job = replace(stub.job(scenario, pace=0.7, replan=False), planner=planner_for(scenario))
    first = job.runner.first()
    journal = MemoryJournal("kept", first, scenario.problem.pairs, scenario.problem.start)
    ended = RelayLoop(job, journal, job.runner.probe(first).loss).begin(first)
    ran = [tuple(outcome.decision.pair) for outcome in ended.outcomes]
    assert ran == [("L", "gold")] * 3 + [("S", "bronze")] * (len(ran) - 3) and len(ran) > 4


def test_a_later_state_has_what_is_left_of_it(tmp_path):
    scenario = with_atlas(recorded(tmp_path))
    later = planner_for(scenario).plan(scenario.problem, scenario.costs, scenario.law, rt.State(2, 1.2, 4.0, 0, 100.0))
    assert legs_of(later)[0] == ("L", "gold", 1) and legs_of(later)[1][:2] == ("S", "bronze")


def test_without_records_the_belief_chooses_once(tmp_path):
    scenario = stub.scenario()
    plan = planner_for(scenario, "fixed").plan(scenario.problem, scenario.costs, scenario.law, START)
    best = best_schedule(scenario.problem, scenario.costs, worlds_of(scenario.law, START, 256), START)
    assert plan.energy_j == pytest.approx(best.energy_j) and plan.probability == pytest.approx(best.probability)
    pairs = [tuple(scenario.problem.pairs[pair]) for pair, _ in best.legs]
    assert [leg[:2] for leg in legs_of(plan)] == pairs  # also where most worlds have arrived before the last leg
    unheard = rt.plan(with_atlas(recorded(tmp_path), target__loss=0.2))
    assert NOT_HELD in unheard.warnings
    assert NO_CURVES in rt.plan("fig5", planner="fixed").warnings


def test_the_bundled_atlas_serves_the_training_it_was_recorded_with_and_no_other():
    held = planner_for(load_scenario("quickstart"), "fixed").atlas
    assert held == read_atlas("quickstart")
    assert planner_for(load_scenario("quickstart", ["training.lr=0.0123"]), "fixed").atlas is None
    assert planner_for(load_scenario("smart_factory"), "fixed").atlas is None


def test_compare_has_it_and_takes_a_file(tmp_path, capsys):
    def relaytrain(*words):
        capsys.readouterr()
        status = main([str(word) for word in words])
        return status, *capsys.readouterr()

    file = tmp_path / "stub.json"
    file.write_text(json.dumps(dict(stub.scenario(target__deadline=100.0).resolved)))
    rows = json.loads(relaytrain("compare", file, "--format", "json")[1])["plans"]
    assert rows["fixed"]["planner"] == "fixed" and rows["fixed"]["over_optimum"] is None
    path = recorded(tmp_path)
    status, told, _ = relaytrain("compare", file, "--atlas", path)
    assert status == 0 and "L on gold x3 -> S on bronze" in told and OTHER_TRAINING in told
    assert "fixed: mean energy over worlds" in told
    status, _, wrong = relaytrain("compare", "quickstart", "--atlas", path)
    assert status == 3 and "planner.atlas" in wrong and "other pairs" in wrong
    assert relaytrain("compare", file, "--atlas", tmp_path / "none.npz")[0] == 3


def test_a_file_of_another_start_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"planner\.atlas"):
        planner_for(with_atlas(recorded(tmp_path), start__version="S"))

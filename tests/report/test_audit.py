"""An audit over a handful of made-up runs, every figure worked out by hand."""

from __future__ import annotations

import math

import pytest
from sample_run import JOULES, SECONDS, Sample, write_run

from relaytrain.report.audit import audit
from relaytrain.report.audit_bands import clustered
from relaytrain.report.audit_rates import Z, wilson

QUIET = {"fail_at": None, "roll_back_at": None}


def test_four_runs_by_hand(store):
    write_run(store, "run-good-1", Sample(**QUIET, seed=1))
    write_run(store, "run-good-2", Sample(**QUIET, seed=2, probability=0.99, cost_factor=1.5, clock="measured"))
    write_run(store, "run-late-3", Sample(**QUIET, seed=3, deadline_s=50.0))
    write_run(store, "run-weak-4", Sample(**QUIET, seed=4, rung=0.8, probability=0.83))
    write_run(store, "run-open-5", Sample(**QUIET, seed=5, stop_after=3))
    write_run(store, "run-ended-6", Sample(**QUIET, seed=6, verdict="stopped"))
    found = audit(store)
    assert (found.runs, found.met) == (4, 3)
    assert found.left_out == {"interrupted": 1, "stopped": 1}
    top, low = found.levels
    assert (top.stated, top.hits, top.count) == (0.95, 2, 3)
    assert (low.stated, low.hits, low.count) == (0.8, 1, 1)
    assert top.observed == pytest.approx(2 / 3)
    assert top.interval == pytest.approx((0.2077, 0.9385), abs=1e-4) and top.agrees is False
    assert low.interval == pytest.approx((0.2065, 1.0), abs=1e-4) and low.agrees is True
    assert found.probability.stated == pytest.approx((0.97 + 0.99 + 0.97 + 0.83) / 4)
    assert (found.probability.hits, found.probability.count) == (3, 4)
    checks = {(check.version, check.clock): check.to_dict() for check in found.costs}
    measured, emulated = checks["full", "measured"], checks["full", "emulated"]
    assert measured["predicted_j"] == pytest.approx(5 * JOULES["full"]) and measured["ratio_j"] == pytest.approx(1.5)
    assert measured["median_ratio_j"] == pytest.approx(1.5) and measured["ratio_s"] == pytest.approx(1.0)
    assert emulated["epochs"] == 15 and emulated["predicted_s"] == pytest.approx(15 * SECONDS["full"])
    assert emulated["ratio_j"] == pytest.approx(1.0)
    assert measured["cpu_s"] == pytest.approx(0.02 * 5 * SECONDS["full"])


def test_energy_is_held_against_what_first_plans_stated(store):
    """Of five runs that cost the same, two lie within what was stated, one below, one above, one stated nothing."""
    write_run(store, "run-cost-0", Sample(**QUIET))
    spent = sum(e.body["energy_j"] for e in store.events("run-cost-0") if e.kind == "epoch_done")
    assert audit(store).energy == ()
    stated = [(0.9 * spent, 1.1 * spent), (spent, 2.0 * spent), (1.5 * spent, 2.0 * spent), (0.1 * spent, 0.9 * spent)]
    for number, interval in enumerate(stated, 1):
        write_run(store, f"run-cost-{number}", Sample(**QUIET, energy_interval_j=interval))
    late = Sample(**QUIET, deadline_s=50.0, energy_interval_j=(2.0 * spent, 3.0 * spent))
    write_run(store, "run-late-5", late)  # it may have become anything
    inside, at_most = audit(store).energy
    assert (inside.stated, inside.hits, inside.count) == (0.8, 2, 4)
    assert (at_most.stated, at_most.hits, at_most.count) == (0.9, 3, 4)
    assert [rate["hits"] for rate in audit(store).to_dict()["energy"]] == [2, 3]


@pytest.mark.slow
def test_band_counts_epochs_at_or_below_their_promise(store):
    """Without noise every loss is the expected one; with much of it about half lie above, some beyond the band."""
    write_run(store, "run-calm-1", Sample(**QUIET, noise=0.0))
    calm = audit(store).band[0]
    assert calm.hits == calm.count > 0 and calm.stated == 0.95
    names = [f"run-wild-{number}" for number in range(6)]
    for number, name in enumerate(names):
        write_run(store, name, Sample(**QUIET, noise=0.3, target=0.0, seed=number))
    wild = audit(store).band[0]
    inside = epochs = 0
    for name in names:
        events = store.events(name)
        limits = {e.epoch: e.body["predicted"]["guaranteed"] for e in events if e.kind == "planned"}
        losses = {e.epoch: e.body["loss"] for e in events if e.kind == "epoch_done"}
        epochs += len(losses)
        inside += sum(loss <= limits[epoch] for epoch, loss in losses.items())
    assert (wild.hits - calm.hits, wild.count - calm.count) == (inside, epochs) and inside < epochs
    assert wild.agrees is False, "the promise is broken and the audit says so"


def test_promises_made_epochs_before_are_counted_as_far_as_their_plan_was_followed(store):
    write_run(store, "run-calm-1", Sample(**QUIET, noise=0.0))
    found = audit(store)
    assert found.ahead[0].name == "1 epoch ahead" and found.ahead[0].count == found.band[0].count
    assert len(found.ahead) > 1, "plans look farther than one epoch"
    assert all(rate.hits == rate.count for rate in found.ahead), "without noise every promise is kept"
    assert found.to_dict()["ahead"][0]["agrees"] is True


def test_runs_count_as_far_as_their_epochs_agree():
    """Ten runs of ten epochs: all alike within a run there are ten observations; evenly mixed, a hundred."""
    together = clustered("x", [(f"run-{i}", 0.9, i < 8) for i in range(10) for _ in range(10)])
    assert (together.hits, together.count) == (80, 100) and together.share * 100 == pytest.approx(10.0)
    assert together.interval == pytest.approx(wilson(8, 10))
    mixed = clustered("x", [(f"run-{i}", 0.9, (i + k) % 5 > 0) for i in range(10) for k in range(10)])
    assert mixed.hits == 80 and mixed.share < 1.0, "exactly alike in every run: no more is known than their number"
    chance = [(f"run-{i}", 0.9, (7 * i + k * k * (i + 3)) % 5 > 0) for i in range(10) for k in range(10)]
    assert 10 <= clustered("x", chance).share * 100 <= 100


def test_near_levels_are_judged_together_and_planners_apart(store):
    for number, rung in enumerate((0.91, 0.93, 0.94)):
        write_run(store, f"run-near-{number}", Sample(**QUIET, seed=number, rung=rung))
    write_run(store, "run-other-9", Sample(**QUIET, seed=9, rung=0.92, planner="single"))
    pact, single = audit(store).levels
    assert (pact.count, single.count) == (3, 1) and pact.stated == pytest.approx((0.91 + 0.93 + 0.94) / 3)
    assert single.name.startswith("single: ") and "90% to 95%" in pact.name


@pytest.mark.slow
def test_targets_called_infeasible_that_were_reached(store):
    hopeless = Sample(**QUIET, feasible=False, rung=0.0, probability=0.0)
    write_run(store, "run-gave-up-1", Sample(**QUIET, feasible=False, rung=0.0, probability=0.0, verdict="missed"))
    write_run(store, "run-other-2", Sample(**QUIET, planner="single"))  # same case, another planner
    write_run(
        store, "run-elsewhere-3", Sample(**{**vars(hopeless), "seed": 8, "verdict": "missed"})
    )  # nobody reached it
    found = audit(store)
    assert found.infeasible == 2
    assert [(w.run, w.reached_by) for w in found.wrong_noes] == [("run-gave-up-1", ("run-other-2",))]
    write_run(store, "run-surprise-4", Sample(**{**vars(hopeless), "seed": 9}))  # called it infeasible, then met it
    assert ("run-surprise-4", ("run-surprise-4",)) in [(w.run, w.reached_by) for w in audit(store).wrong_noes]
    assert [rate.name for rate in audit(store).levels] == ["pact: infeasible", "single: level 95% and above"]


def test_an_empty_store_has_nothing_to_judge(store):
    found = audit(store)
    assert found.runs == 0 and found.levels == () and found.to_dict()["probability"]["observed"] is None


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (1, 1), (2, 3), (5, 10), (99, 100), (0, 50), (300, 1000)])
def test_wilson_is_where_the_score_test_ends(hits, count):
    """Its ends p solve |share - p| = z sqrt(p (1 - p) / n); found here by bisection."""
    share = hits / count

    def beyond(p: float) -> bool:
        return abs(share - p) > Z * math.sqrt(p * (1 - p) / count)

    def edge(outside: float) -> float:
        if not beyond(outside + (1e-12 if outside == 0 else -1e-12)):
            return outside
        inside = share if 0 < share < 1 else (1e-3 if share == 0 else 1 - 1e-3)
        for _ in range(200):
            middle = (outside + inside) / 2
            outside, inside = (middle, inside) if beyond(middle) else (outside, middle)
        return inside

    low, high = wilson(hits, count)
    assert low == pytest.approx(0.0 if hits == 0 else edge(0.0), abs=1e-9)
    assert high == pytest.approx(1.0 if hits == count else edge(1.0), abs=1e-9)

"""A run read back from its events: every sum added up again from the raw rows of the database."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3

import pytest
from sample_run import CHANGE, JOULES, SECONDS, START_LOSS, Sample, started

from relaytrain.report.plan_view import replans
from relaytrain.report.run_view import RunView
from relaytrain.report.verdict import verdict_of
from relaytrain.store import Event

TINY = 1e-9  # sums of the same numbers in another order


def raw(store, run="quickstart-0001"):
    with sqlite3.connect(store.folder / "runs.sqlite") as connection:
        rows = connection.execute("SELECT kind, epoch, body FROM event WHERE run = ? ORDER BY seq", (run,)).fetchall()
    connection.close()
    return [(kind, epoch, json.loads(body)) for kind, epoch, body in rows]


def standing(rows):
    done = {}
    for kind, epoch, body in rows:
        if kind == "epoch_done":
            done[epoch] = body
        elif kind == "rolled_back":
            done = {e: b for e, b in done.items() if e <= epoch}
    return done


def test_sums_are_those_of_the_raw_rows(store, play):
    view = play()
    rows = raw(store)
    done = standing(rows)
    useful_j = sum(body["energy_j"] for body in done.values())
    all_j = sum(b["energy_j"] for kind, _, b in rows if kind == "epoch_done")
    lost_j = sum(b.get("wasted_j", 0.0) for kind, _, b in rows if kind != "verdict")
    assert [e.epoch for e in view.epochs] == sorted(done)
    assert [e.loss for e in view.epochs] == [done[e]["loss"] for e in sorted(done)]
    assert view.totals.useful_j == pytest.approx(useful_j, rel=TINY)
    assert view.totals.wasted_j == pytest.approx(all_j - useful_j + lost_j, rel=TINY)
    assert view.totals.energy_j == pytest.approx(all_j + lost_j, rel=TINY)
    for parts in (view.by_version(), view.by_pair()):
        assert sum(cost.energy_j for cost in parts.values()) == pytest.approx(useful_j, rel=TINY)
        assert sum(cost.epochs for cost in parts.values()) == len(done)
    assert sum(leg.cost.energy_j for leg in view.legs) == pytest.approx(useful_j, rel=TINY)
    by_node = {}
    for body in done.values():
        for node in body["nodes"]:
            by_node[node["node"]] = by_node.get(node["node"], 0.0) + node["energy_j"]
    assert {name: j for name, (_, j, _) in view.by_node().items()} == pytest.approx(by_node, rel=TINY)


def test_legs_handovers_and_failures(play):
    view = play()
    assert [(str(leg.pair), leg.first_epoch) for leg in view.legs] == [
        ("full on gold", 1),
        ("medium on silver", 6),
        ("small on bronze", 16),
    ]
    assert [(h.epoch, h.kind, h.reached_ratio) for h in view.handovers] == [(6, "prune", 0.51), (16, "prune", 0.51)]
    assert [(f.epoch, f.node) for f in view.failures] == [(8, "edge-2")]
    assert [(r.to_epoch, r.undone, str(r.forbidden)) for r in view.rollbacks] == [(17, 2, "small on bronze")]
    assert [e.epoch for e in view.undone] == [18, 19]
    assert view.status == "met" and view.initial_loss == START_LOSS and view.planner == "pact/adaptive"
    assert view.best is not None and view.best.loss == min(e.loss for e in view.epochs)


def test_times_on_the_emulated_clock_leave_lost_work_out(play):
    view = play()
    spent = 0.0
    for epoch in view.epochs:
        changed = epoch.epoch in (6, 16)
        spent += SECONDS[epoch.pair.version] + (CHANGE[0] if changed else 0.0)
        assert epoch.end_s == pytest.approx(spent, rel=TINY)
    assert view.elapsed_s == pytest.approx(spent) and not view.charged


def test_times_on_the_measured_clock_count_lost_work(play):
    view = play(Sample(clock="measured"))
    last = view.epochs[-1]
    undone_s = 2 * SECONDS["small"]
    useful_s = math.fsum(e.elapsed_s for e in view.epochs)
    assert view.charged and view.elapsed_s == pytest.approx(useful_s + 1.5 + undone_s)
    assert last.end_s == pytest.approx(view.elapsed_s)
    before, after = view.epochs[6], view.epochs[7]  # the failed attempt of epoch 8 lies between them
    assert after.start_s - before.end_s == pytest.approx(1.5)


def test_costs_against_what_was_predicted(play):
    view = play(Sample(cost_factor=1.2, fail_at=None, roll_back_at=None))
    full = view.by_version()["full"]
    assert full.predicted_epochs == full.epochs == 5
    assert full.predicted_j == pytest.approx(5 * JOULES["full"])
    assert full.against_j / full.predicted_j == pytest.approx(1.2)
    assert full.against_s == full.predicted_s
    assert full.by_provenance_j == pytest.approx({"modelled": full.energy_j})


def test_replans_say_what_changed_and_why(play):
    view = play()
    first, back = replans(view)
    assert first.epoch == 4 and first.moved
    assert first.before.startswith("full on gold ×4 →") and first.after.startswith("full on gold ×2 →")
    assert "after epoch 3" in first.reasons[0]
    assert back.epoch == 18 and "rolled back to epoch 17: loss became non-finite" in back.reasons[0]


def test_the_first_plans_pace_adds_up(play):
    first = play().plans[0]
    assert len(first.times_s) == len(first.pairs) == len(first.losses) == 33
    assert first.times_s[0] == pytest.approx(SECONDS["full"])
    assert first.times_s[-1] == pytest.approx(first.end_s) and first.energies_j[-1] == pytest.approx(first.energy_j)
    turn = first.handovers()[0][0]
    change = first.times_s[turn - 1] - first.times_s[turn - 2]
    assert change == pytest.approx(SECONDS["medium"] + CHANGE[0])


def test_a_guess_is_no_first_plan_to_be_held_against(play):
    view = play(Sample())
    guessed = dataclasses.replace(view, plans=tuple(dataclasses.replace(plan, guess=True) for plan in view.plans))
    assert "(first plan: " in verdict_of(view).sentence
    assert "first plan" not in verdict_of(guessed).sentence


def test_an_interrupted_run_and_one_that_has_not_begun(store, play):
    view = play(Sample(stop_after=4))
    assert view.status == "interrupted" and len(view.epochs) == 4 and view.verdict is None and not view.finished
    assert RunView.of(store.events(view.run), live=True).status == "running"
    empty = play(Sample(stop_after=0), "quickstart-0002")
    assert empty.epochs == () and empty.loss == START_LOSS and empty.elapsed_s == 0.0 and empty.best is None


def test_a_followed_path_is_no_re_plan():
    """A run that follows its first plan to the end is not said to have changed it."""
    path = [["a", "x"]] * 2 + [["b", "y"]] * 2
    rows = [("run_started", None, started(Sample()))]
    for epoch, pair in enumerate(path, 1):
        other = {"legs": [{"version": "c", "nodes": "z", "first_epoch": epoch, "last_epoch": epoch + 3}]}
        body = {
            "decision": {"version": pair[0], "nodes": pair[1]},
            "plan": other,
            **({"path": path} if epoch == 1 else {}),
        }
        rows.append(("planned", epoch, body))
        rows.append(("epoch_done", epoch, {"loss": 1.0, "elapsed_s": 1.0, "energy_j": 1.0}))
    view = RunView.of(Event("some-run-1", n, k, e, b, 1, float(n), float(n)) for n, (k, e, b) in enumerate(rows, 1))
    assert replans(view) == () and [str(leg.pair) for leg in view.legs] == ["a on x", "b on y"]


@pytest.mark.parametrize("junk", [None, 7, "text", [], [None], {"legs": [{}]}, {"legs": None}, float("nan")])
def test_bodies_of_other_writers_do_no_harm(junk):
    """Every part may be missing or of another kind; what is unknown stays unknown."""
    bodies = {
        "run_started": {"scenario": junk, "versions": junk, "packages": junk, "seed": junk},
        "planned": {"plan": junk, "predicted": junk, "decision": junk, "state": junk},
        "handover": {"before": junk, "after": junk, "loss_after": junk},
        "epoch_done": {"loss": 1.0, "elapsed_s": 1.0, "energy_j": 1.0, "cpu_s": junk, "predicted": junk},
    }
    epochs = {"run_started": None}
    rows = [Event("some-run-1", n, k, epochs.get(k, 1), b, 1, 0.0, 0.0) for n, (k, b) in enumerate(bodies.items(), 1)]
    view = RunView.of(rows)
    assert len(view.epochs) == 1 and view.totals.energy_j == 1.0

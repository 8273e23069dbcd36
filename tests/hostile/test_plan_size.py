"""A plan that would take too much is refused before it begins, with the figure and what to change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile_files import many_pairs, random_pairs
from store_faults import Child

from relaytrain import api
from relaytrain.cli.app import main
from relaytrain.core.errors import ScenarioError
from relaytrain.doctor.scenario_check import check_scenario
from relaytrain.planners.plan_size import BYTES_VARIABLE, SECONDS_VARIABLE, plan_size
from relaytrain.planners.registry import planner_for
from relaytrain.relay.session import Session

FINE = ("--set", "planner.grid.loss_step=1e-5", "--set", "planner.grid.time_step=0.001")
FACTOR, DRAWN_FACTOR, FLOOR = 2.0, 3.0, 4e6
"""Pairs drawn at random are harder to foresee. What takes less than the floor counts as that much: less is the
allocator's business."""


@pytest.mark.parametrize("verb", [("plan", "--rule", "literal"), ("compare",)], ids=["plan", "compare"])
def test_a_grid_of_gigabytes_is_refused_with_the_figure_and_a_remedy(verb, capsys):
    assert main([verb[0], "fig5", *verb[1:], *FINE]) == 3
    words = capsys.readouterr().err
    assert "about 7 GB" in words and "120001 losses x 1501 times" in words
    assert "planner.grid.loss_step" in words and BYTES_VARIABLE in words


def test_a_run_and_a_session_refuse_it_too():
    steps = ["planner.grid.loss_step=1e-5", "planner.grid.time_step=0.001", "planner.rule=literal"]
    session = Session("fig5", overrides=steps)
    with pytest.raises(ScenarioError, match="about 7 GB"):
        session.ask()


def test_limits_are_the_users(monkeypatch, capsys):
    monkeypatch.setenv(BYTES_VARIABLE, "1000")
    assert main(["plan", "fig5", "-q"]) == 3 and "expected at most 0.001 MB" in capsys.readouterr().err
    monkeypatch.setenv(BYTES_VARIABLE, "1e12")
    monkeypatch.setenv(SECONDS_VARIABLE, "much")
    assert main(["plan", "fig5", "-q"]) == 3 and SECONDS_VARIABLE in capsys.readouterr().err


def test_losses_that_are_nearly_nothing_are_refused(capsys):
    assert main(["plan", "fig5", "--set", "target.loss=1e-320"]) == 3
    assert "target.loss: got 1e-320" in capsys.readouterr().err


def test_doctor_says_what_a_plan_takes():
    said = {one.where: one for one in check_scenario(api.scenario("fig5"))}
    assert said["plan"].level == "ok" and "takes about" in said["plan"].what
    fine = api.scenario("fig5", overrides=["planner.rule=literal", *FINE[1::2]])
    said = {one.where: one for one in check_scenario(fine)}
    assert said["plan"].level == "error" and "about 7 GB" in said["plan"].what


@pytest.mark.soak  # a process that did much else has memory at hand that it takes first
@pytest.mark.parametrize(
    ("name", "rule", "loss_step", "time_step"),
    [("fig5", "literal", 1e-4, 2e-3), ("smart_factory", "literal", 1e-3, 1.0), ("worlds", "literal", 5e-4, 0.25),
     ("epoch_example", "adaptive", 2e-3, 1.0)],
)  # fmt: skip
def test_the_estimate_is_within_a_factor_of_two(name, rule, loss_step, time_step):
    coarse = [f"planner.grid.loss_step={20 * loss_step}", f"planner.grid.time_step={10 * time_step}"]
    api.plan(name, rule=rule, overrides=coarse)  # compiled before it is measured
    steps = [f"planner.grid.loss_step={loss_step}", f"planner.grid.time_step={time_step}"]
    _within(api.scenario(name, overrides=steps), rule)


@pytest.mark.soak
@pytest.mark.parametrize("text", [many_pairs(256), random_pairs(128, 1, deadline=150.0)])
def test_the_estimate_of_many_pairs_is_near(tmp_path, text):
    path = tmp_path / "pairs.toml"
    path.write_text(random_pairs(32, 1, deadline=150.0))
    first = api.scenario(path)  # compiled before it is measured
    plan_size(planner_for(first, None, None), first.problem, first.costs, first.law, api.first_state(first))
    api.plan(path)
    path.write_text(text)
    assert _within(api.scenario(path), "adaptive", DRAWN_FACTOR) < 50e6  # 256 pairs took gigabytes once


def _within(loaded, rule: str, factor: float = FACTOR) -> int:
    start, planner = api.first_state(loaded), planner_for(loaded, None, rule)
    size = plan_size(planner, loaded.problem, loaded.costs, loaded.law, start)

    def work(say) -> int:
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        before = _peak_kb()
        planner.plan(loaded.problem, loaded.costs, loaded.law, start)
        say("kb", _peak_kb() - before)
        return 0

    said = Child(work).wait()
    assert said.code == 0
    used = said.said[0][1] * 1024
    ratio = max(size.bytes, FLOOR) / max(used, FLOOR)
    assert 1 / factor <= ratio <= factor, (size, used)
    return used


def _peak_kb() -> int:
    lines = Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

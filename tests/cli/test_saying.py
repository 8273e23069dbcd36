"""How things are said: shares, energies, lines of epochs, progress in a pipe, what a shell completes."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest

from relaytrain.cli import completion, output, watching
from relaytrain.core.explain import say_energies, say_share
from relaytrain.core.planner_names import ALL_PLANNERS, ALL_RULES, DEPL_PLANNERS, RULES, SAMPLED
from relaytrain.core.problem import Pair
from relaytrain.planners.registry import PLANNERS
from relaytrain.relay.job import Line
from relaytrain.scenario.read import preset_names


@pytest.mark.parametrize(
    ("share", "digits", "said"),
    [
        (0.9, 0, "90%"),
        (0.995, 0, "99.5%"),
        (0.999, 0, "99.9%"),
        (0.99999, 0, "99.999%"),
        (0.9996, 1, "99.96%"),
        (1 - 1e-12, 0, ">99.9999%"),
        (1.0, 0, "100%"),
        (0.5, 1, "50.0%"),
        (0.0004, 0, "0.04%"),
        (1e-12, 0, "<0.0001%"),
        (0.0, 0, "0%"),
    ],
)
def test_a_share_below_one_is_never_a_hundred_percent(share, digits, said):
    assert say_share(share, digits) == said


def test_energies_share_the_unit_of_the_first():
    assert say_energies((61.5, 10.7, 149.0)) == ["61.5 J", "10.7", "149"]
    assert say_energies((1230.0, 900.0, math.inf)) == ["1.23 kJ", "0.9", "no end"]
    assert say_energies((92.4, 80.0), "cost") == ["92.4 cost", "80"]


LINE = Line(
    "quick-run",
    epoch=17,
    pair=Pair("M", "silver"),
    loss=0.41,
    guaranteed=0.47,
    level=0.9,
    energy_j=12.3,
    planned_j=40.0,
    elapsed_s=180.0,
    deadline_s=600.0,
    next_handover=(Pair("S", "bronze"), 31),
    plan=None,
    forecast_j=(31.0, 42.0, 55.0),
)


def test_the_line_of_an_epoch():
    assert watching.words(LINE) == (
        "k  17 | M on silver | loss 0.41 (<=0.47 at 90%) | 12.3 J of 42 J (31 to 55), 3m00 of 10m00, emulated"
        " | next: S on bronze at ~k 31"
    )
    measured = replace(LINE, clock="measured", next_handover=None, deadline_s=math.inf)
    assert watching.words(measured).endswith("12.3 J of 42 J (31 to 55), 3m00")


def test_a_line_shows_enough_digits_to_see_that_a_bound_is_broken():
    assert "loss 0.47002 (<=0.47 at 90%, broken)" in watching.words(replace(LINE, loss=0.47002))
    assert "broken" not in watching.words(replace(LINE, loss=0.47))


def test_progress_in_a_pipe_is_plain_lines_in_time(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with output.progress("worlds") as step:
        assert step is not None
        for done in range(1, 25):
            now[0] += 1.0
            step(done, 24)
    said = capsys.readouterr().err.splitlines()
    assert said == [f"worlds: {k} of 24, {k} s so far" for k in (5, 10, 15, 20)]


def test_what_is_said_meanwhile_counts(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with output.progress("epochs") as step:
        assert step is not None
        for done in range(1, 25):
            now[0] += 1.0
            output.note(f"k {done}")
            step(done, 24)
    assert "so far" not in capsys.readouterr().err


def test_what_is_completed_is_what_there_is():
    """The lists that completion has of its own, so that a Tab need not load what they are lists of."""
    assert (*PLANNERS, *DEPL_PLANNERS) == ALL_PLANNERS
    assert (*RULES, SAMPLED) == ALL_RULES
    assert completion.preset_names() == preset_names()

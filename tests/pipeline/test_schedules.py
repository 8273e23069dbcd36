"""Schedules against grids laid out by hand, and the counts that follow from them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_texts import parse_action, parse_grid

from relaytrain.core.errors import UsageError
from relaytrain.planners.pipeline.actions import Action, ActionKind
from relaytrain.planners.pipeline.schedules import Window, async_1f1b, gpipe, sync_1f1b
from relaytrain.planners.pipeline.version_lifetimes import Alive, steady_peaks, timeline

ASYNC = """
F0 F1 F2 .. .. .. .. B0 -- F3 B1 -- F4 B2 -- .. B3 -- .. B4 --
.. F0 F1 .. .. B0 -- F2 B1 -- F3 B2 -- F4 B3 -- .. B4 -- .. ..
.. .. F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 -- F4 B4 -- .. .. .. ..
"""
UNIFORM = """
F0 F1 .. B0 F2 B1 F3 B2 .. B3
.. F0 B0 F1 B1 F2 B2 F3 B3 ..
"""
NO_PIPELINE = """
F0 .. .. B0 F1 .. .. B1
.. F0 B0 .. .. F1 B1 ..
"""
SYNC = """
F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3 U0
.. F0 F1 .. B0 F2 B1 F3 B2 .. B3 U0 ..
.. .. F0 B0 F1 B1 F2 B2 F3 B3 U0 .. ..
"""
SYNC_TWO_STEPS = """
F0 F1 .. B0 .. B1 U0 F2 F3 .. B2 .. B3 U1
.. F0 B0 F1 B1 U0 .. .. F2 B2 F3 B3 U1 ..
"""
GPIPE = """
F0 F1 F2 .. .. .. .. B0 B1 B2 U0
.. F0 F1 F2 .. .. B0 B1 B2 U0 ..
.. .. F0 F1 F2 B0 B1 B2 U0 .. ..
"""


@pytest.mark.parametrize(
    ("schedule", "grid"),
    [
        (async_1f1b(3, 5, 3), ASYNC),
        (async_1f1b(2, 4, 2, Window.uniform, backward_slots=1), UNIFORM),
        (async_1f1b(2, 2, 1, backward_slots=1), NO_PIPELINE),
        (sync_1f1b(3, 1, 4), SYNC),
        (sync_1f1b(2, 2, 2), SYNC_TWO_STEPS),
        (gpipe(3, 1, 3), GPIPE),
    ],
)
def test_grids(schedule, grid):
    assert schedule.draw() == grid.strip()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 6), st.sampled_from(list(Window)), st.integers(1, 3))
def test_every_schedule_is_lawful_and_reads_back(stages, count, m, window, backward):
    for made in (
        async_1f1b(stages, count, m, window, backward_slots=backward),
        sync_1f1b(stages, 2, m, backward_slots=backward),
        gpipe(stages, 2, m, backward_slots=backward),
    ):
        assert parse_grid(made.draw(), made.flush) == made
        ends = {p.action: p.start + p.length for row in made.rows for p in row}
        for row in made.rows:
            assert all(a.start + a.length <= b.start for a, b in pairwise(row))
        for placed in (p for row in made.rows for p in row):
            at, kind, k = placed.action.stage, placed.action.kind, placed.action.index
            needs = []
            if kind is ActionKind.forward and at:
                needs = [Action(at - 1, kind, k)]
            elif kind is ActionKind.backward:
                needs = [Action(at, ActionKind.forward, k)] + ([Action(at + 1, kind, k)] if at + 1 < stages else [])
            assert all(ends[need] <= placed.start for need in needs)
    for stage in range(stages):
        in_flight = max(c.in_flight for c in timeline(async_1f1b(stages, count, m, window), stage))
        assert in_flight <= window.sizes(stages, m)[stage]


def test_actions_read_back():
    for action in (
        Action(0, ActionKind.forward, 3),
        Action(12, ActionKind.backward, 0),
        Action(1, ActionKind.update, 10),
    ):
        assert parse_action(str(action)) == action
    with pytest.raises(UsageError, match="0F3"):
        parse_action("F3")
    with pytest.raises(UsageError, match="slot 1"):
        parse_grid("F0 X1")
    with pytest.raises(UsageError, match="m: got 0"):
        async_1f1b(2, 3, 0)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_a_full_window_leaves_m_minus_1_minus_s_updates_pending(m):
    assert [a.pending for a in steady_peaks(m, m)] == [m - 1 - s for s in range(m)]
    assert [a.versions for a in steady_peaks(m, m)] == [m - s for s in range(m)]


def test_counts_of_known_cases():
    assert [a.pending for a in steady_peaks(2, 4)] == [3, 0]
    assert [a.pending for a in steady_peaks(3, 4)] == [3, 2, 0]
    assert [a.pending for a in steady_peaks(2, 8)] == [3, 0]  # the chain is too short to fill the window
    assert [a.pending for a in steady_peaks(4, 4, Window.uniform)] == [3, 3, 3, 0]
    flushed = timeline(sync_1f1b(3, 2, 4), 0)
    assert max(c.pending for c in flushed) == 0 and flushed[-1] == Alive(0, 1, 0)

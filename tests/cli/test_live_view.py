"""The few lines below a run's epochs on a terminal, and the line an epoch in a pipe."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from rich.console import Console

import relaytrain as rt
from relaytrain.cli.live_view import LiveState, live_panel
from relaytrain.core.problem import Pair
from relaytrain.relay.job import Line, Notice

pytestmark = pytest.mark.slow
RELAY = Path(__file__).parents[1] / "relay"


def said(state: LiveState, width: int = 120) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(live_panel(state))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.fixture(scope="module")
def plan() -> rt.Plan:
    return rt.plan("smart_factory", rule="adaptive")


def line(plan: rt.Plan, epoch: int, loss: float, **more: object) -> Line:
    pair = plan.decisions[0].pair
    figures = {
        "guaranteed": 0.9,
        "level": 0.95,
        "energy_j": 100.0,
        "planned_j": 300.0,
        "elapsed_s": 10.0,
        "deadline_s": 60.0,
    }
    return Line("run-1", epoch, pair, loss, **{**figures, **more}, next_handover=None, plan=plan)  # type: ignore[arg-type]


def test_before_the_first_epoch_it_says_that_it_plans():
    assert said(LiveState()) == ["planning the first epoch"]


def test_it_says_how_sure_what_is_left_and_what_comes(plan):
    state = LiveState()
    state.hear(line(plan, 1, 0.8))
    standing, losses, coming = said(state)
    assert "sure of loss" in standing and "200 J to go" in standing and "50s left of 60s, emulated" in standing
    assert "0.8, at most 0.9 at 95% said before" in losses
    assert str(plan.decisions[0].pair) in coming


def test_a_plan_that_moved_leaves_the_one_before_it(plan):
    from dataclasses import replace

    state = LiveState()
    state.hear(line(plan, 1, 0.8))
    assert len(said(state)) == 3
    other = replace(plan, decisions=tuple(replace(d, nodes="elsewhere") for d in plan.decisions[1:]))
    state.hear(line(other, 2, 0.7))
    assert [row for row in said(state) if row.startswith("was ")]


def test_trouble_is_kept_and_cannot_steer_the_terminal(plan):
    state = LiveState()
    state.hear(line(plan, 1, 0.8))
    state.heard(Notice("run-1", 1, "failure", "node edge failed: \x1b[2Jkilled"))
    assert said(state)[-1] == "node edge failed: \\x1b[2Jkilled"


def test_epochs_that_were_undone_are_forgotten(plan):
    state = LiveState()
    for epoch in (1, 2, 3, 2):
        state.hear(line(plan, epoch, 0.8))
    assert len(state.done) == 2 and [known.epoch for known in state.lines] == [1, 2]


def test_it_fits_a_narrow_terminal_and_a_guess_states_nothing(plan):
    from dataclasses import replace

    state = LiveState()
    guess = replace(plan, guess=True)
    for epoch in range(1, 80):
        state.hear(line(guess, epoch, 1.0 / epoch, guess=True, guaranteed=math.inf))
    rows = said(state, width=40)
    assert all(len(row) <= 40 for row in rows)
    assert "%" not in rows[0] and Pair(*plan.decisions[0].pair) in state.done


def test_on_a_terminal_the_lines_still_scroll_and_the_view_goes(tmp_path):
    """A real run on a pseudo-terminal."""
    import os
    import pty
    import subprocess
    import sys

    script = (
        f"import sys; sys.path.insert(0, {str(RELAY)!r}); import stub\n"
        "from relaytrain.cli.watching import Watcher\n"
        "from relaytrain.relay import loop\n"
        "from relaytrain.store import RunStore\n"
        f"store = RunStore.open({str(tmp_path)!r})\n"
        "with Watcher.watching() as told: loop.start(stub.job(), store, run='on-a-tty', told=told)\n"
    )
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", script]
    ended = subprocess.Popen(words, stderr=theirs, env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"})
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert ended.wait(120) == 0
    text = seen.decode("utf-8", "replace")
    assert "k   1 | L on gold" in text and "sure of loss 0.45" in text and "plan  " in text

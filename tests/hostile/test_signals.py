"""Ctrl-C and SIGTERM, once or several times, at random moments of planning, training and writing: the verdict is
"stopped" and the exit status 6 (or what the run had reached before), and `resume` gives bit for bit what an
undisturbed run gives.

`python -m pytest tests/hostile/test_signals.py` sends 6 volleys, with RELAYTRAIN_TIER=soak 100.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import namedtuple
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import stub
from compare import trace
from store_faults import RUN, Child, scratch, soak

from relaytrain.cli.app import main
from relaytrain.cli.signals import NUMBERS, deafen, signals
from relaytrain.core.errors import interrupted
from relaytrain.relay import loop
from relaytrain.store import RunStore, check
from relaytrain.store.check import errors

VOLLEYS = 100 if soak() else 6
STOPPED, DONE = 6, 0
SIGNALS_OF_A_VOLLEY = (1, 2, 2, 3, 5)


def volley(chance: random.Random, calls: int) -> None:
    """Send this process signals: the first at a random one of its next `calls` calls, the others right after."""
    left = [chance.choice(NUMBERS) for _ in range(chance.choice(SIGNALS_OF_A_VOLLEY))]
    calls_left, pause_s = chance.randrange(calls), 1e-4 + chance.random() * 2e-3

    def send(number: int, frame: object) -> None:
        with suppress(IndexError):  # the next alarm may come in the middle of this one
            os.kill(os.getpid(), left.pop())
        if not left:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls_left
        calls_left -= event == "call"
        if calls_left <= 0:
            sys.setprofile(None)
            signal.setitimer(signal.ITIMER_REAL, 1e-6, pause_s)

    signal.signal(signal.SIGALRM, send)
    sys.setprofile(count)


def calls_of(work: Callable[[], int]) -> int:
    """How many Python calls the main thread of a child makes in it."""

    def counted(say) -> int:
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        status = work()
        sys.setprofile(None)
        say("calls", calls)
        return status

    life = Child(counted).wait()
    assert life.code == DONE, life
    return dict(life.said)["calls"]


def go(folder: Path, job=None) -> int:
    """What `relaytrain run` and `resume` do, with a runner that needs no torch; exit status as of the command."""
    store = RunStore.open(folder)
    made = job or stub.job()
    with signals.stopping() as stop:
        if store.events(RUN):
            ended = loop.resume(made, store, RUN, stop=stop)
        else:
            ended = loop.start(made, store, run=RUN, stop=stop)
    return ended.exit_status


def guarded(work) -> int:
    """As `main` does it."""
    try:
        with signals.handled():
            return work()
    except BaseException as error:
        if not interrupted(error):
            raise
        return STOPPED


@pytest.mark.slow
def test_signals_at_random_moments_of_planning_training_and_writing():
    chance = random.Random(14)
    with scratch() as base:
        assert go(base) == DONE  # compiles what is not compiled yet
        straight = trace(RunStore.open(base), RUN)
    with scratch() as base:
        calls = calls_of(lambda: go(base))
    sent = stopped = finished = before = 0
    while sent < VOLLEYS:
        with scratch() as folder:
            for _ in range(3):
                seed, sent = chance.random(), sent + 1

                def work(say, folder=folder, seed=seed) -> int:
                    deafen()  # as the command does before and behind `main`
                    return guarded(lambda: (volley(random.Random(seed), calls), go(folder))[1])

                life = Child(work).wait()
                store = RunStore.open(folder)
                there = (folder / "runs.sqlite").exists() and bool(store.events(RUN))
                last = store.events(RUN)[-1].body if there else {}
                verdict = last.get("verdict")
                said = f"volley {sent}: {life}, verdict {verdict} {last.get('notes')}"
                assert (life.code, verdict) in {(STOPPED, "stopped"), (DONE, "met"), (STOPPED, None)}, said
                stopped, finished = stopped + (verdict == "stopped"), finished + (verdict == "met")
                before += verdict is None
                assert not there or errors(check(folder)) == [], said
                if verdict == "met":
                    break
            else:
                assert go(folder) == DONE
            assert trace(RunStore.open(folder), RUN) == straight, said
    print(f"signals: {sent} volleys, {stopped} stopped, {before} before the run began, {finished} after its end")
    assert stopped > sent // 3


def test_a_search_that_makes_a_system_error_of_ctrl_c_is_a_stop():
    """Compiled code does so when a signal comes while it unpacks its arguments."""

    class Compiled:
        name = "compiled"

        def plan(self, problem, costs, law, state):
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                raise SystemError("returned a result with an exception set") from error

    from dataclasses import replace

    with scratch() as folder:
        ended = loop.start(replace(stub.job(), planner=Compiled()), RunStore.open(folder), run=RUN)
        assert (ended.verdict, ended.exit_status) == ("stopped", STOPPED)
        assert go(folder) == DONE


def test_a_signal_while_compiled_code_hands_over_its_result_waits():
    """Numba makes named tuples by Python code and does not look whether that fails: the interpreter would crash."""
    made = namedtuple("made", ("part",))

    def work(say) -> int:
        def inside(frame: object, event: str, argument: object) -> None:
            if event == "call" and frame.f_globals.get("__name__") == "namedtuple_made":
                sys.setprofile(None)
                os.kill(os.getpid(), signal.SIGINT)

        def verb() -> int:
            sys.setprofile(inside)
            kept = made(1)
            say("made", kept.part)
            signal.pause()  # until it is sent again
            return DONE

        return guarded(verb)

    life = Child(work).wait()
    assert (life.code, life.said) == (STOPPED, (("made", 1),))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("moment", ["epoch", "trained", "hand_over", "probe", "test"])
def test_two_signals_at_a_moment_drop_it_and_many_more_change_nothing(number, moment):
    def fault(now, decision, attempt):
        if now == moment and (decision is None or decision.epoch >= 2):
            for _ in range(4):
                os.kill(os.getpid(), number)

    with scratch() as folder:
        status = guarded(lambda: go(folder, stub.job(fault=fault)))
        events = RunStore.open(folder).events(RUN) if (folder / "runs.sqlite").exists() else ()
        if moment == "probe":  # before the run began
            assert status == STOPPED and not events
        elif moment == "test":  # its target was met before they came
            assert (status, events[-1].body["verdict"]) == (DONE, "met")
        else:
            assert (status, events[-1].body["verdict"]) == (STOPPED, "stopped")
            assert go(folder) == DONE


@pytest.mark.parametrize("volleys", [range(6 if not soak() else 40)])
def test_a_plan_that_is_interrupted_ends_with_6_and_a_word(volleys, tmp_path):
    words = tmp_path / "words"

    def command() -> int:
        os.dup2(os.open(words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stderr = sys.stdout = os.fdopen(2, "w", buffering=1)
        deafen()  # to those that come before `main` or after it
        return main(["plan", "fig5"])

    calls = calls_of(command)

    def work(say, seed: int) -> int:
        volley(random.Random(seed), calls)
        return command()

    ended = []
    for seed in volleys:
        life = Child(lambda say, seed=seed: work(say, seed)).wait()
        text = words.read_text()
        assert life.code in (STOPPED, DONE) and "Traceback" not in text and "bug" not in text, (seed, life, text)
        assert life.code == DONE or "stopped" in text
        ended.append(life.code)
    assert STOPPED in ended

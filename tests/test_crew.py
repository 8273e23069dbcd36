"""The crew from outside: tasks come back with their results, errors with their class, and a dead worker is no hang."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from relaytrain.core.errors import InfeasibleError
from relaytrain.crew import Crew, WorkerEnded
from relaytrain.scenario import load_scenario

MODULE = "simulate.simulation"


def opening(name: str, mode: str) -> dict:
    return {"scenario": load_scenario(name).resolved, "task": {"seed": 0, "modes": [mode], "rules": ["true"]}}


def test_every_task_is_answered_once():
    with Crew(MODULE, opening("worlds", "slack"), 2) as crew:
        answers, waiting = {}, [5, 3, 4]
        while len(answers) < 3:
            for worker in crew.idle[: len(waiting)]:
                crew.give(worker, waiting.pop())
            task, rows = crew.take()
            answers[task] = rows[0]["index"]
        assert answers == {3: 3, 4: 4, 5: 5} and crew.idle == [0, 1]


def test_errors_keep_their_class_and_the_worker_goes_on():
    with Crew(MODULE, opening("smart_factory", "tight"), 1) as crew:
        for index in (0, 1):
            crew.give(0, index)
            with pytest.raises(InfeasibleError, match="tight"):
                crew.take()


def test_a_worker_that_ends_names_its_task():
    with Crew(MODULE, opening("worlds", "slack"), 1) as crew:
        os.kill(crew._processes[0].pid, 9)
        crew.give(0, 7)
        with pytest.raises(WorkerEnded) as ended:
            crew.take()
    assert ended.value.task == 7


def test_a_module_that_is_not_ours_is_refused():
    words = [sys.executable, "-m", "relaytrain.crew", "os"]
    refused = subprocess.run(words, input="{}\n", capture_output=True, text=True, check=False, timeout=300)
    assert refused.returncode != 0 and "relaytrain.os" in refused.stderr

"""Worlds shared out over processes of our own, as JSON lines: no forking of the caller, nothing pickled.

caller                      worker (python -m relaytrain.simulate.worker)
task: scenario, seed ... ->
index                    ->
                         <- results of that world
"""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

from ..core import errors
from ..core.errors import RelayTrainError
from ..scenario import Scenario
from .clairvoyant import Clairvoyant, clairvoyant
from .closed_loop import Outcome, run_rule
from .summary import WorldResult
from .worlds import draw_world


@dataclass(frozen=True)
class WorldTask:
    """What every world is put through."""

    seed: int
    modes: tuple[str, ...]
    rules: tuple[str, ...]


def play(scenario: Scenario, task: WorldTask, index: int) -> list[WorldResult]:
    """World `index` in every mode, under every rule."""
    results = []
    for mode in task.modes:
        world = draw_world(scenario, index, task.seed, mode)
        outcomes = {rule: run_rule(world, rule) for rule in task.rules}
        known = min((o.energy_j for o in outcomes.values() if o.met), default=math.inf)
        results.append(WorldResult(index, mode, world.reversible, clairvoyant(world, known), outcomes))
    return results


def play_all(scenario: Scenario, task: WorldTask, indexes: Sequence[int], workers: int) -> Generator[list[WorldResult]]:
    """Results world by world, in the order they are done; with more than one worker, in processes."""
    if workers <= 1:
        yield from (play(scenario, task, index) for index in indexes)
        return
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[list[WorldResult] | RelayTrainError] = queue.SimpleQueue()
    for index in indexes:
        waiting.put(index)
    opening = json.dumps({"scenario": scenario.resolved, "task": asdict(task)})
    crew = [_hire() for _ in range(workers)]
    threads = [threading.Thread(target=_serve, args=(process, opening, waiting, done), daemon=True) for process in crew]
    try:
        for thread in threads:
            thread.start()
        for _ in indexes:
            result = done.get()
            if isinstance(result, RelayTrainError):
                raise result
            yield result
    finally:
        for process in crew:
            process.kill()
            process.wait()
        for thread in threads:
            thread.join()


def _hire() -> subprocess.Popen[str]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return subprocess.Popen(
        [sys.executable, "-m", "relaytrain.simulate.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **one_thread},
    )


def _serve(
    process: subprocess.Popen[str],
    opening: str,
    waiting: queue.SimpleQueue[int],
    done: queue.SimpleQueue[list[WorldResult] | RelayTrainError],
) -> None:
    """Hands one worker a world after the other; its end before its answer is an error, not a hang."""
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        try:
            say(process.stdin, opening)
            while True:
                index = waiting.get_nowait()
                say(process.stdin, str(index))
                answer = json.loads(process.stdout.readline() or "null")
                if answer is None:
                    raise BrokenPipeError(f"the worker ended without an answer about world {index}")
                done.put(_error(answer) if isinstance(answer, dict) else [_result(row) for row in answer])
        except queue.Empty:
            return
        except (OSError, ValueError) as error:
            done.put(RelayTrainError(f"simulate: {error}; try again with workers=1 to see why"))


def say(stream: IO[str], line: str) -> None:
    """One line, sent at once."""
    stream.write(line + "\n")
    stream.flush()


def _error(answer: dict[str, str]) -> RelayTrainError:
    """The error a worker met, as the same class here."""
    kind = getattr(errors, answer["error"], RelayTrainError)
    made = kind(answer["message"])
    assert isinstance(made, RelayTrainError)
    return made


def _result(row: dict[str, Any]) -> WorldResult:
    outcomes = {name: Outcome(**{**o, "actions": tuple(o["actions"])}) for name, o in row["outcomes"].items()}
    return WorldResult(row["index"], row["mode"], row["reversible"], Clairvoyant(**row["best"]), outcomes)

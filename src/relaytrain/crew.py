"""Tasks shared out over processes of our own, as JSON lines: no forking of the caller, nothing pickled.

    caller                        worker (python -m relaytrain.crew MODULE)
    opening                    -> MODULE.worker(opening) gives the function that does a task
    task                       ->
                               <- {"done": its result} | {"error": class of `core.errors`, "message": words}

Who calls decides which worker gets which task; every worker has one task at a time, one thread, and answers in its own
time. MODULE is one of ours, named from `relaytrain` on. Whatever a task prints goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

from .core import errors
from .core.errors import RelayTrainError

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Of the environment: how many threads numerical libraries start."""
ONE_THREAD = dict.fromkeys(THREAD_VARIABLES, "1")
Task = tuple[int, int]
"""A seed, and which of its tasks."""


class WorkerEnded(RelayTrainError):
    """A worker ended without an answer about `task`; None: before it was given one."""

    def __init__(self, task: Any) -> None:
        super().__init__(f"a worker ended without an answer about task {task}")
        self.task = task


class Crew:
    """So many workers as processes, from the beginning of a `with` block to its end, however it ends."""

    def __init__(self, module: str, opening: Any, workers: int) -> None:
        self._command = [sys.executable, "-m", "relaytrain.crew", module]
        self._opening = opening
        self._workers = workers
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self._answers: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._given: dict[int, Any] = {}

    def __enter__(self) -> Self:
        try:
            for number in range(self._workers):
                process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **ONE_THREAD},
                )
                self._processes.append(process)
                self._listeners.append(threading.Thread(target=self._listen, args=(number, process), daemon=True))
                self._listeners[-1].start()
            for number in range(self._workers):
                self._say(number, self._opening)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def idle(self) -> list[int]:
        """Numbers of the workers without a task."""
        return [number for number in range(self._workers) if number not in self._given]

    def give(self, worker: int, task: Any) -> None:
        """Hand a task, of JSON values, to an idle worker."""
        self._given[worker] = task
        self._say(worker, task)

    def take(self) -> tuple[Any, Any]:
        """The next answer of any worker: a task and its result.

        Raises:
            WorkerEnded: a worker is gone. Any other RelayTrainError: the one that its task met, of the same class.
        """
        worker, answer = self._answers.get()
        task = self._given.pop(worker, None)
        if answer is None:
            raise WorkerEnded(task)
        if "error" in answer:
            raise getattr(errors, answer["error"], RelayTrainError)(answer["message"])
        return task, answer["done"]

    def _say(self, worker: int, value: Any) -> None:
        stream = self._processes[worker].stdin
        assert stream is not None
        with suppress(OSError):  # it has ended: whoever listens to it hears of that
            _send(stream, value)

    def _listen(self, worker: int, process: subprocess.Popen[str]) -> None:
        """Every answer of one worker, and None once it has ended, be it in the middle of a line."""
        assert process.stdout is not None
        with process.stdout, suppress(ValueError):
            for line in process.stdout:
                self._answers.put((worker, json.loads(line)))
        self._answers.put((worker, None))

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                with suppress(OSError):  # what it was told last, and did not read
                    process.stdin.close()
        for listener in self._listeners:
            listener.join()


def shared_out(
    crew: Crew, ready: Callable[[], Iterable[Task]], urgency: Callable[[Task], float] = lambda task: 0.0
) -> Iterator[tuple[Task, Any]]:
    """Every task with its result, until none is ready and none under way.

    A worker goes on with the seed whose data it has open, then with one that no other has, and of those with the most
    urgent task. `ready`: the tasks that can start, asked before each is given; those under way may be among them.
    """
    seed_of: dict[int, int] = {}
    running: set[Task] = set()
    while True:
        for number in crew.idle:
            mine, others = seed_of.get(number), {seed for seed, _ in running}
            ranked = [(t[0] != mine, t[0] in others, -urgency(t), t) for t in {*ready()} - running]
            if ranked:
                *_, task = min(ranked)
                running.add(task)
                seed_of[number] = task[0]
                crew.give(number, task)
        if not running:
            return
        task, result = crew.take()
        running.discard(task)
        yield task, result


def _send(stream: IO[str], value: Any) -> None:
    stream.write(json.dumps(value) + "\n")
    stream.flush()


def _work(module: str, lines: IO[str], answers: IO[str]) -> None:
    """Answers every task with its result, or with the error that kept it from being done."""
    opening = lines.readline()
    if not opening:
        return
    work: Callable[[Any], Any] = importlib.import_module(f"relaytrain.{module}").worker(json.loads(opening))
    for line in lines:
        try:
            answer = {"done": work(json.loads(line))}
        except RelayTrainError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        _send(answers, answer)


def _main(module: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller hears Ctrl-C too, and ends us
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        _work(module, sys.stdin, answers)
    except BrokenPipeError:  # nobody listens any more
        os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1])

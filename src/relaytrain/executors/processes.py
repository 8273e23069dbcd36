"""Nodes in local processes: resident workers, each holding the data of some nodes, training at the same time.

    parent                                    worker (`executors/worker.py`, forked by `launcher.py`)
    open: data of its nodes  ->  writer thread  ->  pipe  ->
                             <-  reader thread  <-  pipe  <- ready
    task: checkpoint         ->                              trains
                             <-  reader thread  <-  pipe  <- beats while it trains, then the result

Nothing is pickled, the caller is not forked, its `__main__` is not imported. A worker that dies, stops or is too
slow costs its tasks, never the epoch's end: it is killed, its tasks are answered with an error, and the next task for
its nodes starts another one. A task's deadline counts from the moment it is sent, whether or not its worker runs by
then; one that is still starting at the deadline goes on starting, so that the next attempt finds it further on.
"""

from __future__ import annotations

import contextlib
import math
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray
from safetensors.numpy import save

from ..core.errors import UsageError
from ..crew import THREAD_VARIABLES
from ..data.dataset import Dataset
from ..data.own import OwnData
from ..models.spec import FactorySpec
from ..training.setup import TrainingSetup
from ..training.task import BadMessage, FailureKind, Key, NodeResult, NodeTask, failed
from . import children
from .children import ChildProcess
from .frames import Frame, check_frame, read_frame, write_frame
from .shares import divide

STALL_S = 60.0
"""A worker that shows no sign of life for so long between two batches is taken for dead."""
START_S = 180.0
"""How long a worker may take to start: importing torch takes seconds, on a busy machine many. Deadlines come first."""
CLOSE_S = 2.0

FRAME_FACTOR, FRAME_SLACK = 4, 2**20
"""A worker's frame has at most so many times the bytes of its task, and so many more: an update holds the weights that
the task holds, and of the optimizer up to two numbers a weight that the task may lack."""

Inbox = queue.SimpleQueue[tuple["_Worker", Frame | BadMessage | None]]


@dataclass(eq=False)
class _Worker:
    """A process with its two threads; `seen_s` is when it last said anything or, before it is `ready`, when it began.

    `waiting`: tasks without an answer, in the order in which they are done; sent once the worker is ready.
    `most_bytes`: how long a frame of it may be. `allowed`: frames but for beats that it may still send.
    """

    nodes: tuple[str, ...]
    process: ChildProcess
    outbox: queue.SimpleQueue[tuple[str, bytes, dict[str, Any]] | None] = field(default_factory=queue.SimpleQueue)
    threads: tuple[threading.Thread, ...] = ()
    seen_s: float = 0.0
    ready: bool = False
    ready_s: float = 0.0
    cpu_s: float = 0.0
    most_bytes: int = FRAME_SLACK
    allowed: int = 1
    waiting: dict[Key, NodeTask] = field(default_factory=dict)

    def hand(self, task: NodeTask) -> None:
        """To its process."""
        data = task.to_bytes()
        self.most_bytes = max(self.most_bytes, FRAME_FACTOR * len(data) + FRAME_SLACK)
        self.allowed += 2  # an answer, and one more that comes twice
        self.outbox.put(("task", data, {}))

    def heard(self, kind: str) -> None:
        """A sign of life, unless it is one that it could not give."""
        if kind in ("beat", "result") and not self.ready:
            raise BadMessage(f"a {kind} before it was ready")
        self.allowed -= kind != "beat"
        if self.allowed < 0:
            raise BadMessage("more answers than tasks")
        self.seen_s = time.monotonic()


class Processes:
    """Local worker processes under the contract of every transport.

    Args:
        setup: whose nodes they play; a module that lives in this process only cannot be sent to others.
        workers: how many processes; nodes are divided among them by the amount of data.
        stall_s: how long a worker may show no sign of life.
    """

    def __init__(self, setup: TrainingSetup, workers: int = 2, *, stall_s: float = STALL_S) -> None:
        for plan in setup.versions.values():
            if isinstance(plan.spec, FactorySpec) and plan.spec.factory not in setup.references:
                raise UsageError(
                    f"processes: version {plan.name} is a module of this process only, which others cannot build; "
                    'name it as factory = "module:function", or train in-process'
                )
        if any(function is not None for function in setup.functions):
            raise UsageError(
                "processes: step and evaluate are functions of this process only, which others cannot call; name them "
                'as [training] step = "module:function", or train in-process'
            )
        for node, data in setup.datasets.items():
            if isinstance(data, OwnData) and data.origin is None:
                raise UsageError(
                    f"processes: the data of {node} are an object of this process only, which others cannot reach; "
                    'name them as [data] source = "module:function", or train in-process'
                )
        if setup.given is not None:
            raise UsageError(
                "processes: optimizer or schedule is a function of this process only, which others cannot call; "
                'name it as training.optimizer = "module:function", or train in-process'
            )
        self.setup, self.stall_s = setup, stall_s
        self._shares = divide({node: setup.counted_at(node) for node in setup.datasets}, workers)
        self._crew: list[_Worker | None] = [None] * len(self._shares)
        self._inbox: Inbox = queue.SimpleQueue()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def pids(self) -> dict[str, int]:
        """The process that plays each node, of those that run."""
        return {node: w.process.pid for w in self._crew if w is not None for node in w.nodes}

    def send(self, tasks: Iterable[NodeTask]) -> Iterator[NodeResult]:
        """Results as they arrive; a failure is a result, and every task gets exactly one."""
        sent_s = time.monotonic()
        open_: dict[Key, tuple[NodeTask, _Worker]] = {}
        for task in tasks:
            index = next((i for i, share in enumerate(self._shares) if task.node in share), None)
            if index is None:
                yield failed(task, "refused", f"no node {task.node!r} here; known: {', '.join(self.setup.datasets)}")
                continue
            worker = self._hired(index)
            worker.waiting[task.key] = task
            if worker.ready:
                worker.seen_s = time.monotonic()
                worker.hand(task)
            open_[task.key] = task, worker
        while open_:
            for result in self._next(open_, sent_s):
                if open_.pop(result.key, None) is not None:
                    yield result

    def close(self) -> None:
        """End every worker: by closing its pipe, and if that is not enough, by force."""
        for index, worker in enumerate(self._crew):
            if worker is not None:
                worker.outbox.put(None)
                worker.threads[-1].join(CLOSE_S)  # its pipe ends with it
                self._end(worker)
                self._crew[index] = None

    def _next(self, open_: dict[Key, tuple[NodeTask, _Worker]], sent_s: float) -> list[NodeResult]:
        """What the next frame brings, or what the passing of time does, however much a worker talks."""
        now, due = time.monotonic(), min(self._due(*asked, sent_s) for asked in open_.values())
        try:
            if now >= due:
                raise queue.Empty
            worker, frame = self._inbox.get(timeout=max(0.0, self._until(open_, sent_s) - now))
        except queue.Empty:
            return self._overdue(open_, sent_s)
        if worker not in self._crew:
            return []  # of a worker that was let go
        if frame is None:
            return self._lose(worker, "lost", f"its process ended ({worker.process.end()})")
        try:
            if isinstance(frame, BadMessage):
                raise frame
            return self._take(worker, *frame)
        except BadMessage as wrong:
            return self._lose(worker, "corrupt", f"its process sent what no worker sends: {wrong}")

    def _take(self, worker: _Worker, header: dict[str, Any], body: bytes) -> list[NodeResult]:
        """What a frame brings that was checked by itself; here it is held against what the worker was asked."""
        if header["kind"] == "ready":
            if worker.ready:
                raise BadMessage("ready a second time")
            worker.ready, worker.ready_s = True, time.monotonic()
            for task in worker.waiting.values():
                worker.hand(task)
        elif header["kind"] == "broken":
            if header["failure"] not in ("user", "refused"):
                raise BadMessage(f"a failure of kind {header['failure'][:40]!r}")
            return self._lose(worker, header["failure"], header["error"])
        elif header["kind"] == "result":
            result = NodeResult.from_bytes(body)
            if result.node not in worker.nodes:
                raise BadMessage(f"an answer for node {result.node[:40]!r}, expected {' or '.join(worker.nodes)}")
            if worker.waiting.pop(result.key, None) is not None:  # else late, or there already
                return [result]
        return []

    def _until(self, open_: dict[Key, tuple[NodeTask, _Worker]], sent_s: float) -> float:
        return min(min(self._due(task, worker, sent_s), self._stalled(worker)) for task, worker in open_.values())

    def _due(self, task: NodeTask, worker: _Worker, sent_s: float) -> float:
        """A worker that starts within a task's time has the whole of it from then on, or it would never get to work."""
        if task.timeout_s is None:
            return math.inf
        return (max(sent_s, worker.ready_s) if worker.ready else sent_s) + task.timeout_s

    def _stalled(self, worker: _Worker) -> float:
        return worker.seen_s + self._patience(worker)

    def _patience(self, worker: _Worker) -> float:
        return self.stall_s if worker.ready else START_S

    def _overdue(self, open_: dict[Key, tuple[NodeTask, _Worker]], sent_s: float) -> list[NodeResult]:
        now = time.monotonic()
        results: list[NodeResult] = []
        for task, worker in list(open_.values()):
            if task.key not in worker.waiting:
                continue
            if now >= self._stalled(worker):
                results += self._lose(worker, "lost", f"no sign of life for {self._patience(worker):g} s")
            elif now >= self._due(task, worker, sent_s):
                late = f"no answer within {task.timeout_s:g} s"
                if worker.ready:
                    results += self._lose(worker, "late", late)
                else:
                    del worker.waiting[task.key]
                    results.append(
                        failed(task, "late", f"{late}: its process is still starting; allow a longer epoch_timeout")
                    )
        return results

    def _lose(self, worker: _Worker, kind: FailureKind, error: str) -> list[NodeResult]:
        """All tasks of a worker answered with an error, the worker ended."""
        self._end(worker)
        self._crew = [None if w is worker else w for w in self._crew]
        tasks, worker.waiting = list(worker.waiting.values()), {}
        spent = [worker.cpu_s, *[0.0] * len(tasks)]  # tasks are done in order, so the first one was in work
        return [failed(task, kind, error, cpu_s=cpu) for task, cpu in zip(tasks, spent, strict=False)]

    def _hired(self, index: int) -> _Worker:
        worker = self._crew[index]
        if worker is None:
            worker = self._crew[index] = self._hire(self._shares[index])
        return worker

    def _hire(self, nodes: tuple[str, ...]) -> _Worker:
        settings = self.setup.settings
        limits = dict.fromkeys(THREAD_VARIABLES, str(settings.threads))
        worker = _Worker(nodes, children.start(limits), seen_s=time.monotonic())
        header: dict[str, Any] = {
            "nodes": {node: settings.device_of(node) for node in nodes},
            "settings": settings.to_dict(),
            "references": list(self.setup.references),
            "folder": None if self.setup.folder is None else str(self.setup.folder.resolve()),
            "threads": settings.threads,
            "parts": {node: dict(self.setup.parts.get(node, {})) for node in nodes},
            "own": {},
            "path": [entry for entry in sys.path if entry],
        }
        arrays: dict[str, NDArray[Any]] = {}
        for node in nodes:
            data = self.setup.datasets[node]
            if isinstance(data, Dataset):
                arrays[f"images/{node}"], arrays[f"labels/{node}"] = data.images, data.labels
            elif data.origin is not None:
                header["own"][node] = vars(data.origin)
                if data.indexes is not None:
                    arrays[f"indexes/{node}"] = data.indexes
        worker.outbox.put(("open", save(arrays), header))
        worker.threads = (
            threading.Thread(target=_write, args=(worker,), daemon=True),
            threading.Thread(target=_read, args=(worker, self._inbox), daemon=True),
        )
        for thread in worker.threads:
            thread.start()
        return worker

    def _end(self, worker: _Worker) -> None:
        worker.process.end()
        worker.outbox.put(None)
        for thread in worker.threads:
            thread.join(CLOSE_S)  # a child of the worker may hold its pipe open


def _write(worker: _Worker) -> None:
    """Frames to the worker; in a thread, since a worker that is stopped reads nothing."""
    pipe = worker.process.tasks
    while (item := worker.outbox.get()) is not None:
        kind, body, header = item
        try:
            write_frame(pipe, kind, body, **header)
        except (BrokenPipeError, ValueError):
            break
    with contextlib.suppress(BrokenPipeError):  # what was not yet sent is of no use to anyone
        pipe.close()


def _read(worker: _Worker, inbox: Inbox) -> None:
    """Frames of the worker, checked. Beats only leave their mark: however many come, nobody has to go through them."""
    pipe = worker.process.results
    with pipe:
        try:
            while (frame := read_frame(pipe, worker.most_bytes)) is not None:
                kind = check_frame(*frame)
                worker.heard(kind)
                if kind == "beat":
                    worker.cpu_s = frame[0]["cpu_s"]
                else:
                    inbox.put((worker, frame))
        except BadMessage as wrong:
            inbox.put((worker, wrong))
            return
    inbox.put((worker, None))

"""`collect`: trains all pieces of a campaign over processes of our own, keeps each, and puts the traces together.

    caller                                   worker (python -m relaytrain.campaigns.worker)
    campaign, work folder                 ->
    seed, piece                           ->
                                          <- done | weights of piece N are lost | error

Whatever the order, the number of workers and the number of crashes, the traces are the same bit for bit: a piece's
result depends on campaign, seed and the weights it starts from alone. What is finished is never trained again.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core import errors
from ..core.errors import RelayTrainError, UsageError
from ..store.files import make_dir, remove, write_atomic
from ..traces.format import write_traces
from ..traces.trace import Segment, TraceSet, TraceSwitch
from .results import Result, checkpoint_path, read_result
from .tree import Branch, Campaign

WORK = "work"
"""Folder beside the traces where pieces are kept, so that a campaign can be resumed and given more seeds."""
DIGITS = 6
"""Significant digits of losses in traces, as in the cases of the format; far below the noise of a training."""
WORKERS = 2

ProgressBar = Callable[[int, int], None]
Task = tuple[int, int]
"""(seed, piece)."""


@dataclass(frozen=True)
class Collected:
    """What a campaign came to. `trained`: pieces of this call; `found`: those that were there already."""

    traces: TraceSet
    folder: Path
    trained: int
    found: int
    cpu_s: float


def collect(
    campaign: Campaign,
    folder: str | Path,
    *,
    seeds: Iterable[int],
    workers: int = WORKERS,
    compress: bool = False,
    progress: ProgressBar | None = None,
) -> Collected:
    """Train what is not there yet and write the traces of all `seeds` to `folder`.

    Args:
        campaign: what to train.
        folder: traces come here, pieces in `work/` below; one that holds another campaign is refused.
        seeds: every seed is a repetition with other weights, batches and images.
        workers: processes; the traces do not depend on it.
        compress: write packed tables.
        progress: called with images done and images in all.
    """
    wanted = sorted(set(seeds))
    if not wanted or workers < 1:
        raise UsageError(f"collect: {len(wanted)} seeds and {workers} workers, expected at least one of each")
    place = make_dir(folder)
    work = make_dir(place / WORK)
    _claim(campaign, work)
    crew = _Crew(campaign, work, wanted, progress)
    found = len(crew.done)
    if crew.left:
        crew.run(min(workers, len(crew.left)))
    traces = traces_of(campaign, wanted, crew.done)
    write_traces(traces, place, compress=compress)
    for name in ("epochs.csv", "switches.csv"):  # of an earlier call, in the other form
        remove(place / (name if compress else f"{name}.gz"))
    return Collected(traces, place, len(crew.done) - found, found, sum(result.cpu_s for result in crew.done.values()))


def _claim(campaign: Campaign, work: Path) -> None:
    """Write down whose folder this is, or see that it is this campaign's."""
    path = work / "campaign.json"
    text = json.dumps({**campaign.to_dict(), "digest": campaign.digest}, indent=1) + "\n"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))["digest"]
    except FileNotFoundError:
        write_atomic(path, text)
        return
    except (OSError, ValueError, TypeError, KeyError):
        kept = "something else"
    if kept != campaign.digest:
        raise UsageError(f"{work.parent}: holds the pieces of another campaign; choose another folder for this one")


class _Crew:
    """Hands pieces to workers, those first that others wait for, and takes in what they did."""

    def __init__(self, campaign: Campaign, work: Path, seeds: list[int], progress: ProgressBar | None) -> None:
        self.campaign, self.work, self.progress = campaign, work, progress
        self.done: dict[Task, Result] = {}
        for seed in seeds:
            for piece in campaign.pieces:
                result = read_result(work, seed, piece.index, campaign.digest)
                if result is not None and len(result.rows) == piece.epochs:
                    self.done[seed, piece.index] = result
        self.tasks = [(seed, piece.index) for seed in seeds for piece in campaign.pieces]
        self.left = {task for task in self.tasks if task not in self.done}
        self.running: set[Task] = set()
        self._urgency = _urgency(campaign)

    def run(self, workers: int) -> None:
        """Until nothing is left."""
        answers: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        hired = [_hire() for _ in range(workers)]
        opening = json.dumps({"campaign": self.campaign.to_dict(), "work": str(self.work)})
        threads = []
        busy: dict[int, Task] = {}
        seed_of: dict[int, int | None] = dict.fromkeys(range(workers))
        try:
            for number, process in enumerate(hired):
                thread = threading.Thread(target=_listen, args=(number, process, answers), daemon=True)
                thread.start()
                threads.append(thread)
                _say(process, opening)
            self._report()
            while self.left or busy:
                for number in set(range(workers)) - set(busy):
                    task = self._next(seed_of[number])
                    if task is not None:
                        busy[number], seed_of[number] = task, task[0]
                        self.running.add(task)
                        _say(hired[number], json.dumps(list(task)))
                number, answer = answers.get()
                task = busy.pop(number, None)
                if task is None:
                    raise RelayTrainError("collect: a worker ended before it was given anything; run it again to go on")
                self.running.discard(task)
                self._take(task, answer)
                self._report()
        finally:
            for process in hired:
                process.kill()
                process.wait()
                if process.stdin is not None:
                    with suppress(OSError):  # what it was told last, and did not read
                        process.stdin.close()
            for thread in threads:
                thread.join()

    def _next(self, seed: int | None) -> Task | None:
        """The most urgent piece that can start, preferably of the seed whose data the worker has open."""
        ready = [task for task in self.left - self.running if self._can_start(task)]
        if not ready:
            return None
        open_elsewhere = {running[0] for running in self.running}

        def rank(task: Task) -> tuple[bool, bool, float, Task]:
            return (task[0] != seed, task[0] in open_elsewhere, -self._urgency[task[1]], task)

        return min(ready, key=rank)

    def _can_start(self, task: Task) -> bool:
        start = self.campaign.pieces[task[1]].start
        return start is None or (task[0], start) in self.done

    def _take(self, task: Task, answer: Any) -> None:
        if answer is None:
            raise RelayTrainError(
                f"collect: a worker ended in piece {task[1]} of seed {task[0]}; run it again to go on"
            )
        if "lost" in answer:  # made once more, then this one again
            again = task[0], int(answer["lost"])
            self.done.pop(again, None)
            self.left.add(again)
            return
        if "error" in answer:
            kind = getattr(errors, answer["error"], RelayTrainError)
            branch = self.campaign.by_run[self.campaign.pieces[task[1]].run]
            made = kind(f"seed {task[0]}, {branch.version} on {branch.nodes}: {answer['message']}")
            assert isinstance(made, RelayTrainError)
            raise made
        result = read_result(self.work, task[0], task[1], self.campaign.digest)
        if result is None:
            raise RelayTrainError(
                f"collect: the result of piece {task[1]} of seed {task[0]} is not there; run it again"
            )
        self.done[task] = result
        self.left.discard(task)
        self._tidy(task)

    def _tidy(self, task: Task) -> None:
        """Remove weights that nobody starts from any more."""
        seed, piece = task
        start = self.campaign.pieces[piece].start
        for index in (piece, start):
            if index is not None and all((seed, taker) in self.done for taker in self.campaign.takers[index]):
                remove(checkpoint_path(self.work, seed, index))

    def _report(self) -> None:
        if self.progress is not None:
            epochs = {piece.index: piece.epochs for piece in self.campaign.pieces}
            done = sum(epochs[piece] for _, piece in self.done)
            self.progress(done, sum(epochs[piece] for _, piece in self.tasks))


def _urgency(campaign: Campaign) -> dict[int, float]:
    """Epochs of the longest chain that begins with a piece."""
    urgency: dict[int, float] = {}
    for piece in reversed(campaign.pieces):
        after = max((urgency[taker] for taker in campaign.takers[piece.index]), default=0.0)
        urgency[piece.index] = piece.epochs + after
    return urgency


def _hire() -> subprocess.Popen[str]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return subprocess.Popen(
        [sys.executable, "-m", "relaytrain.campaigns.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **one_thread},
    )


def _say(process: subprocess.Popen[str], line: str) -> None:
    stream: IO[str] | None = process.stdin
    assert stream is not None
    try:
        stream.write(line + "\n")
        stream.flush()
    except OSError:  # it has ended: whoever listens to it hears of that
        return


def _listen(number: int, process: subprocess.Popen[str], answers: queue.SimpleQueue[tuple[int, Any]]) -> None:
    """Every answer of one worker, and None once it has ended."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            answers.put((number, json.loads(line)))
    answers.put((number, None))


def traces_of(campaign: Campaign, seeds: Iterable[int], done: dict[Task, Result]) -> TraceSet:
    """The traces of finished seeds: every branch's pieces end to end."""
    segments = [_segment(campaign, branch, seed, done) for seed in seeds for branch in campaign.branches]
    return TraceSet(dict(campaign.meta), tuple(segments))


def _segment(campaign: Campaign, branch: Branch, seed: int, done: dict[Task, Result]) -> Segment:
    results = [done[seed, piece.index] for piece in campaign.pieces if piece.run == branch.run]
    rows = np.array([[rounded(v) for v in row] for result in results for row in result.rows])
    chain = campaign.chain(branch)
    switch = None
    if branch.parent is not None:
        kept = dict(results[0].switch or {})
        losses = {
            key: rounded(value) for key, value in kept.items() if key.endswith(("_before", "_after")) and "loss" in key
        }
        before = campaign.by_run[branch.parent]
        switch = TraceSwitch(
            seed=seed, run=branch.run, parent=branch.parent, k=branch.after,
            from_node_set=before.nodes, to_node_set=branch.nodes, **{**kept, **losses},
        )  # fmt: skip
    first = results[0]
    return Segment(
        seed, branch.run, branch.parent, len(chain) - 1, branch.nodes, first.classes, first.samples,
        round(first.pruned_fraction, DIGITS), np.arange(branch.after + 1, branch.last + 1, dtype=np.int64),
        rows[:, 0], rows[:, 1], rows[:, 2], switch,
    )  # fmt: skip


def rounded(value: float) -> float:
    """To `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")

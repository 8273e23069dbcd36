"""`collect`: trains all pieces of a campaign over a crew of processes, keeps each, and puts the traces together.

Whatever the order, the number of workers and the number of crashes, the traces are the same bit for bit: a piece's
result depends on campaign, seed and the weights it starts from alone. What is finished is never trained again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import RelayTrainError, UsageError
from ..crew import Crew, Task, WorkerEnded, shared_out
from ..store.files import make_dir, remove, write_atomic
from ..traces.trace import Segment, TraceSet, TraceSwitch
from ..traces.trace_files import write_traces
from .campaign import Branch, Campaign
from .piece_results import Result, checkpoint_path, read_result

WORK = "work"
"""Folder beside the traces where pieces are kept, so that a campaign can be resumed and given more seeds."""
DIGITS = 6
"""Significant digits of losses in traces, as in the cases of the format; far below the noise of a training."""
WORKERS = 2

ProgressBar = Callable[[int, int], None]


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
        progress: called with epochs done and epochs in all.
    """
    wanted = sorted(set(seeds))
    if not wanted or workers < 1:
        raise UsageError(f"collect: {len(wanted)} seeds and {workers} workers, expected at least one of each")
    place = make_dir(folder)
    work = make_dir(place / WORK)
    _claim(campaign, work)
    pieces = _Pieces(campaign, work, wanted, progress)
    kept = len(pieces.done)
    if pieces.left:
        pieces.train(min(workers, len(pieces.left)))
    traces = traces_of(campaign, wanted, pieces.done)
    write_traces(traces, place, compress=compress)
    for name in ("epochs.csv", "switches.csv"):  # of an earlier call, in the other form
        remove(place / (name if compress else f"{name}.gz"))
    cpu_s = sum(result.cpu_s for result in pieces.done.values())
    return Collected(traces, place, len(pieces.done) - kept, kept, cpu_s)


@dataclass(frozen=True)
class CollectedSoFar:
    """How much of a campaign a folder holds: epochs trained, of how many, and the CPU-seconds they took."""

    epochs: int
    of: int
    cpu_s: float

    @property
    def left_cpu_s(self) -> float | None:
        """What the rest takes if it goes on like this; None before anything was trained."""
        return None if self.epochs == 0 else self.cpu_s * (self.of - self.epochs) / self.epochs

    def __str__(self) -> str:
        words = f"{self.epochs:,} of {self.of:,} epochs ({self.epochs / max(self.of, 1):.1%})"
        if self.left_cpu_s is None:
            return words
        return f"{words} in {self.cpu_s / 3600:.3g} CPU-hours; at that pace {self.left_cpu_s / 3600:.3g} are left"


def collected_so_far(campaign: Campaign, folder: str | Path, seeds: Iterable[int]) -> CollectedSoFar:
    """What an earlier call left in `folder`; nothing is written."""
    pieces = _Pieces(campaign, Path(folder) / WORK, sorted(set(seeds)), None)
    done, of = pieces.epochs
    return CollectedSoFar(done, of, sum(result.cpu_s for result in pieces.done.values()))


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


class _Pieces:
    """Pieces left to train and those done: gives out first what others wait for, and takes in what workers did."""

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

    def train(self, workers: int) -> None:
        """Until nothing is left."""
        opening = {"campaign": self.campaign.to_dict(), "work": str(self.work)}
        urgency = _urgency(self.campaign)
        try:
            with Crew("campaigns.piece_training", opening, workers) as crew:
                self._report()
                for task, answer in shared_out(crew, self._ready, lambda task: urgency[task[1]]):
                    self._take(task, answer)
                    self._report()
        except WorkerEnded as ended:
            where = "before it was given anything"
            if ended.task is not None:
                where = f"in piece {ended.task[1]} of seed {ended.task[0]}"
            raise RelayTrainError(f"collect: a worker ended {where}; run it again to go on") from None

    def _ready(self) -> list[Task]:
        """What is left and waits for nothing."""
        starts = {task: self.campaign.pieces[task[1]].start for task in self.left}
        return [task for task, start in starts.items() if start is None or (task[0], start) in self.done]

    def _take(self, task: Task, lost: int | None) -> None:
        if lost is not None:  # trained once more, then this one again
            self.done.pop((task[0], lost), None)
            self.left.add((task[0], lost))
            return
        result = read_result(self.work, *task, self.campaign.digest)
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

    @property
    def epochs(self) -> tuple[int, int]:
        """Epochs done, and epochs in all."""
        epochs = [piece.epochs for piece in self.campaign.pieces]
        done, every = (sum(epochs[piece] for _, piece in tasks) for tasks in (self.done, self.tasks))
        return done, every

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(*self.epochs)


def _urgency(campaign: Campaign) -> dict[int, float]:
    """Epochs of the longest chain that begins with a piece."""
    urgency: dict[int, float] = {}
    for piece in reversed(campaign.pieces):
        after = max((urgency[taker] for taker in campaign.takers[piece.index]), default=0.0)
        urgency[piece.index] = piece.epochs + after
    return urgency


def traces_of(campaign: Campaign, seeds: Iterable[int], done: dict[Task, Result]) -> TraceSet:
    """The traces of finished seeds: every branch's pieces end to end."""
    segments = [_segment(campaign, branch, seed, done) for seed in seeds for branch in campaign.branches]
    return TraceSet(dict(campaign.meta), tuple(segments))


def _segment(campaign: Campaign, branch: Branch, seed: int, done: dict[Task, Result]) -> Segment:
    results = [done[seed, piece.index] for piece in campaign.pieces if piece.run == branch.run]
    rows = np.array([[rounded(v) for v in row] for result in results for row in result.rows])
    first, stage, switch = results[0], len(campaign.chain(branch)) - 1, None
    if branch.parent is not None:
        told: dict[str, Any] = {key: rounded(v) if "loss" in key else v for key, v in (first.switch or {}).items()}
        told |= {"from_node_set": campaign.by_run[branch.parent].nodes, "to_node_set": branch.nodes}
        switch = TraceSwitch(seed=seed, run=branch.run, parent=branch.parent, k=branch.after, **told)
    data = branch.nodes, first.classes, first.samples, round(first.pruned_fraction, DIGITS)
    epochs = np.arange(branch.after + 1, branch.last + 1, dtype=np.int64)
    losses = rows[:, 0], rows[:, 1], rows[:, 2]
    return Segment(seed, branch.run, branch.parent, stage, *data, epochs, *losses, switch)


def rounded(value: float) -> float:
    """To `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")

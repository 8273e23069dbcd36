"""Which checkpoints a run still needs, and the removal of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import blobs, files
from .events import Event, standing

KEPT_EPOCHS = 2
"""The last two: when the newest is damaged, the one before it is taken."""


@dataclass(frozen=True)
class Removed:
    """What was removed, and the runs that were left alone because they are being written."""

    files: int = 0
    size_bytes: int = 0
    skipped_runs: tuple[str, ...] = ()

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.files + other.files, self.size_bytes + other.size_bytes, self.skipped_runs + other.skipped_runs
        )


def needed(events: Sequence[Event]) -> set[str]:
    """The digests to keep: the last two epochs that stand, the best one, every handover, the start, the verdict's."""
    epochs = [e for e in standing(events) if e.kind == "epoch_done"]
    keep = [e for e in events if e.kind in ("run_started", "handover", "verdict")] + epochs[-KEPT_EPOCHS:]
    if epochs:
        keep.append(min(epochs, key=lambda e: (e.body["loss"], e.seq)))
    return {e.blob for e in keep if e.blob}


def thin(store: Path, run: str, events: Sequence[Event], *, spare: frozenset[str] = frozenset()) -> Removed:
    """Remove everything in the folder of `run` that `events` do not need. The caller holds the run's lease."""
    folder = blobs.folder_of(store, run)
    removed = Removed()
    for name in sorted(blobs.names(store, run) - needed(events) - spare):
        path = folder / name
        size = path.lstat().st_size
        if files.remove(path):
            removed += Removed(1, size)
    return removed

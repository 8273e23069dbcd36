"""Which checkpoints a run still needs, and the removal of the others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import StoreDamaged
from . import blobs, files
from .events import Event

KEPT_EPOCHS = 2
"""The last two: when the newest is damaged, the one before it is taken."""


@dataclass(frozen=True)
class Removed:
    """What was removed, and the runs left alone: somebody writes them, or a checkpoint that they need is damaged."""

    files: int = 0
    size_bytes: int = 0
    skipped_runs: tuple[str, ...] = ()

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.files + other.files, self.size_bytes + other.size_bytes, self.skipped_runs + other.skipped_runs
        )


def needed(events: Iterable[Event]) -> set[str]:
    """The digests to keep: the last two epochs that stand, the best one, every handover, the start, the verdict's.

    Reads the events one by one, so that a run of many epochs is thinned in little memory.
    """
    keep: set[str] = set()
    epochs: list[tuple[int, float, str]] = []
    for event in events:
        if event.kind == "rolled_back":
            epochs = [e for e in epochs if e[0] <= (event.epoch or 0)]
        elif event.kind == "epoch_done" and event.blob:
            loss = event.body.get("loss")
            epochs.append((event.epoch or 0, loss if isinstance(loss, int | float) else math.inf, event.blob))
        elif event.kind in ("run_started", "handover", "verdict") and event.blob:
            keep.add(event.blob)
    keep |= {digest for _, _, digest in epochs[-KEPT_EPOCHS:]}
    if epochs:
        keep.add(min(epochs, key=lambda e: (e[1], e[0]))[2])
    return keep


def thin(store: Path, run: str, keep: set[str], named: set[str] | None = None) -> Removed:
    """Remove everything in the folder of `run` but `keep`. The caller has made sure that nobody writes there.

    With `named` a checkpoint that is none of those stays: it may belong to an event that was lost. What is no regular
    file is left where it is.
    """
    folder = blobs.real_folder(store, run)
    removed = Removed()
    for name in sorted(blobs.names(store, run) - keep):
        path = folder / name
        spared = named is not None and name not in named and blobs.is_name(name)
        if spared or not files.is_regular(path):
            continue
        size = path.lstat().st_size
        if files.remove(path):
            removed += Removed(1, size)
    return removed


def damaged(store: Path, run: str, keep: set[str]) -> list[str]:
    """Those of `keep` that cannot be read as they were written."""
    unreadable = []
    for digest in sorted(keep):
        try:
            blobs.get(store, run, digest)
        except StoreDamaged:
            unreadable.append(digest)
    return unreadable

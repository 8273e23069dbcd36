"""Snapshots of a pipeline: for one number of updates the weights, optimizer state and buffers of every stage.

    FOLDER/00000040-002/003-0.safetensors     after 40 updates, in the run's second attempt, a part written by the stage
                                              that begins at unit 3

Stages write without waiting for each other, each when it is there; a snapshot counts when the parts of one attempt
together hold the whole network. An attempt is what lies between two changes of the stages: parts of different attempts
are never mixed, since another split delays other updates. Parts are safetensors, written tensor by tensor, so that a
stage needs no room for a second copy of itself.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..core.errors import StoreDamaged
from ..planners.pipeline.chain import renumbered, unit_of
from ..store.files import make_dir, write_atomic
from ..training.safetensors_bytes import pieces
from .factors import Tensors
from .tensorfile import TensorFile
from .update_rules import OptimizerState

STEPS = "relaytrain.pipeline.steps/1"
"""The metadata key: how many updates the optimizer counts for each weight, as JSON."""
_FOLDER = re.compile(r"(\d{8})-(\d{3})", re.ASCII)
_TENSOR = re.compile(r"(w|b|s\d):(\d{1,9}\..+)", re.ASCII)
MOST_STEPS = 2**53
"""Of an optimizer: what a float counts."""


@dataclass
class SnapshotContent:
    """Weights, optimizer states and buffers by their names in the whole chain."""

    weights: Tensors = field(default_factory=dict)
    states: dict[str, OptimizerState] = field(default_factory=dict)
    buffers: Tensors = field(default_factory=dict)

    def within(self, first: int, end: int) -> SnapshotContent:
        """The part of units `first` to before `end`, by the names in that stage's own module."""
        return self._renumbered(-first, range(first, end))

    def part(self, first: int, end: int) -> SnapshotContent:
        """The same part by the names in the whole chain."""
        return self._renumbered(0, range(first, end))

    def moved(self, first: int) -> SnapshotContent:
        """The inverse: a stage's own names become those of the chain."""
        return self._renumbered(first)

    def _renumbered(self, by: int, units: Collection[int] | None = None) -> SnapshotContent:
        def kept(table: Mapping[str, Any]) -> dict[str, Any]:
            return {renumbered(n, by): value for n, value in table.items() if units is None or unit_of(n) in units}

        return SnapshotContent(kept(self.weights), kept(self.states), kept(self.buffers))


def place(folder: Path, step: int, attempt: int) -> Path:
    """Where a snapshot's parts lie."""
    return folder / f"{step:08d}-{attempt:03d}"


def write_part(folder: Path, name: str, content: SnapshotContent) -> None:
    """One part, whole or not at all whatever process dies; a machine that dies may lose it."""
    make_dir(folder)
    write_atomic(folder / f"{name}.safetensors", part_pieces(content), durable=False)


def part_pieces(content: SnapshotContent) -> Iterator[bytes | memoryview]:
    """The bytes of one part, tensor by tensor."""
    tensors = {f"w:{n}": t for n, t in content.weights.items()} | {f"b:{n}": t for n, t in content.buffers.items()}
    for n, state in content.states.items():
        tensors |= {f"s{i}:{n}": t for i, t in enumerate(state.tensors)}
    return pieces(tensors, {STEPS: json.dumps({n: s.steps for n, s in content.states.items()})})


def read(folder: Path, *, units: tuple[int, int] | None = None) -> SnapshotContent:
    """All parts of a snapshot, or what belongs to the units from `units[0]` to before `units[1]`.

    Raises:
        StoreDamaged: a part is not whole.
    """
    content = SnapshotContent()
    for path in sorted(folder.glob("*.safetensors")):
        with TensorFile(path) as part:
            states: dict[str, dict[int, Tensor]] = {}
            for key in part.names():
                kind, name = _kind_and_name(path, key)
                if units is not None and not units[0] <= unit_of(name) < units[1]:
                    continue
                if kind[0] == "s":
                    states.setdefault(name, {})[int(kind[1:])] = part.tensor(key)
                else:
                    (content.weights if kind == "w" else content.buffers)[name] = part.tensor(key)
            steps = _steps(path, part.metadata.get(STEPS, "{}"))
        for name in steps:
            if units is None or units[0] <= unit_of(name) < units[1]:
                tensors = states.get(name, {})
                content.states[name] = OptimizerState(steps[name], tuple(tensors[i] for i in sorted(tensors)))
    return content


def names_held(folder: Path) -> set[str]:
    """Weights and buffers in the readable parts of a snapshot; of a damaged one nothing counts."""
    names: set[str] = set()
    for path in folder.glob("*.safetensors"):
        try:
            with TensorFile(path) as part:
                names |= {name for kind, name in (_kind_and_name(path, key) for key in part.names()) if kind in "wb"}
        except StoreDamaged:
            return set()
    return names


def _kind_and_name(path: Path, key: str) -> tuple[str, str]:
    """Of a part's tensor: `w` of a weight, `b` of a buffer, `s0`, `s1` of an optimizer's state; and whose."""
    match = _TENSOR.fullmatch(key)
    if match is None:
        raise StoreDamaged(f"{path}: holds {key[:60]!r}, expected w:NAME, b:NAME or s0:NAME; remove it and run again")
    return match[1], match[2]


def _steps(path: Path, text: str) -> dict[str, int]:
    """How many updates the optimizer counts for each weight."""
    try:
        steps = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        steps = None
    whole = isinstance(steps, dict) and all(type(n) is int and 0 <= n < MOST_STEPS for n in steps.values())
    if not whole or not all(_TENSOR.fullmatch(f"w:{name}") for name in steps):
        raise StoreDamaged(f"{path}: its {STEPS} is no table of updates by weight; remove it and run again")
    return dict(steps)


def newest(folder: Path, wanted: Collection[str]) -> tuple[int, Path] | None:
    """The most advanced snapshot that holds all of `wanted`, and its step."""
    for step, _, path in sorted(_kept(folder), reverse=True):
        if names_held(path) >= set(wanted):
            return step, path
    return None


def last_attempt(folder: Path) -> int:
    """The number of the last attempt that has left anything; 0 where nobody has. Another one's parts are not mixed."""
    return max((attempt for _, attempt, _ in _kept(folder)), default=0)


def prune(folder: Path, keep_from: int) -> None:
    """Remove snapshots of fewer updates than `keep_from`."""
    for step, _, path in _kept(folder):
        if step < keep_from:
            shutil.rmtree(path, ignore_errors=True)


def _kept(folder: Path) -> list[tuple[int, int, Path]]:
    """Step, attempt and place of all snapshots, whole or not."""
    matches = [(_FOLDER.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ())]
    return [(int(match[1]), int(match[2]), path) for match, path in matches if match is not None]

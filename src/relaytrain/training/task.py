"""What travels to a node and back: frozen values with a plain byte form, keyed by (run, epoch, node, attempt).

    task   -> JSON header + checkpoint bytes (spec, weights, optimizer state)
    result <- JSON header + checkpoint bytes, or an error in words

A node that fails in whatever way answers with a result that carries an error; nothing here raises for it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..core.errors import RelayTrainError
from .settings import TrainingSettings, seed_of

FailureKind = Literal["lost", "late", "refused", "non-finite", "user"]
"""How a node may fail.

lost: it or its process died. late: past the deadline. refused: it raised. non-finite: NaN, infinity or weights without
measure. user: code that the user brought raised, and the error says where."""


class HeldData(Protocol):
    """A checkpoint in memory, whose bytes are made when somebody asks for them."""

    @property
    def data(self) -> bytes:
        """The safetensors bytes."""
        ...


Blob = bytes | HeldData
"""A checkpoint: its bytes, or the object itself where task and result stay in one process."""

_LENGTH = struct.Struct("<I")
_MOST_HEADER = 16 * 2**20
Key = tuple[str, int, str, int]


@dataclass(frozen=True)
class NodeTask:
    """One node's share of an epoch. `timeout_s` counts from the moment it is sent; None waits while there is progress.

    `datasets`: which of the data sets staged at the node it passes over; none named means all it holds.
    """

    run: str
    epoch: int
    attempt: int
    node: str
    checkpoint: Blob
    settings: TrainingSettings
    resources: float = 1.0
    timeout_s: float | None = None
    datasets: tuple[str, ...] = ()

    @property
    def seed(self) -> int:
        """Seed of the node's pass: a function of run seed, epoch and node."""
        return seed_of(self.settings.seed, self.epoch, self.node)

    @property
    def key(self) -> Key:
        """What a result must repeat to count."""
        return self.run, self.epoch, self.node, self.attempt

    def to_bytes(self) -> bytes:
        """The form that goes over a pipe."""
        header = {name: value for name, value in vars(self).items() if name != "checkpoint"}
        return pack({**header, "settings": self.settings.to_dict()}, as_bytes(self.checkpoint))

    @classmethod
    def from_bytes(cls, data: bytes) -> NodeTask:
        """The inverse of `to_bytes`."""
        header, body = unpack(data)
        settings = TrainingSettings.from_dict(header.pop("settings"))
        return cls(settings=settings, checkpoint=body, datasets=tuple(header.pop("datasets", ())), **header)


@dataclass(frozen=True)
class NodeResult:
    """What a node came to: new weights with its sample count, or an error. CPU and wall seconds are always measured."""

    run: str
    node: str
    epoch: int
    attempt: int
    samples: int = 0
    checkpoint: Blob | None = None
    train_loss: float | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0
    error: str | None = None
    kind: FailureKind | None = None

    @property
    def key(self) -> Key:
        """The task it answers."""
        return self.run, self.epoch, self.node, self.attempt

    @property
    def data(self) -> bytes | None:
        """The new checkpoint's bytes."""
        return None if self.checkpoint is None else as_bytes(self.checkpoint)

    def to_bytes(self) -> bytes:
        """The form that goes over a pipe."""
        header = {name: value for name, value in vars(self).items() if name != "checkpoint"}
        return pack({**header, "whole": self.checkpoint is not None}, self.data or b"")

    @classmethod
    def from_bytes(cls, data: bytes) -> NodeResult:
        """The inverse of `to_bytes`."""
        header, body = unpack(data)
        whole = header.pop("whole")
        return cls(checkpoint=body if whole else None, **header)


def as_bytes(checkpoint: Blob) -> bytes:
    """The bytes of a checkpoint in either form."""
    return checkpoint if isinstance(checkpoint, bytes) else checkpoint.data


def failed(task: NodeTask, kind: FailureKind, error: str, *, cpu_s: float = 0.0, wall_s: float = 0.0) -> NodeResult:
    """The result of a task that gave no weights."""
    return NodeResult(task.run, task.node, task.epoch, task.attempt, error=error, kind=kind, cpu_s=cpu_s, wall_s=wall_s)


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """A JSON header and bytes as one frame. NaN and infinity in the header are written as JSON extensions."""
    text = json.dumps(header).encode()
    return b"".join((_LENGTH.pack(len(text)), text, body))


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The inverse of `pack`."""
    if len(data) < _LENGTH.size:
        raise RelayTrainError("frame: too short")
    (size,) = _LENGTH.unpack_from(data)
    if size > min(_MOST_HEADER, len(data) - _LENGTH.size):
        raise RelayTrainError("frame: its header is longer than the frame")
    header = json.loads(data[_LENGTH.size : _LENGTH.size + size])
    if not isinstance(header, dict):
        raise RelayTrainError("frame: its header is not an object")
    return header, data[_LENGTH.size + size :]

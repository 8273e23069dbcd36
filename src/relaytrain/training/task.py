"""What travels to a node and back: frozen values with a plain byte form, keyed by (run, epoch, node, attempt).

    task   -> JSON header + checkpoint bytes (spec, weights, optimizer state)
    result <- JSON header + checkpoint bytes, or an error in words

A node that fails in whatever way answers with a result that carries an error; nothing here raises for it. What comes
back is believed only as far as it can be checked: a header has the keys of its form, each of its kind, and no others.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from ..core.errors import RelayTrainError
from ..models.spec import Spec, validate_spec
from .settings import TrainingSettings, seed_of

if TYPE_CHECKING:
    from ..core.cost import Provenance

FailureKind = Literal["lost", "late", "refused", "non-finite", "corrupt", "user"]
"""How a node may fail.

lost: it or its process died. late: past the deadline. refused: it raised. non-finite: NaN, infinity or weights without
measure. corrupt: what it sent cannot be the answer to its task. user: code that the user brought raised, and the error
says where."""


class BadMessage(RelayTrainError):
    """A message that is none of ours, or not one that its sender may send."""


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

    `datasets`: which of the data sets staged at the node it passes over; none named means all it holds. `slices`:
    versions inside the checkpoint's that are trained with it (`ordered_widths`). `stage`: of a pipeline set, which of
    its stages the node plays and how it finds the others (`executors.stages`); the checkpoint is then that stage's part
    of a snapshot.
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
    slices: tuple[Spec, ...] = ()
    stage: Mapping[str, Any] | None = None

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
        header |= {"settings": self.settings.to_dict(), "slices": [spec.to_dict() for spec in self.slices]}
        return pack(header, as_bytes(self.checkpoint))

    @classmethod
    def from_bytes(cls, data: bytes) -> NodeTask:
        """The inverse of `to_bytes`."""
        header, body = unpack(data)
        settings = TrainingSettings.from_dict(header.pop("settings"))
        slices = tuple(validate_spec(spec, "task: slice") for spec in header.pop("slices", ()))
        datasets = tuple(header.pop("datasets", ()))
        return cls(settings=settings, checkpoint=body, datasets=datasets, slices=slices, **header)


@dataclass(frozen=True)
class NodeResult:
    """What a node came to: new weights with its sample count, or an error. CPU and wall seconds are always measured.

    `energy_j`: joules by the node's own meter, where it has one of its own; `provenance` says how they were come by.
    """

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
    energy_j: float | None = None
    provenance: Provenance | None = None

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
        """The inverse of `to_bytes`, for bytes of any origin.

        Raises:
            BadMessage: a key is missing, unknown or of the wrong kind, or success and failure are mixed.
        """
        header, body = unpack(data)
        check_header("result", header, _RESULT)
        whole, error, kind = header.pop("whole"), header["error"], header["kind"]
        if (error is None) != whole or (error is None) != (kind is None) or (body and not whole):
            raise BadMessage("result: expected either weights, or an error with its kind")
        if kind is not None and kind not in get_args(FailureKind):
            raise BadMessage(f"result: its kind is {kind[:40]!r}, expected one of {', '.join(get_args(FailureKind))}")
        if (header["energy_j"] is None) != (header["provenance"] is None):
            raise BadMessage("result: expected joules with their provenance, or neither")
        if header["provenance"] not in (None, *PROVENANCES):
            raise BadMessage(f"result: its provenance is {header['provenance'][:40]!r}")
        return cls(checkpoint=body if whole else None, **header)


def as_bytes(checkpoint: Blob) -> bytes:
    """The bytes of a checkpoint in either form."""
    return checkpoint if isinstance(checkpoint, bytes) else checkpoint.data


def failed(task: NodeTask, kind: FailureKind, error: str, *, cpu_s: float = 0.0, wall_s: float = 0.0) -> NodeResult:
    """The result of a task that gave no weights."""
    return NodeResult(task.run, task.node, task.epoch, task.attempt, error=error, kind=kind, cpu_s=cpu_s, wall_s=wall_s)


Check = Literal["text", "count", "amount", "number", "flag", "text?", "amount?", "number?"]
"""What a key of a header holds: a count is a whole number >= 0, an amount a finite number >= 0; `?` may be null."""

_RESULT: Mapping[str, Check] = {
    "run": "text",
    "node": "text",
    "epoch": "count",
    "attempt": "count",
    "samples": "count",
    "train_loss": "number?",
    "cpu_s": "amount",
    "wall_s": "amount",
    "error": "text?",
    "kind": "text?",
    "energy_j": "amount?",
    "provenance": "text?",
    "whole": "flag",
}
_LONGEST_TEXT = 20_000
PROVENANCES = ("measured", "modelled", "assumed")
"""Of joules, as `core.cost` has them; that module needs numpy."""


def check_header(what: str, header: Mapping[str, Any], keys: Mapping[str, Check]) -> None:
    """Refuse a header that does not have exactly `keys`, each of its kind.

    Raises:
        BadMessage: with the key at fault.
    """
    for key in sorted(set(header) ^ set(keys)):
        raise BadMessage(f"{what}: {'no' if key in keys else 'unknown'} key {key[:40]!r}")
    for key, check in keys.items():
        if not _holds(header[key], check):
            raise BadMessage(f"{what}: {key} is {repr(header[key])[:60]}, expected {check.replace('?', ' or null')}")


def _holds(value: Any, check: Check) -> bool:
    if value is None:
        return check.endswith("?")
    kind = check.removesuffix("?")
    if kind in ("flag", "text"):
        return isinstance(value, bool) if kind == "flag" else isinstance(value, str) and len(value) <= _LONGEST_TEXT
    if isinstance(value, bool) or not isinstance(value, int if kind == "count" else int | float):
        return False
    return (kind == "number" or value >= 0) and abs(value) < 2**63 and math.isfinite(value)


def pack(header: Mapping[str, Any], body: bytes) -> bytes:
    """A JSON header and bytes as one frame. NaN and infinity in the header are written as JSON extensions."""
    text = json.dumps(header).encode()
    return b"".join((_LENGTH.pack(len(text)), text, body))


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The inverse of `pack`.

    Raises:
        BadMessage: the bytes are not such a frame.
    """
    if len(data) < _LENGTH.size:
        raise BadMessage("frame: too short")
    (size,) = _LENGTH.unpack_from(data)
    if size > min(_MOST_HEADER, len(data) - _LENGTH.size):
        raise BadMessage("frame: its header is longer than the frame")
    try:
        header = json.loads(data[_LENGTH.size : _LENGTH.size + size])
    except (ValueError, RecursionError):
        raise BadMessage("frame: its header is not JSON") from None
    if not isinstance(header, dict):
        raise BadMessage("frame: its header is not an object")
    return header, data[_LENGTH.size + size :]

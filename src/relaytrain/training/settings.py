"""How epochs are trained, as one frozen value that travels with every task. No torch here."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from ..core.errors import ScenarioError
from ..core.problem import Clock as ClockName

Precision = Literal["float32", "bf16", "fp16"]
Strategy = Literal["fedavg", "fedavgm", "fedadam"]
TransportName = Literal["in-process", "processes", "flower"]


@dataclass(frozen=True)
class DistillSettings:
    """How a student learns from the version before it (`compression.distill`)."""

    temperature: float = 2.0
    alpha: float = 0.7
    epochs: int = 1
    lr: float = 1e-2


@dataclass(frozen=True)
class TrainingSettings:
    """A scenario's `[training]` table; the defaults are PACT's (section II).

    `slice_share`: of the batches of a version that has nested versions inside it, the share that trains these.
    `devices` says where a node computes (`device` unless named). `quorum` is the share of a node set that must answer
    for an epoch to count. `epoch_timeout_s` None: learned from the epochs before, generous for the first one.
    `optimizer` and `lr_schedule` are names or references to the user's own (`training.own_training`).
    """

    loss: str = "cross-entropy"
    step: str | None = None
    evaluate: str | None = None
    optimizer: str = "sgd"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    lr_schedule: str = "constant"
    lr_epochs: int = 30
    lr_factor: float = 0.1
    lr_every: Literal["epoch", "step"] = "epoch"
    warmup_epochs: float = 0.0
    batch: int = 64
    accumulate: int = 1
    precision: Precision = "float32"
    clip_norm: float | None = None
    clip_value: float | None = None
    prox_mu: float = 0.0
    strategy: Strategy = "fedavg"
    server_lr: float | None = None
    server_momentum: float = 0.9
    server_beta2: float = 0.99
    server_tau: float = 1e-3
    local_epochs: int = 1
    optimizer_state: Literal["average", "reset"] = "average"
    start: str | None = None
    device: str = "cpu"
    devices: Mapping[str, str] = field(default_factory=dict)
    clock: ClockName = "emulated"
    seed: int = 0
    threads: int = 1
    quorum: float = 1.0
    epoch_timeout_s: float | None = None
    importance: Literal["l1", "l2"] = "l1"
    slice_share: float = 0.5
    keep: tuple[str, ...] = ()
    charge_lost_work: bool = False
    count_pauses: bool = True
    when_infeasible: Literal["continue", "stop"] = "continue"
    transport: TransportName = "in-process"
    workers: int = 2
    distill: DistillSettings = DistillSettings()

    @classmethod
    def from_table(cls, table: Mapping[str, Any], *, clock: ClockName = "emulated") -> TrainingSettings:
        """The settings of a validated `[training]` table; `clock` is taken where the table does not say."""
        given = {key: value for key, value in table.items() if value is not None}
        given["epoch_timeout_s"] = given.pop("epoch_timeout", None)
        given["distill"] = DistillSettings(**given.get("distill", {}))
        given["keep"] = tuple(given.get("keep", ()))
        return cls(**{"clock": clock, **given})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingSettings:
        """The inverse of `to_dict`."""
        unknown = set(values) - {f.name for f in fields(cls)}
        if unknown:
            raise ScenarioError(f"training: unknown setting {sorted(unknown)[0]!r}")
        distill = DistillSettings(**values.get("distill", {}))
        return cls(**{**values, "distill": distill, "keep": tuple(values.get("keep", ()))})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "devices": dict(self.devices), "keep": list(self.keep)}

    def device_of(self, node: str) -> str:
        """Where `node` computes."""
        return self.devices.get(node, self.device)

    @property
    def own(self) -> tuple[str, ...]:
        """References to code of the user's own that these settings name."""
        named = (self.loss, self.step, self.evaluate, self.optimizer, self.lr_schedule)
        return tuple(name for name in named if name is not None and ":" in name)

    def lr_at(self, epoch: int) -> float:
        """The learning rate of epoch `epoch` (from 1), warm-up and schedules of the user's own left out."""
        return self.lr * self.lr_share(epoch)

    def lr_share(self, epoch: int) -> float:
        """Which share of `lr` epoch `epoch` has: a function of the epoch alone, so that a resumed run agrees.

        step: times `lr_factor` every `lr_epochs` epochs. cosine: from 1 down to `lr_factor` over `lr_epochs`.
        """
        done = epoch - 1
        if self.lr_schedule == "step":
            return float(self.lr_factor ** (done // self.lr_epochs))
        if self.lr_schedule == "cosine":
            share = 0.5 * (1.0 + math.cos(math.pi * min(done / self.lr_epochs, 1.0)))
            return self.lr_factor + (1.0 - self.lr_factor) * share
        return 1.0


def seed_of(seed: int, epoch: int, node: str) -> int:
    """The seed of one node's pass, from run seed, epoch and node alone: a repeated attempt gives the same bits."""
    text = f"relaytrain/{seed}/{epoch}/{node}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1

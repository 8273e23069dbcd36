"""What a stage's process has to know, as one JSON file: network, split, order of actions, optimizer, wires, places.

Every process of a pipeline reads the same file and finds its part by its rank: stage s is rank s, and a master that
owns the data, where there is one, comes after the last stage.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from ..core.errors import ScenarioError
from ..planners.pipeline.chain import Policy
from ..store.files import write_atomic
from .links import Wire
from .update_rules import SGD, Adam, Rule

SCHEMA = "relaytrain.pipeline-job/1"
Owner = Literal["first", "master"]
"""Who holds the data: the device of the first stage, or a master that sends inputs and labels to the stages."""
RULE_CLASSES: dict[str, type[Any]] = {"sgd": SGD, "adam": Adam}


@dataclass(frozen=True)
class Pace:
    """Seconds that a stage's forward and backward last at least: another device's speed, emulated."""

    forward_s: float = 0.0
    backward_s: float = 0.0


@dataclass(frozen=True)
class StageJob:
    """One attempt at training from snapshot `start` (updates made) on.

    `rows` are each stage's actions, as `FFBFB...`; `batches` the sizes of all minibatches; `entries` says for each size
    what shape and kind enters each stage, `label` the same of one label; `wires` are those between a stage and the
    next, and the data's own.
    """

    blueprint: dict[str, Any]
    cuts: tuple[int, ...]
    policies: tuple[dict[str, Policy], ...]
    checkpoint: tuple[bool, ...]
    rule: Rule
    loss: str
    rows: tuple[str, ...]
    flush: int | None
    batches: tuple[int, ...]
    entries: dict[str, Any]
    label: tuple[Any, ...]
    start: int
    attempt: int
    source: str
    data: str
    owner: Owner
    snapshots: str
    every: int
    wires: tuple[Wire, ...]
    paces: tuple[Pace, ...]
    interface: str | None
    group_s: float
    count_bytes: bool
    code: str | None = None

    @property
    def stages(self) -> int:
        """How many stages."""
        return len(self.rows)

    @property
    def world(self) -> int:
        """How many processes."""
        return self.stages + (self.owner == "master")

    @property
    def updates(self) -> int:
        """How many updates there are when all is done."""
        return len(self.batches) // (self.flush or 1)

    def bounds(self, stage: int) -> tuple[int, int]:
        """First unit and end of a stage; the last one's end is open."""
        edges = (0, *self.cuts)
        return edges[stage], edges[stage + 1] if stage + 1 < len(edges) else 10**9

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        name = next(key for key, kind in RULE_CLASSES.items() if isinstance(self.rule, kind))
        return values | {
            "schema": SCHEMA,
            "rule": {"name": name, **asdict(self.rule)},  # type: ignore[call-overload]
            "wires": [asdict(w) for w in self.wires],
            "paces": [asdict(p) for p in self.paces],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: object = "job") -> StageJob:
        """The inverse of `to_dict`.

        Raises:
            ScenarioError: it is not a job; `where` says whence it came.
        """
        try:
            values = dict(values)
            if values.pop("schema") != SCHEMA:
                raise ValueError(f"expected the schema {SCHEMA}")
            rule = dict(values["rule"])
            kind = RULE_CLASSES[rule.pop("name")]
            values["rule"] = kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in rule.items()})
            values["policies"] = tuple({n: Policy(p) for n, p in part.items()} for part in values["policies"])
            values["wires"] = tuple(Wire(w["bits_per_s"], tuple(w["delay_s"])) for w in values["wires"])
            values["paces"] = tuple(Pace(**p) for p in values["paces"])
            ready: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
            return cls(**ready)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no_job(where, error) from None

    def write(self, path: Path) -> None:
        """As JSON."""
        write_atomic(path, json.dumps(self.to_dict()))


def read_job(path: Path) -> StageJob:
    """The inverse of `StageJob.write`.

    Raises:
        ScenarioError: no such file, or not a job.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _no_job(path, error) from None
    return StageJob.from_dict(values, path)


def _no_job(where: object, error: Exception) -> ScenarioError:
    words = f"{type(error).__name__}: {str(error)[:120]}"
    return ScenarioError(f"{where}: not a pipeline job ({words}); write it anew")

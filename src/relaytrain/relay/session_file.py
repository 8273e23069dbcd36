"""A session as a file (`relaytrain.session/1`): what was told so far, and the scenario; plain JSON, no pickle.

All else follows from it: a session that is read back makes the plans that the saved one would have made, to the bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from ..core.errors import ScenarioError, UsageError
from ..core.outcome import EpochOutcome, VerdictKind
from ..core.plan import finite
from ..core.problem import Pair, Problem
from ..store.files import read_regular, write_atomic
from .event_bodies import decision_json, outcome_from
from .widening import StatedBound

SCHEMA = "relaytrain.session/1"
LARGEST_BYTES = 64 << 20
GIVEN = ("costs", "law", "planner")
"""Arguments that may be objects of the user's own: a file says that they were given, and whoever reads gives them."""


@dataclass(frozen=True)
class SavedSession:
    """What a session's file holds; `asked`: a decision was open. `given` names arguments that must be given again."""

    scenario: Mapping[str, Any] | None
    folder: str | None
    problem: Mapping[str, Any]
    given: tuple[str, ...]
    planner: str | None
    rule: str | None
    initial_loss: float
    history: tuple[EpochOutcome, ...] = ()
    forbidden: Mapping[Pair, str] = field(default_factory=dict)
    stated: Mapping[int, StatedBound] = field(default_factory=dict)
    charged_s: float = 0.0
    wasted_j: float = 0.0
    roll_backs: int = 0
    asked: bool = False
    ended: tuple[VerdictKind, str] | None = None

    def write(self, path: str | Path) -> None:
        """Whole, or not at all."""
        body = {
            "schema": SCHEMA,
            "scenario": self.scenario,
            "folder": self.folder,
            "problem": self.problem,
            "given": list(self.given),
            "planner": self.planner,
            "rule": self.rule,
            "initial_loss": self.initial_loss,
            "history": [_outcome_json(outcome) for outcome in self.history],
            "forbidden": [[*pair, reason] for pair, reason in self.forbidden.items()],
            "stated": [[epoch, bound.level, finite(bound.loss)] for epoch, bound in self.stated.items()],
            "charged_s": self.charged_s,
            "wasted_j": self.wasted_j,
            "roll_backs": self.roll_backs,
            "asked": self.asked,
            "ended": None if self.ended is None else list(self.ended),
        }
        write_atomic(path, json.dumps(body, allow_nan=False, indent=1) + "\n")

    @classmethod
    def read(cls, path: str | Path) -> SavedSession:
        """Of any origin: nothing in it is executed.

        Raises:
            ScenarioError: it is no session, or a newer one.
            UsageError: there is no such file.
        """
        try:
            data = json.loads(read_regular(path, LARGEST_BYTES))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; expected a file that Session.save wrote") from None
        except (ValueError, RecursionError) as error:
            raise ScenarioError(f"{path}: no JSON ({str(error)[:80]}), expected a file of Session.save") from None
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema != SCHEMA:
            raise ScenarioError(f"{path}: schema is {schema!r:.60}, expected {SCHEMA}")
        try:
            return cls._of(data)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ScenarioError(f"{path}: not as Session.save writes it ({type(error).__name__}: {error})") from None

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> SavedSession:
        ended = data["ended"]
        scenario = data["scenario"]
        if not (scenario is None or isinstance(scenario, Mapping)) or not isinstance(data["problem"], Mapping):
            raise TypeError("scenario and problem are tables")
        figures = [_number(data[key]) for key in ("initial_loss", "charged_s", "wasted_j")]
        return cls(
            scenario,
            None if data["folder"] is None else str(data["folder"]),
            data["problem"],
            tuple(name for name in GIVEN if name in data["given"]),
            None if data["planner"] is None else str(data["planner"]),
            None if data["rule"] is None else str(data["rule"]),
            figures[0],
            tuple(outcome_from(row) for row in data["history"]),
            {Pair(str(version), str(nodes)): str(reason) for version, nodes, reason in data["forbidden"]},
            {
                int(epoch): StatedBound(_number(level), math.inf if loss is None else _number(loss))
                for epoch, level, loss in data["stated"]
            },
            figures[1],
            figures[2],
            int(data["roll_backs"]),
            bool(data["asked"]),
            None if ended is None else (_verdict(ended[0]), str(ended[1])),
        )


def problem_facts(problem: Problem) -> dict[str, Any]:
    """What has to be the same for a saved history to mean the same."""
    return {
        "name": problem.name,
        "pairs": [list(pair) for pair in problem.pairs],
        "start": problem.start,
        "target_loss": problem.target.loss,
        "deadline_s": finite(problem.target.deadline_s),
        "probability": problem.target.probability,
    }


def _outcome_json(outcome: EpochOutcome) -> dict[str, Any]:
    names = ("loss", "elapsed_s", "energy_j", "provenance", "cpu_s", "wall_s", "handover_loss")
    return {"decision": decision_json(outcome.decision), **{name: getattr(outcome, name) for name in names}}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.40}, expected a finite number")
    return float(value)


def _verdict(word: Any) -> VerdictKind:
    known: dict[str, VerdictKind] = {kind: kind for kind in get_args(VerdictKind)}
    return known[word]

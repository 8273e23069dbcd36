"""What a run's events may say, as one fold over them: the writer refuses what breaks a rule, the checker reports it.

::

    run_started                                  first, once (epoch 0)
    planned k -> [handover k] -> epoch_done k    k is the last epoch done + 1; planned may repeat before it is done
    node_failed k                                while k is planned
    rolled_back k                                epochs after k are undone; the decision open at that moment too
    resumed                                      a new writer has taken over; `wasted_s` is how long nobody worked
    verdict                                      last; after "stopped" or "failed" a new writer may go on

Booking: `energy_j` and `elapsed_s` of an `epoch_done` are the useful cost of the epoch, its handover included;
`wasted_j` and `wasted_s` of any event are booked as wasted; an epoch undone moves from useful to wasted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

Kind = Literal["run_started", "planned", "handover", "epoch_done", "node_failed", "rolled_back", "resumed", "verdict"]
KINDS: tuple[str, ...] = get_args(Kind)
VERDICTS = ("met", "missed", "stopped", "failed")
CAN_GO_ON = ("stopped", "failed")
SUM_TOLERANCE = 1e-9  # relative: sums of the same numbers in another order
LARGEST = 1e100
"""No figure of a run is as large; sums of smaller ones are finite."""

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Totals:
    """Seconds and joules of a run so far: useful + wasted = total."""

    useful_j: float = 0.0
    wasted_j: float = 0.0
    useful_s: float = 0.0
    wasted_s: float = 0.0

    @property
    def energy_j(self) -> float:
        """All joules spent."""
        return self.useful_j + self.wasted_j

    @property
    def elapsed_s(self) -> float:
        """All seconds spent."""
        return self.useful_s + self.wasted_s

    def to_dict(self) -> dict[str, float]:
        """The keys that a verdict carries."""
        return {
            "useful_j": self.useful_j,
            "wasted_j": self.wasted_j,
            "energy_j": self.energy_j,
            "useful_s": self.useful_s,
            "wasted_s": self.wasted_s,
            "elapsed_s": self.elapsed_s,
        }


class Done(NamedTuple):
    """What an epoch that stands came to."""

    loss: float
    energy_j: float
    elapsed_s: float


@dataclass
class Progress:
    """Where the events seen so far have brought a run. `done` holds the epochs that stand, in order."""

    done: list[Done] = field(default_factory=list)
    planned: Body | None = None
    verdict: str | None = None
    verdict_fence: int = 0
    fence: int = 0
    events: int = 0
    wasted_j: float = 0.0
    wasted_s: float = 0.0

    @property
    def epoch(self) -> int:
        """The last epoch that stands; 0 before the first."""
        return len(self.done)

    @property
    def totals(self) -> Totals:
        """What the run has cost so far."""
        return Totals(
            math.fsum(done.energy_j for done in self.done),
            self.wasted_j,
            math.fsum(done.elapsed_s for done in self.done),
            self.wasted_s,
        )

    def problem(self, kind: str, epoch: int | None, body: Body, fence: int) -> str | None:
        """Why this event may not come next; None when it may."""
        if kind not in KINDS:
            return f"kind '{kind}', expected one of {', '.join(KINDS)}"
        if (self.events == 0) != (kind == "run_started"):
            return "run_started comes first, and once"
        if fence < self.fence:
            return f"fencing number {fence} after {self.fence}: written by a holder that had been replaced"
        if self.verdict is not None and (self.verdict not in CAN_GO_ON or fence <= self.verdict_fence):
            return f"{kind} after the verdict '{self.verdict}'"
        for key in ("wasted_j", "wasted_s"):
            if key in body and not _is_amount(body[key]):
                return f"{kind}: {key} is {_shown(body[key])}, expected a number >= 0"
        for key, value in body.items():
            expected, fits = _SHAPES.get(key, _ANYTHING)
            if value is not None and not fits(value):
                return f"{kind}: {key} is {_shown(value)}, expected {expected}"
        if kind == "verdict":
            return self._verdict_problem(body)
        return self._epoch_problem(kind, epoch, body)

    def feed(self, kind: str, epoch: int | None, body: Body, fence: int) -> str | None:
        """Take the next event in; what is wrong with it, if anything."""
        wrong = self.problem(kind, epoch, body, fence)
        self.events += 1
        self.fence = max(self.fence, fence)
        self.verdict = None
        self.wasted_j += _number(body, "wasted_j") if kind != "verdict" else 0.0
        self.wasted_s += _number(body, "wasted_s") if kind != "verdict" else 0.0
        if kind == "planned":
            self.planned = body
        elif kind == "epoch_done":
            self.done.append(Done(_number(body, "loss"), _number(body, "energy_j"), _number(body, "elapsed_s")))
            self.planned = None
        elif kind == "rolled_back":
            undone, self.done = self.done[epoch or 0 :], self.done[: epoch or 0]
            self.planned = None
            self.wasted_j += math.fsum(done.energy_j for done in undone)
            self.wasted_s += math.fsum(done.elapsed_s for done in undone)
        elif kind == "verdict":
            self.verdict = str(body.get("verdict"))
            self.verdict_fence = fence
        return wrong

    def _epoch_problem(self, kind: str, epoch: int | None, body: Body) -> str | None:
        if kind == "run_started":
            return None if epoch in (None, 0) else f"run_started has epoch {epoch}, expected none"
        if kind == "resumed":
            return None if epoch is None else f"resumed has epoch {epoch}, expected none"
        if kind == "rolled_back":
            fits = epoch is not None and 0 <= epoch <= self.epoch
            return None if fits else f"rolled_back to epoch {epoch}, expected 0 to {self.epoch}"
        if epoch != self.epoch + 1:
            return f"{kind} of epoch {epoch} when {self.epoch} epochs are done, expected epoch {self.epoch + 1}"
        if kind == "planned":
            return None
        if self.planned is None:
            return f"{kind} of epoch {epoch} without its decision: planned comes before the work"
        if kind != "epoch_done":
            return None
        if not _is_finite(body.get("loss")):
            return f"epoch_done {epoch}: loss is {_shown(body.get('loss'))}, expected a finite number"
        for key in ("energy_j", "elapsed_s"):
            if not _is_amount(body.get(key)):
                return f"epoch_done {epoch}: {key} is {_shown(body.get(key))}, expected a finite number >= 0"
        if "decision" in body and "decision" in self.planned and body["decision"] != self.planned["decision"]:
            return f"epoch_done {epoch}: its decision is not the one that was planned"
        return None

    def _verdict_problem(self, body: Body) -> str | None:
        if body.get("verdict") not in VERDICTS:
            return f"verdict is {_shown(body.get('verdict'))}, expected one of {', '.join(VERDICTS)}"
        for key, sum_ in self.totals.to_dict().items():
            said: Any = body.get(key, sum_)
            if not _is_finite(said) or abs(said - sum_) > SUM_TOLERANCE * max(1.0, abs(sum_)):
                return f"verdict: {key} is {_shown(said)}, but the events sum to {sum_!r} (useful + wasted = total)"
        return None


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST < value < LARGEST


def _is_amount(value: Any) -> bool:
    return _is_finite(value) and value >= 0


def _number(body: Body, key: str) -> float:
    value = body.get(key, 0.0)
    return float(value) if _is_finite(value) else 0.0


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_text, value))


def _all(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(fits, value))


_ANYTHING: tuple[str, Callable[[Any], bool]] = ("anything", lambda value: True)
_SHAPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("blob", "cause", "clock", "kind", "lost_nodes", "node", "provenance", "reason"),
                    ("text", _is_text)),
    **dict.fromkeys(("code", "estimator", "packages", "plan", "predicted", "scenario"),
                    ("a table", _is_table)),
    **dict.fromkeys(("accuracy", "cpu_s", "handover_loss", "initial_loss", "loss_after", "loss_before", "test_accuracy",
                     "test_figure", "test_loss", "train_loss", "wall_s"), ("a finite number", _is_finite)),
    **dict.fromkeys(("after", "before", "forbidden"), ("a version and its nodes", _is_pair)),
    **dict.fromkeys(("failed_nodes", "notes"), ("a list of texts", _all(_is_text))),
    "attempt": ("a count", _is_count),
    "nodes": ("a list of tables", _all(_is_table)),
    "path": ("a list of versions and their nodes", _all(_is_pair)),
}  # fmt: skip
"""What readers of an event's body rest on, where the key is there and not null; all else in it is anybody's."""

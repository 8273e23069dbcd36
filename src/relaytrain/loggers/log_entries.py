"""What an event gives to log: entries of figures, each known by run, epoch, kind and node.

Pure: the same events give the same entries, so a log can be written again from the first event, and whoever finds an
entry there already leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..store.events import Event
from ..store.rules import Progress


class LogKey(NamedTuple):
    """What makes an entry the same one when it is met again; `node` is empty where it is of all."""

    run: str
    epoch: int
    kind: str
    node: str


@dataclass(frozen=True)
class LogEntry:
    """Figures of one moment of a run, by name, and words for people.

    `kind`: started, plan, handover, epoch, node, failure, roll-back, resumed or verdict; `seq` is the event's number.
    `facts` are what holds for the whole run (of `started`) or how it ended (of `verdict`).
    """

    key: LogKey
    seq: int
    wall_s: float
    figures: Mapping[str, float] = field(default_factory=dict)
    words: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Of its key."""
        return self.key.kind

    @property
    def epoch(self) -> int:
        """Of its key."""
        return self.key.epoch


class EntryReader:
    """Takes a run's events in order, from the first one; remembers what they add up to."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.scenario = ""

    def read(self, events: Iterable[Event]) -> Iterator[LogEntry]:
        """The entries of `events`."""
        for event in events:
            self.progress.feed(event.kind, event.epoch, event.body, event.fence)
            take = getattr(self, f"_{event.kind}", None)
            if take is not None:
                yield from take(event)

    def _entry(
        self,
        event: Event,
        kind: str,
        figures: Mapping[str, Any] | None = None,
        words: str = "",
        *,
        node: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> LogEntry:
        epoch = self.progress.epoch if event.epoch is None else event.epoch
        numbers = {name: float(value) for name, value in (figures or {}).items() if _is_number(value)}
        return LogEntry(LogKey(event.run, epoch, kind, node), event.seq, event.wall_s, numbers, words, facts or {})

    def _run_started(self, event: Event) -> Iterator[LogEntry]:
        body = event.body
        scenario = _table(body.get("scenario"))
        self.scenario = str(scenario.get("name") or event.run)
        target, training = _table(scenario.get("target")), _table(scenario.get("training"))
        facts = {
            "run": event.run,
            "scenario": self.scenario,
            **{key: body.get(key) for key in ("seed", "clock", "planner", "threads", "command")},
            **{f"target.{key}": value for key, value in target.items()},
            **{f"training.{key}": value for key, value in training.items() if not isinstance(value, Mapping)},
            **{
                f"versions.{name}.{key}": _table(facts).get(key)
                for name, facts in _table(body.get("versions")).items()
                for key in ("parameters", "flops_per_sample", "weight_bytes")
            },
        }
        known = {name: value for name, value in facts.items() if isinstance(value, str | int | float)}
        yield self._entry(event, "started", {"loss": body.get("initial_loss")}, facts=known)

    def _planned(self, event: Event) -> Iterator[LogEntry]:
        predicted, plan = _table(event.body.get("predicted")), _table(event.body.get("plan"))
        to_go = predicted.get("to_go_j")
        low, middle, high = to_go if isinstance(to_go, list | tuple) and len(to_go) == 3 else (None,) * 3
        figures = {
            "plan/expected_loss": predicted.get("loss"),
            "plan/guaranteed_loss": predicted.get("guaranteed"),
            "plan/probability": plan.get("probability"),
            "plan/to_go_low_j": low,
            "plan/to_go_j": middle,
            "plan/to_go_high_j": high,
        }
        yield self._entry(event, "plan", figures)

    def _handover(self, event: Event) -> Iterator[LogEntry]:
        body = event.body
        figures = {f"handover/{key}": body.get(key) for key in ("loss_before", "loss_after", "elapsed_s", "energy_j")}
        words = f"{_pair(body.get('before'))} -> {_pair(body.get('after'))} ({body.get('kind', 'change')})"
        yield self._entry(event, "handover", figures, words)

    def _epoch_done(self, event: Event) -> Iterator[LogEntry]:
        body, totals = event.body, self.progress.totals
        figures = {
            **{name: body.get(name) for name in ("loss", "train_loss", "accuracy")},
            **{f"epoch/{name}": body.get(name) for name in ("energy_j", "elapsed_s", "cpu_s", "wall_s")},
            "total/energy_j": totals.energy_j,
            "total/elapsed_s": totals.elapsed_s,
            "total/wasted_j": totals.wasted_j,
        }
        decision = _table(body.get("decision"))
        yield self._entry(event, "epoch", figures, f"{decision.get('version', '?')} on {decision.get('nodes', '?')}")
        nodes = body.get("nodes")
        for row in nodes if isinstance(nodes, list | tuple) else ():
            node = str(_table(row).get("node") or "?")
            names = ("train_loss", "samples", "cpu_s", "energy_j", "elapsed_s")
            yield self._entry(event, "node", {f"node/{node}/{n}": _table(row).get(n) for n in names}, node=node)

    def _node_failed(self, event: Event) -> Iterator[LogEntry]:
        node = str(event.body.get("node") or "?")
        yield self._entry(event, "failure", {}, f"{node}: {event.body.get('reason', 'no answer')}", node=node)

    def _rolled_back(self, event: Event) -> Iterator[LogEntry]:
        yield self._entry(event, "roll-back", {}, str(event.body.get("reason", "")))

    def _resumed(self, event: Event) -> Iterator[LogEntry]:
        yield self._entry(event, "resumed", {}, "a new writer goes on")

    def _verdict(self, event: Event) -> Iterator[LogEntry]:
        body = event.body
        names = ("test_loss", "test_figure", "test_accuracy")
        word = str(body.get("verdict"))
        yield self._entry(event, "verdict", {name: body.get(name) for name in names}, word, facts={"verdict": word})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _pair(value: Any) -> str:
    return " on ".join(map(str, value)) if isinstance(value, list | tuple) else "?"

"""Where the loop writes: into a run of the store, durably, or into memory, for relays that are only played.

Both keep to the rules of `store/rules.py`. Checkpoints go in as the runner's own objects; only a store needs bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..core.errors import RelayTrainError
from ..core.plan import Decision
from ..core.problem import Pair, Problem
from ..core.protocols import Runner
from ..store import Event, RunStore, RunWriter
from ..store.rules import Body, Kind, Progress
from . import event_bodies
from .steering import Step


@dataclass(frozen=True)
class KeptState:
    """The newest whole checkpoint: after `epoch`, or after the `handover` (its event's body) into the epoch behind it.

    `skipped` says which newer ones were damaged.
    """

    checkpoint: Any
    epoch: int
    handover: Body | None = None
    skipped: tuple[str, ...] = ()


class StoreJournal:
    """A run of a store, through its one writer."""

    def __init__(self, store: RunStore, writer: RunWriter, runner: Runner, start: Pair) -> None:
        self.store, self.runner, self.start = store, runner, start
        self.run, self.writer = writer.run, writer
        self.append, self.stop_requested, self.thin = writer.append, writer.stop_requested, writer.thin

    def now_s(self) -> float:
        """What the clock on the wall says."""
        return self.writer.now_s

    @property
    def progress(self) -> Progress:
        """Where the events have brought the run: the last epoch that stands, totals useful and wasted."""
        return self.writer.progress

    @property
    def planned(self) -> Body | None:
        """The body of `planned` of the next epoch, if that is decided: it is kept on resume."""
        return self.writer.planned

    @property
    def decision(self) -> Decision | None:
        """The decision in it."""
        planned = self.planned
        known = None if planned is None else planned.get("decision")
        return None if known is None else event_bodies.decision_from(known)

    def plan(self, step: Step, problem: Problem, path: Sequence[Pair] | None) -> None:
        """Durable before the work begins, with all that it rests on; `path`: of a plan made once and followed."""
        self.append("planned", event_bodies.planned_body(step, problem, path), step.decision.epoch)

    def keep(self, checkpoint: Any) -> str:
        """Durable before an event names it as its `blob`."""
        return self.writer.put_blob(self.runner.to_bytes(checkpoint))

    def latest(self) -> KeptState | None:
        """The newest checkpoint that stands and is whole."""
        kept = self.store.latest_checkpoint(self.run)
        if kept is None:
            return None
        handed = kept.event.kind == "handover"
        epoch = (kept.event.epoch or 0) - handed
        return KeptState(self.runner.from_bytes(kept.data), epoch, kept.event.body if handed else None, kept.skipped)

    def earlier(self, version: str) -> Any:
        """The newest whole checkpoint of `version`, or None."""
        for event in reversed(self.store.events(self.run, kinds=("run_started", "handover", "epoch_done"))):
            if self._version_of(event) == version and event.blob is not None:
                with suppress(RelayTrainError):
                    return self.runner.from_bytes(self.store.get_blob(self.run, event.blob))
        return None

    def _version_of(self, event: Event) -> str:
        """Of the checkpoint that an event names."""
        if event.kind == "run_started":
            return self.start.version
        version: str = event.body["after"][0] if event.kind == "handover" else event.body["decision"]["version"]
        return version


class MemoryJournal:
    """A run that nobody will resume: totals and rules as in a store, checkpoints as they are, no file and no JSON.

    Args:
        run: its name.
        first: the checkpoint before epoch 1.
        pairs: the problem's; the one at `start` holds `first`.
        start: as in the problem.
    """

    def __init__(self, run: str, first: Any, pairs: Sequence[Pair], start: int = 0) -> None:
        self.run = run
        self.progress = Progress()
        self.progress.feed("run_started", 0, {}, 0)
        self._step: Step | None = None
        self._problem: Problem | None = None
        self._stands = KeptState(first, 0)
        self._held: Any = first
        self._by_version = {pairs[start].version: first}

    @property
    def planned(self) -> Body | None:
        """Written out when somebody asks."""
        if self.progress.planned is None or self._step is None or self._problem is None:
            return None
        return event_bodies.planned_body(self._step, self._problem)

    @property
    def decision(self) -> Decision | None:
        """Of the last step."""
        return None if self.progress.planned is None or self._step is None else self._step.decision

    def plan(self, step: Step, problem: Problem, path: Sequence[Pair] | None) -> None:
        """Remember the step."""
        self._step, self._problem = step, problem
        self.append("planned", {}, step.decision.epoch)

    def append(self, kind: Kind, body: Body, epoch: int | None = None) -> None:
        """Count the event; one that breaks a rule is refused."""
        wrong = self.progress.feed(kind, epoch, body, 0)
        if wrong:
            raise RelayTrainError(f"run {self.run}: {wrong}")
        if kind in ("handover", "epoch_done") and self._step is not None:
            self._by_version[self._step.decision.version] = self._held
        if kind == "epoch_done":
            self._stands = KeptState(self._held, self.progress.epoch)

    def keep(self, checkpoint: Any) -> str:
        """Until the event that names it."""
        self._held = checkpoint
        return ""

    def latest(self) -> KeptState:
        """After the last epoch that stands."""
        return self._stands

    def earlier(self, version: str) -> Any:
        """The newest of `version`."""
        return self._by_version.get(version)

    def now_s(self) -> float:
        """Nobody resumes it, so nobody asks."""
        return 0.0

    def stop_requested(self) -> bool:
        """Nobody can."""
        return False

    def thin(self) -> None:
        """Nothing is kept that does not matter."""


Journal = StoreJournal | MemoryJournal

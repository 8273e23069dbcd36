"""Training with shared prefixes: what two schedules have in common is trained once.

Seeds derive from (run, epoch, node), so an epoch is a pure function of checkpoint, epoch and pair: remembering it
changes no bit. Only for the emulated clock, where nothing measured counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from relaytrain.core.outcome import EpochResult, Evaluation, Handed
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.core.protocols import Earlier
from relaytrain.executors.inprocess import InProcess
from relaytrain.relay.runner import TorchRunner
from relaytrain.scenario import Scenario
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.setup import TrainingSetup


@dataclass(frozen=True)
class Done:
    """One epoch of a path: the pair before and now, the losses before it, after its handover if any, and after it."""

    before: Pair
    now: Pair
    loss_before: float
    handover_loss: float | None
    loss: float


class Branches(TorchRunner):
    """A runner that remembers: every epoch, handover and probe is done once."""

    def __init__(self, scenario: Scenario) -> None:
        setup = TrainingSetup.from_scenario(scenario)
        super().__init__(setup, InProcess(setup))
        self.problem = scenario.problem
        self.trained = 0
        self._memo: dict[tuple[Any, ...], Any] = {}

    def probe(self, checkpoint: Checkpoint) -> Evaluation:
        """As `TorchRunner`."""
        key = ("probe", checkpoint.digest)
        if key not in self._memo:
            self._memo[key] = super().probe(checkpoint)
        found: Evaluation = self._memo[key]
        return found

    def hand_over(self, checkpoint: Checkpoint, before: Pair, decision: Decision, earlier: Earlier) -> Handed:
        """As `TorchRunner`; no version here goes back to a checkpoint of its own."""
        key = ("handover", checkpoint.digest, decision.pair)
        if key not in self._memo:
            self._memo[key] = super().hand_over(checkpoint, before, decision, earlier)
        found: Handed = self._memo[key]
        return found

    def run_epoch(self, decision: Decision, checkpoint: Checkpoint, *, run: str, attempt: int = 0) -> EpochResult:
        """As `TorchRunner`."""
        key = ("epoch", checkpoint.digest, decision.epoch, decision.pair)
        if key not in self._memo:
            self._memo[key] = super().run_epoch(decision, checkpoint, run=run, attempt=attempt)
            self.trained += 1
        found: EpochResult = self._memo[key]
        return found

    def follow(self, path: Sequence[Pair]) -> Iterator[Done]:
        """The epochs of a path, one pair an epoch, trained as far as they are asked for."""
        checkpoint = self.first()
        before, loss = self.problem.pairs[self.problem.start], self.probe(checkpoint).loss
        for epoch, now in enumerate(path, 1):
            decision = Decision(epoch, now.version, now.nodes)
            handed = None
            if now != before:
                checkpoint = self.hand_over(checkpoint, before, decision, lambda version: None).checkpoint
                handed = self.probe(checkpoint).loss
            result = self.run_epoch(decision, checkpoint, run="branches")
            yield Done(before, now, loss, handed, result.outcome.loss)
            checkpoint, before, loss = result.checkpoint, now, result.outcome.loss

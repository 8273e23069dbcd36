"""What trains: versions on node sets, over a transport or in pipeline stages. Imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from ..core.outcome import EpochResult, Evaluation, Handed
from ..core.plan import Decision
from ..core.problem import Pair
from ..core.protocols import Earlier, Transport
from ..costs.meters import Meter
from ..data.held import Held, InMemory, held_of
from ..executors.epoch import FederatedEpoch
from ..executors.pipelined import Members, PipelinedEpoch
from ..executors.stages import StagesOnNodes, StageTransport
from ..training.checkpoint import Checkpoint
from ..training.conformal import prediction_sets
from ..training.handover import hand_over
from ..training.setup import TrainingSetup

TRIES_OF_AN_EPOCH = 2
"""The executors try an epoch's failed nodes once more: numbers of attempts leave room for that."""


class TorchRunner:
    """`Runner` over a training setup: real epochs on real data."""

    def __init__(
        self,
        setup: TrainingSetup,
        transport: Transport,
        meter: Meter | None = None,
        *,
        pipelines: Members | None = None,
        expected_s: Callable[[Decision], float] | None = None,
    ) -> None:
        self.setup, self.transport, self.meter = setup, transport, meter
        self.epochs = FederatedEpoch(setup, transport, meter, expected_s)
        staged = None
        if isinstance(transport, StageTransport):
            staged = StagesOnNodes(setup, transport, self.epochs.deadline_s)
        self.pipelined = PipelinedEpoch(setup, pipelines or {}, self.epochs.evaluate, meter, staged)
        self._test: Held | None = None

    def first(self) -> Checkpoint:
        """Initial weights from the seed, or the start file."""
        return self.setup.first_checkpoint()

    def to_bytes(self, checkpoint: Checkpoint) -> bytes:
        """Safetensors."""
        return checkpoint.to_bytes()

    def from_bytes(self, data: bytes) -> Checkpoint:
        """Checked against its own spec."""
        return Checkpoint.from_bytes(data)

    def probe(self, checkpoint: Checkpoint) -> Evaluation:
        """Loss and accuracy on the target's set."""
        return self.epochs.evaluate(checkpoint)

    def test(self, checkpoint: Checkpoint) -> Evaluation:
        """Loss, accuracy and conformal prediction sets on the test set."""
        if self._test is None:
            self._test = held_of(self.setup.test)
        model = checkpoint.model(resolve=self.setup.resolve)
        tested = self.setup.evaluate(model, self._test)
        if self.setup.settings.loss != "cross-entropy" or not isinstance(self._test, InMemory):
            return tested
        sets = prediction_sets(model, self._test, seed=self.setup.settings.seed)
        return replace(tested, prediction_sets=None if sets is None else sets.to_dict())

    def hand_over(self, checkpoint: Checkpoint, before: Pair, decision: Decision, earlier: Earlier) -> Handed:
        """Prune, distil, restore or just move; metered on the measured clock."""
        mark = None if self.meter is None else self.meter.begin()
        last = earlier(decision.version) if self.setup.plan(decision.version).grow == "checkpoint" else None
        handed = hand_over(self.setup, checkpoint, decision.version, decision.nodes, last=last)
        energy_j = 0.0 if self.meter is None or mark is None else self.meter.end(mark).energy_j
        probe = {
            "train_loss_before": self._on(checkpoint, decision.nodes),
            "train_loss_after": self._on(handed.checkpoint, decision.nodes),
        }
        if not all(math.isfinite(loss) for loss in probe.values()):
            probe = {}  # the loop's own probe decides whether to go on
        return replace(handed, energy_j=energy_j, probe=probe)

    def _on(self, checkpoint: Checkpoint, nodes: str) -> float:
        """Forward loss on a node set's own data; not charged."""
        return self.setup.evaluate(checkpoint.model(resolve=self.setup.resolve), self.setup.data_of(nodes)).loss

    def run_epoch(self, decision: Decision, checkpoint: Checkpoint, *, run: str, attempt: int = 0) -> EpochResult:
        """Train on every node and average, or stage by stage; evaluate."""
        if self.setup.problem.mode_of(decision.nodes) == "pipeline":
            return self.pipelined.run_epoch(decision, checkpoint, run=run, attempt=attempt * TRIES_OF_AN_EPOCH)
        return self.epochs.run_epoch(decision, checkpoint, run=run, attempt=attempt * TRIES_OF_AN_EPOCH)

    def close(self) -> None:
        """End worker processes."""
        self.transport.close()

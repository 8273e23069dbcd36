"""What every transport must do: inherit `TransportSuite`, return your transport, and pytest runs the contract.

::

    from relaytrain.testing.transport_suite import TransportSuite

    class TestMine(TransportSuite):
        def make(self, setup):
            return MyTransport(setup)

The reference is `training.local.train_node` called directly: a transport moves data and must not change a bit of it.
One transport serves all tests of a class, as it would serve a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

from ..models.rebuild import build
from ..models.spec import family_spec
from ..training.checkpoint import Checkpoint
from ..training.local import train_node
from ..training.setup import TrainingSetup
from ..training.task import NodeResult, NodeTask
from .small_training import small_setup

FAMILIES = (("cnn", 1.0), ("mobilenet", 0.25), ("resnet8", 0.5))
LONG = 100_000
"""Passes over the data that nobody waits for."""


class TransportSuite:
    """The contract of `core.protocols.Transport`."""

    setup: ClassVar[TrainingSetup]
    transport: ClassVar[Any]

    def make(self, setup: TrainingSetup) -> Any:
        """The transport under test."""
        raise NotImplementedError("return the transport to be tested")

    @classmethod
    def setup_class(cls) -> None:
        """One setup and one transport for all tests."""
        cls.setup = small_setup()
        cls.transport = cls().make(cls.setup)

    @classmethod
    def teardown_class(cls) -> None:
        """Closing twice is closing once."""
        cls.transport.close()
        cls.transport.close()

    def task(self, node: str, checkpoint: bytes, *, epoch: int = 1, attempt: int = 0, **settings: Any) -> NodeTask:
        """A task of run "suite"; `timeout_s` is the task's, all other keys are settings."""
        timeout = settings.pop("timeout_s", None)
        return NodeTask(
            "suite", epoch, attempt, node, checkpoint, replace(self.setup.settings, **settings), 1.0, timeout
        )

    def tasks(self, checkpoint: bytes, **keys: Any) -> list[NodeTask]:
        """A task for every node."""
        return [self.task(node, checkpoint, **keys) for node in self.setup.datasets]

    def sent(self, tasks: Iterable[NodeTask]) -> dict[str, NodeResult]:
        """Results by node, exactly one a task."""
        tasks = list(tasks)
        results = list(self.transport.send(tasks))
        assert sorted(r.key for r in results) == sorted(t.key for t in tasks)
        return {result.node: result for result in results}

    def checkpoint(self, family: str = "cnn", width: float = 1.0) -> Checkpoint:
        """Fresh weights of a family."""
        spec = family_spec(family, input=(1, 8, 8), classes=10, width=width)
        return Checkpoint.of_model(build(spec, seed=3), spec, "full")

    def test_weights_are_those_of_a_direct_call(self) -> None:
        """Bit for bit, for three families, over two epochs with the optimizer's state carried."""
        for family, width in FAMILIES:
            data = {node: self.checkpoint(family, width).data for node in self.setup.datasets}
            for epoch in (1, 2):
                tasks = [self.task(node, data[node], epoch=epoch) for node in data]
                results = self.sent(tasks)
                for task in tasks:
                    wanted, got = train_node(task, self.setup.site(task.node)), results[task.node]
                    assert got.error is None, got.error
                    assert got.data == wanted.data, (family, task.node, epoch)
                    assert (got.samples, got.train_loss) == (wanted.samples, wanted.train_loss)
                    assert got.cpu_s > 0.0 and got.wall_s > 0.0
                    data[task.node] = got.data or b""

    def test_the_order_of_tasks_does_not_matter(self) -> None:
        """Each result depends on its own task alone."""
        tasks = self.tasks(self.checkpoint().data)
        forth, back = self.sent(tasks), self.sent(reversed(tasks))
        assert {n: r.data for n, r in forth.items()} == {n: r.data for n, r in back.items()}

    def test_a_repeated_attempt_gives_the_same_bits(self) -> None:
        """Attempts differ in their key, not in what they compute."""
        data = self.checkpoint().data
        first, second = self.sent(self.tasks(data)), self.sent(self.tasks(data, attempt=1))
        assert all(first[node].data == second[node].data for node in first)

    def test_no_tasks_no_results(self) -> None:
        """Nothing is waited for."""
        assert list(self.transport.send([])) == []

    def test_a_failing_node_is_a_result_and_hurts_no_other(self) -> None:
        """A checkpoint that cannot be read fails on its node alone."""
        good, *rest = self.setup.datasets
        tasks = [self.task(good, self.checkpoint().data), *(self.task(n, b"\x08 not a checkpoint") for n in rest)]
        results = self.sent(tasks)
        assert results[good].error is None
        for node in rest:
            assert results[node].kind == "refused" and results[node].checkpoint is None
            assert "safetensors" in (results[node].error or "")

    def test_a_node_nobody_knows(self) -> None:
        """It is an error in words."""
        result = self.sent([self.task("nowhere", self.checkpoint().data)])["nowhere"]
        assert result.kind == "refused" and "nowhere" in (result.error or "")

    def test_training_that_diverges(self) -> None:
        """NaN is reported, not returned."""
        result = self.sent([self.task("cloud", self.checkpoint().data, lr=1e20, batch=4)])["cloud"]
        assert result.kind == "non-finite" and result.checkpoint is None

    def test_a_straggler_is_late_and_the_next_epoch_is_not(self) -> None:
        """A deadline ends the wait; afterwards the transport works as before."""
        data = self.checkpoint().data
        late = self.sent(self.tasks(data, local_epochs=LONG, timeout_s=0.5))
        assert {r.kind for r in late.values()} == {"late"}
        assert all("0.5 s" in (r.error or "") for r in late.values())
        again = self.sent(self.tasks(data, attempt=1))
        assert all(r.error is None for r in again.values())

"""What every transport must do: inherit `TransportSuite`, return your transport, and pytest runs the contract.

::

    from relaytrain.testing.transport_suite import TransportSuite

    class TestMine(TransportSuite):
        def make(self, setup):
            return MyTransport(setup)

The reference is `training.local.train_node` called directly: a transport moves data and must not change a bit of it.
One transport serves all tests of a class, as it would serve a run. Nodes also lie: see `lying_node`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from ..models.rebuild import build
from ..models.spec import family_spec
from ..store.files import write_atomic
from ..training.checkpoint import Checkpoint
from ..training.local import train_node
from ..training.setup import TrainingSetup
from ..training.task import NodeResult, NodeTask
from .lying_node import WORD
from .small_training import small_setup

FAMILIES = (("cnn", 1.0), ("mobilenet", 0.25), ("resnet8", 0.5))
LONG = 100_000
"""Passes over the data that nobody waits for."""


class TransportSuite:
    """The contract of `core.protocols.Transport`."""

    setup: ClassVar[TrainingSetup]
    transport: ClassVar[Any]
    scratch: ClassVar[TemporaryDirectory[str]]
    own_word: ClassVar[bool]

    def make(self, setup: TrainingSetup) -> Any:
        """The transport under test."""
        raise NotImplementedError("return the transport to be tested")

    @classmethod
    def setup_class(cls) -> None:
        """One setup and one transport for all tests."""
        cls.scratch = TemporaryDirectory(prefix="relaytrain-suite-")
        cls.own_word = WORD not in os.environ  # nodes that were started before know the place already
        os.environ.setdefault(WORD, str(Path(cls.scratch.name) / "word"))
        cls.setup = small_setup(loss="relaytrain.testing.lying_node:loss")
        cls.transport = cls().make(cls.setup)

    @classmethod
    def teardown_class(cls) -> None:
        """Closing twice is closing once."""
        cls.transport.close()
        cls.transport.close()
        if cls.own_word:
            del os.environ[WORD]
        cls.scratch.cleanup()

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

    def test_a_node_that_dies_at_work(self) -> None:
        """Its tasks are answered in words, and the next attempt finds somebody."""
        self.lied_to("dies")

    def test_a_message_that_is_none(self) -> None:
        """Noise in place of a result is no result."""
        self.lied_to("sends-noise")

    def test_an_answer_in_anothers_name(self) -> None:
        """A node speaks for itself: the other one's task is not answered by it."""
        self.lied_to("takes-anothers-name")

    def test_an_answer_to_an_older_task(self) -> None:
        """It answers nothing: the task that is open is late."""
        self.lied_to("answers-late", timeout_s=1.0)

    def lied_to(self, lie: str, *, timeout_s: float = 60.0) -> None:
        """One node lies: what counts is right to the last bit, what does not says why, and then all is as before."""
        data = self.checkpoint().data
        tasks = self.tasks(data, timeout_s=timeout_s)
        wanted = {task.node: train_node(task, self.setup.site(task.node)).data for task in tasks}
        self.sent(self.tasks(data))  # everybody is there
        write_atomic(Path(os.environ[WORD]), f"{os.getpid()} {lie}".encode())
        results = self.sent(tasks)
        failed = {node: result for node, result in results.items() if result.error is not None}
        assert failed, f"{lie}: no task failed"
        for node, result in results.items():
            assert node in failed or result.data == wanted[node], f"{lie}: other weights from {node}"
        for node, result in failed.items():
            assert result.checkpoint is None and result.kind, f"{lie}: weights with an error from {node}"
        again = self.sent(self.tasks(data, attempt=1))
        assert {node: result.data for node, result in again.items()} == wanted, lie

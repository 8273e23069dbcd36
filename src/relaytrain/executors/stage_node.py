"""A node's part of a pipeline set: it listens at its place, links to the stages beside it, trains, and hands back.

What it computes is what a stage's process on one host computes, to the bit. Its folders, code and data are its own:
the first stage draws the minibatches from the set's data as this machine has them.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import ScenarioError, WorkerLost
from ..models.spec import FactorySpec, validate_spec
from ..pipeline.host_links import HostLinks
from ..pipeline.job_file import StageJob
from ..pipeline.job_writer import DATA, write_data
from ..pipeline.snapshots import part_pieces, place, read
from ..pipeline.worker import play
from ..store.files import make_dir, write_atomic
from ..training.answer import TooLate, answered
from ..training.setup import TrainingSetup
from ..training.task import NodeResult, NodeTask, as_bytes
from ..training.threads import threads
from .stage_order import PipelineData, StageOrder

CONNECT_S, PATIENCE_S = 120.0, 900.0
"""How long the others may take to be there, and then to send, where the task's deadline is not earlier."""
LOOK_S = 0.2


class StageNode:
    """Plays stages for a node.

    Args:
        setup: what this machine has opened.
        certs: the node's folder of `relaytrain flower certs`; without it stages link on loopback alone.
    """

    def __init__(self, setup: TrainingSetup, certs: Path | None) -> None:
        self.setup, self.certs = setup, certs
        self._data = PipelineData(setup)

    def play(self, task: NodeTask, given_up: Callable[[], str | None]) -> NodeResult:
        """The stage of `task`. Whatever goes wrong becomes a result with an error.

        Args:
            given_up: says in words that nobody waits for it any more.
        """

        def train() -> tuple[bytes, int, float | None]:
            order = StageOrder.from_dict(task.stage or {})
            try:
                with threads(1), tempfile.TemporaryDirectory(prefix="rtp-") as folder:
                    part, losses = self._played(task, order, Path(folder), given_up)
            except WorkerLost as error:
                words = given_up()
                raise error if words is None else TooLate(words) from None
            sizes = order.job.batches
            loss = sum(losses[i] * size for i, size in enumerate(sizes)) / sum(sizes) if losses else None
            return part, sum(sizes), loss

        return answered(task, train)

    def _played(
        self, task: NodeTask, order: StageOrder, folder: Path, given_up: Callable[[], str | None]
    ) -> tuple[bytes, dict[int, float]]:
        """The stage's part of the last snapshot; at the last stage the loss of every minibatch."""
        job, rank = self._job(order, folder), order.rank
        write_atomic(make_dir(Path(job.source)) / "start.safetensors", as_bytes(task.checkpoint), durable=False)
        if rank == 0:
            self._write_data(task, order, folder)
        patience_s = PATIENCE_S if task.timeout_s is None else task.timeout_s
        losses: dict[int, float] = {}

        def report(kind: str, **values: Any) -> None:
            if kind == "loss":
                losses[values["index"]] = values["value"]

        links = HostLinks(
            rank, order.places, self.certs, order.key, patience_s, connect_s=min(CONNECT_S, patience_s), moving=True
        )
        try:
            with _ending(links, given_up):
                play(job, rank, report, links)
        except WorkerLost as error:
            raise WorkerLost("; ".join([str(error), *(f"refused {words}" for words in links.refused)])) from None
        finally:
            links.close()
        return b"".join(part_pieces(read(place(folder, job.updates, job.attempt)))), losses

    def _job(self, order: StageOrder, folder: Path) -> StageJob:
        """The order's job with what is this machine's own in it; it follows no reference that is not in our scenario.

        Raises:
            ScenarioError: it names one.
        """
        job, settings = order.job, self.setup.settings
        spec = validate_spec(job.blueprint["spec"]) if "spec" in job.blueprint else None
        if isinstance(spec, FactorySpec) and spec.factory not in self.setup.references:
            raise ScenarioError(f"stage: a network of {spec.factory}, which this machine's scenario does not name")
        if ":" in job.loss and job.loss != settings.loss:
            raise ScenarioError(f"stage: a loss {job.loss}, which this machine's scenario does not name")
        code = None if self.setup.folder is None else str(self.setup.folder.resolve())
        return replace(
            job,
            source=str(place(folder, 0, 0)),
            data=str(folder / DATA),
            snapshots=str(folder),
            code=code,
        )

    def _write_data(self, task: NodeTask, order: StageOrder, folder: Path) -> None:
        group = next((group for group in self.setup.problem.node_sets if group.name == order.nodes), None)
        if group is None:
            raise ScenarioError(f"stage: no node set {order.nodes} in this machine's scenario")
        batches = self._data.minibatches(group, task.epoch, task.settings)
        sizes = tuple(len(labels) for _, labels in batches)
        if sizes != order.job.batches:
            raise ScenarioError(
                f"stage: {sum(sizes)} samples of {order.nodes} here, {sum(order.job.batches)} where the loop runs"
            )
        write_data(batches, folder)


@contextmanager
def _ending(links: HostLinks, given_up: Callable[[], str | None]) -> Iterator[None]:
    """Within, links are ended as soon as nobody waits for what comes of them."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            if given_up() is not None:
                links.close()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

"""Training one piece of a campaign: the handover it begins with, its epochs through the FedAvg executor, its losses.

A result is written whole or not at all, its weights before it; so whatever is found after a crash can be believed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..compression.channels import parameter_count
from ..core.errors import RelayTrainError
from ..core.plan import Decision
from ..data.dataset import Dataset, union
from ..data.dataset import select as select_classes
from ..data.domain import shrink
from ..data.held import InMemory
from ..data.source import read
from ..executors.epoch import FederatedEpoch
from ..executors.inprocess import InProcess
from ..scenario import load_scenario
from ..store.files import make_dir, write_atomic
from ..training.checkpoint import Checkpoint
from ..training.datasets import in_memory
from ..training.handover import hand_over
from ..training.setup import TrainingSetup
from ..training.workbench import loaded
from .campaign import Branch, Campaign, Images, Piece
from .piece_results import Result, checkpoint_path, read_result, write_result


class PieceBench:
    """One seed of a campaign, ready to train: data, versions and an epoch runner for every node set."""

    def __init__(self, campaign: Campaign, seed: int) -> None:
        self.campaign, self.seed = campaign, seed
        scenario = load_scenario(campaign.tables(seed))
        folder = None if campaign.folder is None else Path(campaign.folder)
        reader = None if campaign.images is None else reader_of(campaign.images)
        self.setup = TrainingSetup.from_scenario(scenario, folder=folder, read=reader)
        self._transport = InProcess(self.setup)
        self._epochs: dict[str, FederatedEpoch] = {}
        self._train: dict[str, InMemory] = {}

    def epochs(self, nodes: str) -> FederatedEpoch:
        """What trains on `nodes` and evaluates on the test set that belongs to them."""
        if nodes not in self._epochs:
            setup = self.setup
            if self.campaign.own_classes:
                whole = in_memory(setup.test, "a campaign")
                test = whole.part(np.flatnonzero(np.isin(whole.labels, np.unique(self._images(nodes).labels))))
                problem = replace(setup.problem, target=replace(setup.problem.target, on="test", metric="loss"))
                setup = replace(setup, test=test, problem=problem, _cache=setup._cache)
            self._epochs[nodes] = FederatedEpoch(setup, self._transport)
        return self._epochs[nodes]

    def probe(self, checkpoint: Checkpoint, nodes: str) -> tuple[float, float]:
        """Forward losses on the node set's training data and on the test set that belongs to it."""
        if nodes not in self._train:
            self._train[nodes] = InMemory.of(self._images(nodes))
        train = self.setup.evaluate(loaded(checkpoint, resolve=self.setup.resolve), self._train[nodes])
        return train.loss, self.epochs(nodes).evaluate(checkpoint).loss

    def _images(self, nodes: str) -> Dataset:
        return in_memory(self.setup.data_of(nodes), "a campaign")

    def facts(self, nodes: str) -> tuple[int, int]:
        """Classes and samples of a node set."""
        data = self._images(nodes)
        return len(np.unique(data.labels)), len(data)

    def pruned_fraction(self, version: str) -> float:
        """Share of the full version's parameters that a version does without; asked, for pruned ones."""
        plan = self.setup.plan(version)
        if plan.way in ("pruned", "nested"):
            return plan.ratio
        facts = self.setup.version_facts()
        return max(0.0, 1.0 - facts[version].parameters / facts[self.setup.full.name].parameters)

    def switch(self, checkpoint: Checkpoint, before: Branch, now: Branch) -> tuple[Checkpoint, dict[str, Any]]:
        """The handover from one branch to another, with what the trace keeps of it."""
        handed = hand_over(self.setup, checkpoint, now.version, now.nodes)
        gone, kept = self.pruned_fraction(now.version), 1.0 - self.pruned_fraction(before.version)
        ratio = 0.0 if handed.kind == "same" else max(0.0, 1.0 - (1.0 - gone) / kept)
        told: dict[str, Any] = {"kind": handed.kind, "ratio_of_current": round(ratio, 6)}
        for when, network in (("before", checkpoint), ("after", handed.checkpoint)):
            told[f"train_loss_{when}"], told[f"test_loss_{when}"] = self.probe(network, now.nodes)
            told[f"parameters_{when}"] = parameter_count(network.model(resolve=self.setup.resolve))
        return handed.checkpoint, told


def train_piece(bench: PieceBench, piece: Piece, work: Path) -> Result:
    """Train `piece` from what is kept in `work`, write its weights if somebody goes on from them, then its result.

    Raises:
        LostWeights: the weights it starts from are missing or damaged; their piece has to be trained again.
    """
    began, campaign, seed = time.process_time(), bench.campaign, bench.seed
    branch = campaign.by_run[piece.run]
    switch: dict[str, Any] | None = None
    if piece.start is None:
        checkpoint = bench.setup.initial(branch.version)
    else:
        checkpoint = kept_weights(campaign, seed, piece.start, work)
        if piece.first == branch.after + 1 and branch.parent is not None:
            checkpoint, switch = bench.switch(checkpoint, campaign.by_run[branch.parent], branch)
    runner = bench.epochs(branch.nodes)
    rows: list[tuple[float, float, float]] = []
    for epoch in range(piece.first, piece.last + 1):
        decision = Decision(epoch, branch.version, branch.nodes)
        done = runner.run_epoch(decision, checkpoint, run=f"{campaign.name}-{seed}-{piece.run}")
        checkpoint = done.checkpoint
        rows.append((done.train_loss, done.evaluation.loss, done.evaluation.accuracy))
    digest = None
    make_dir(work / f"seed-{seed}")
    if campaign.takers[piece.index]:
        data = checkpoint.to_bytes()
        digest = hashlib.sha256(data).hexdigest()
        write_atomic(checkpoint_path(work, seed, piece.index), data)
    facts = (*bench.facts(branch.nodes), bench.pruned_fraction(branch.version))
    result = Result(campaign.digest, tuple(rows), switch, *facts, digest, time.process_time() - began)
    write_result(work, seed, piece.index, result)
    return result


def worker(opening: Mapping[str, Any]) -> Callable[[tuple[int, int]], int | None]:
    """What a process of the crew does with (seed, piece): train it; the piece whose weights are lost, if some are."""
    campaign, work = Campaign.from_dict(opening["campaign"]), Path(opening["work"])
    bench: PieceBench | None = None

    def train(task: tuple[int, int]) -> int | None:
        nonlocal bench
        seed, piece = task[0], campaign.pieces[task[1]]
        try:
            if bench is None or bench.seed != seed:
                bench = None  # let go of the data of the seed before
                bench = PieceBench(campaign, seed)
            train_piece(bench, piece, work)
        except LostWeights as lost:
            return lost.piece
        except RelayTrainError as error:
            branch = campaign.by_run[piece.run]
            error.args = (f"seed {seed}, {branch.version} on {branch.nodes}: {error}",)
            raise
        return None

    return train


class LostWeights(RelayTrainError):
    """Weights that a piece starts from are not there; `piece` is the one that makes them."""

    def __init__(self, piece: int) -> None:
        super().__init__(f"the weights of piece {piece} are missing or damaged")
        self.piece = piece


def kept_weights(campaign: Campaign, seed: int, piece: int, work: Path) -> Checkpoint:
    """The last weights of a finished piece, compared with the digest in its result."""
    result = read_result(work, seed, piece, campaign.digest)
    try:
        data = checkpoint_path(work, seed, piece).read_bytes()
    except OSError:
        data = b""
    if result is None or result.weights != hashlib.sha256(data).hexdigest():
        raise LostWeights(piece)
    return Checkpoint.from_bytes(data, where=str(checkpoint_path(work, seed, piece)))


def reader_of(images: Images) -> Callable[..., Dataset]:
    """A reader of image sets that cuts, shrinks and joins them as `images` says, and keeps them for the next seed."""

    def cut(source: str, *, split: str = "train", folder: Path | None = None, resolve: Any = None) -> Dataset:
        return _cut(source, split, json.dumps(vars(images)))

    return cut


@lru_cache(maxsize=2)
def _cut(source: str, split: str, options: str) -> Dataset:
    images = Images(**json.loads(options))
    data = read(source, split=split, folder=None if images.folder is None else Path(images.folder))
    if images.more is not None:
        place = None
        if images.folder is not None and (Path(images.folder).parent / images.more).is_dir():
            place = Path(images.folder).parent / images.more
        other = read(images.more, split=split, folder=place)
        data = union([data, select_classes(other, range(images.more_classes))])
    if split == "train" and images.pool is not None:
        data = data.part(np.arange(min(images.pool, len(data))))
    if split == "test" and images.test is not None:
        firsts = [np.flatnonzero(data.labels == label)[: images.test] for label in range(data.classes)]
        data = data.part(np.sort(np.concatenate(firsts)))
    return shrink(data, images.shrink)

"""What a node of a pipeline set is told beside its part of the network: its rank, where all stages are, a one-time key.

It travels as `NodeTask.stage`. A job in it names no folders: every node has its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..core.errors import RelayTrainError, UsageError
from ..core.problem import NodeSet
from ..data.held import InMemory
from ..pipeline.host_links import JobKey, StagePlace
from ..pipeline.job_file import StageJob
from ..training.datasets import in_memory
from ..training.settings import TrainingSettings, seed_of
from ..training.setup import TrainingSetup

KEY_BYTES = 32


@dataclass(frozen=True)
class StageOrder:
    """One node's part of one attempt. `nodes` is the set's name; `key` is made for the attempt and used by no other."""

    nodes: str
    rank: int
    places: tuple[StagePlace, ...]
    key: JobKey
    job: StageJob

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        bare = replace(self.job, source="", data="", snapshots="", code=None, interface=None)
        return {
            "nodes": self.nodes,
            "rank": self.rank,
            "places": [str(place) for place in self.places],
            "name": self.key.job,
            "key": self.key.key.hex(),
            "job": bare.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StageOrder:
        """The inverse of `to_dict`, for values of any origin.

        Raises:
            UsageError, ScenarioError: they are no such order.
        """
        try:
            places = tuple(StagePlace.parse(str(text), "stage") for text in values["places"])
            key = JobKey(str(values["name"]), bytes.fromhex(values["key"]))
            order = cls(str(values["nodes"]), int(values["rank"]), places, key, StageJob.from_dict(values["job"]))
        except RelayTrainError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"stage: no order for one ({type(error).__name__}: {str(error)[:80]})") from None
        if not 0 <= order.rank < order.job.stages == len(places) or len(key.key) != KEY_BYTES:
            raise UsageError(f"stage: rank {order.rank} of {order.job.stages} stages at {len(places)} places")
        return order


def new_key() -> JobKey:
    """Of an attempt: a name that nobody else has, and a secret."""
    return JobKey(secrets.token_hex(8), secrets.token_bytes(KEY_BYTES))


def orders(nodes: str, places: Sequence[StagePlace], job: StageJob) -> list[StageOrder]:
    """Those of all stages, with a key of their own."""
    key = new_key()
    return [StageOrder(nodes, rank, tuple(places), key, job) for rank in range(job.stages)]


class PipelineData:
    """The minibatches of pipeline sets, in the order of an epoch: a function of run seed, epoch and first node."""

    def __init__(self, setup: TrainingSetup) -> None:
        self._setup = setup
        self._images: dict[str, InMemory] = {}

    def minibatches(self, group: NodeSet, epoch: int, settings: TrainingSettings) -> list[tuple[Tensor, Tensor]]:
        """The owners' data in the order of this epoch."""
        if group.name not in self._images:
            data = in_memory(self._setup.data_of(group.name), f"the pipeline {group.name}")
            self._images[group.name] = InMemory.of(data)
        held, minibatches = self._images[group.name], []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(settings.seed, epoch, group.nodes[0]))
            for _ in range(settings.local_epochs):
                minibatches += list(held.shuffled(settings.batch))
        return minibatches

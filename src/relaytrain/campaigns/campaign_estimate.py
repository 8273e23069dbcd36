"""What a campaign will take, before it starts: images and CPU-hours, with shared beginnings and without.

CPU seconds come from timing a few batches of every version on this machine, on images made up for it: a full campaign
can be estimated without its data. Evaluations and handovers are not timed; measured campaigns took up to 1.4 times
the estimate of their training alone, so `OVERHEAD` is on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .campaign import Campaign, epochs_by_pair, images_of

OVERHEAD = 1.4


@dataclass(frozen=True)
class Estimate:
    """For `seeds` seeds: trainings, segments, epochs, images and CPU seconds; naive = every training on its own."""

    campaign: str
    seeds: int
    trainings: int
    segments: int
    epochs: int
    images: int
    naive_images: int
    cpu_s: float
    naive_cpu_s: float

    @property
    def saving(self) -> float:
        """How many times fewer images."""
        return self.naive_images / self.images

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"schema": "relaytrain.campaign-estimate/1", **vars(self), "saving": self.saving}


def estimate(campaign: Campaign, seeds: int) -> Estimate:
    """Count, and time versions, which needs torch and takes seconds."""
    from ..costs.profiled import profile

    samples = samples_of(campaign)
    shared, naive = images_of(campaign, {group: sum(counts) for group, counts in samples.items()})
    timing = profile(_made_up(campaign), batches=1)

    def cpu_s(*, naive: bool) -> float:
        pairs = epochs_by_pair(campaign, naive=naive)
        once_s = sum(n * timing.cpu_s(version, samples[nodes]) for (version, nodes), n in pairs.items())
        return OVERHEAD * seeds * once_s

    epochs = sum(branch.epochs for branch in campaign.branches)
    trainings, segments = seeds * len(campaign.alone), seeds * len(campaign.branches)
    counts = trainings, segments, seeds * epochs, seeds * shared, seeds * naive
    return Estimate(campaign.name, seeds, *counts, cpu_s(naive=False), cpu_s(naive=True))


def samples_of(campaign: Campaign) -> dict[str, list[int]]:
    """Samples of every node of every set; read from the scenario, or from its data where it does not say."""
    declared = {node["name"]: node.get("samples") for node in campaign.scenario.get("nodes", ())}
    if any(count is None for count in declared.values()):
        from .piece_training import PieceBench

        setup = PieceBench(campaign, 0).setup
        declared = {name: setup.counted_at(name) for name in setup.datasets}
    return {
        group["name"]: [int(declared[node] or 0) for node in group["nodes"]] for group in campaign.scenario["node_sets"]
    }


def flops_of(campaign: Campaign) -> dict[str, float]:
    """FLOPs of a forward and backward pass over one image, by version; counted, nothing is trained."""
    facts = _made_up(campaign).version_facts()
    return {name: float(version.flops_per_sample) for name, version in facts.items()}


def _made_up(campaign: Campaign) -> Any:
    """A setup of the same versions over a few noise images; a user's own scenario is set up with its own data."""
    if campaign.images is None:
        from .piece_training import PieceBench

        return PieceBench(campaign, 0).setup
    import numpy as np

    from ..data.dataset import Dataset
    from ..scenario import load_scenario
    from ..training.setup import TrainingSetup

    tables = campaign.tables(0)
    each = 2 * int(tables["training"]["batch"])
    tables["nodes"] = [{**node, "samples": each} for node in tables["nodes"]]
    classes = 1 + max(label for owned in tables["data"]["classes"].values() for label in owned)
    side = 32 // campaign.images.shrink
    count = classes * (each * len(tables["nodes"]) + 8)

    def noise(source: str, **_: object) -> Dataset:
        rng = np.random.default_rng(0)
        labels = np.arange(count, dtype=np.int64) % classes
        return Dataset(rng.random((count, 3, side, side), dtype=np.float32), labels, classes, source)

    return TrainingSetup.from_scenario(load_scenario(tables), read=noise)


def words(counted: Estimate) -> Mapping[str, str]:
    """The estimate in words, one line each."""
    segments = f"{counted.segments:,} segments of {counted.epochs:,} epochs in all"
    without = f"{counted.naive_images:,} without: {counted.saving:.1f} times fewer"
    return {
        "trainings": f"{counted.trainings:,} ({counted.seeds} seeds), {segments}",
        "images": f"{counted.images:,} with shared beginnings, {without}",
        "CPU": f"about {_hours(counted.cpu_s)}, without sharing {_hours(counted.naive_cpu_s)}",
    }


def _hours(seconds: float) -> str:
    if seconds < 600.0:
        return f"{seconds / 3600:.3f} CPU-hours ({seconds:.0f} s)"
    return f"{seconds / 3600:,.1f} CPU-hours"

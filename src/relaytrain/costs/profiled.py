"""What a version costs on this machine, from timing a few batches of it.

FLOPs overstate what pruning saves: a batch has a price of its own, and narrow layers use a processor badly. So the CPU
seconds of one node's pass over n samples in batches of B are fitted as

    pass_s + per_batch_s * ceil(n / B) + per_sample_s * n

from timed steps at two batch sizes; `pass_s` (rebuilding, loading and saving the checkpoint) is timed by itself.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ..core.cost import CostTable
from ..core.errors import UsageError
from ..core.problem import Problem, Version
from .meters import CpuMeter
from .sampled import sampled_cost


@dataclass(frozen=True)
class Timing:
    """CPU seconds of one training step on a batch of `samples`."""

    samples: int
    cpu_s: float


@dataclass(frozen=True)
class VersionTimings:
    """What was timed of one version: steps, and the price of a pass beside its steps."""

    steps: tuple[Timing, ...]
    pass_s: float
    flops_per_sample: float


class Timer(Protocol):
    """Times training steps; `training.timing` has the one that does."""

    batch: int
    local_epochs: int

    def time(self, batches: int) -> Mapping[str, VersionTimings]:
        """Time at least `batches` steps of every version at each of two batch sizes."""
        ...


class Profilable(Protocol):
    """What `profile` needs of a setup."""

    def timer(self) -> Timer:
        """What times its versions."""
        ...


def minibatches(samples: int, batch: int) -> int:
    """How many minibatches a pass has; a lone last sample joins the one before."""
    whole, rest = divmod(samples, batch)
    return whole + (rest > (1 if whole else 0))


@dataclass(frozen=True)
class ProfiledVersion:
    """CPU seconds of one version on this machine."""

    name: str
    per_sample_s: float
    per_batch_s: float
    pass_s: float
    flops_per_sample: float

    def cpu_s(self, samples: int, batch: int, local_epochs: int = 1) -> float:
        """CPU seconds of one node's pass over `samples`."""
        steps = self.per_batch_s * minibatches(samples, batch)
        return self.pass_s + local_epochs * (steps + self.per_sample_s * samples)


@dataclass(frozen=True)
class Profile:
    """All versions, as measured on this machine."""

    versions: Mapping[str, ProfiledVersion]
    batch: int
    local_epochs: int = 1
    machine: str = field(default="")

    def cpu_s(self, version: str, samples: Sequence[int]) -> float:
        """CPU seconds of an epoch on nodes that hold so many samples each."""
        return sum(self.versions[version].cpu_s(n, self.batch, self.local_epochs) for n in samples)

    def effective_flops(self) -> dict[str, float]:
        """FLOPs a sample of each version is worth, at the speed at which this machine does the largest one.

        A device profile turns these into seconds that keep the measured ratios between versions.
        """
        rates = {v.name: v.cpu_s(1000 * self.batch, self.batch) / (1000 * self.batch) for v in self.versions.values()}
        largest = max(self.versions.values(), key=lambda v: v.flops_per_sample)
        speed = largest.flops_per_sample / rates[largest.name]
        return {name: speed * rate for name, rate in rates.items()}

    def costs(
        self,
        problem: Problem,
        samples: Mapping[str, int],
        before: CostTable,
        *,
        workers: int = 1,
        meter: CpuMeter | None = None,
    ) -> CostTable:
        """`before` with the measured clock's seconds and joules of every epoch on this machine in place of its own.

        Where a share of the nodes is drawn, CPU seconds are those expected; so are wall seconds of one worker, which
        does one node after the other, while those of several are the longer of the slowest node's and an even share.

        Args:
            problem: whose pairs the table is about.
            samples: by node.
            before: gives the handovers, and what is forbidden.
            workers: processes that train at the same time.
            meter: turns CPU seconds into joules.
        """
        meter = meter if meter is not None else CpuMeter()
        run_s, run_j = before.run_s.copy(), before.run_j.copy()
        sets = {group.name: group for group in problem.node_sets}
        versions = {version.name: version for version in problem.versions}
        for index, pair in enumerate(problem.pairs):
            if math.isinf(run_s[index]) or pair.version not in self.versions:
                continue
            group = sets[pair.nodes]
            version = versions.get(pair.version, Version(pair.version))
            cpu = [version.trained(self._on(samples[node])) for node in group.nodes]
            spent = sum(cpu) * group.sampled / len(cpu)
            nothing = [0.0] * len(cpu)
            wall = max(sampled_cost(cpu, nothing, nothing, group.sampled).seconds, spent / workers)
            run_s[index], run_j[index] = wall, meter.reading(spent, wall).energy_j
        return replace(before, run_s=run_s, run_j=run_j, provenance="measured")

    def _on(self, samples: int) -> Callable[[str], float]:
        return lambda name: self.cpu_s(name, [samples])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "schema": "relaytrain.profile/1",
            "machine": self.machine,
            "batch": self.batch,
            "local_epochs": self.local_epochs,
            "versions": {
                name: {**{k: v for k, v in vars(version).items() if k != "name"}, "effective_flops_per_sample": flops}
                for (name, version), flops in zip(self.versions.items(), self.effective_flops().values(), strict=True)
            },
        }


def fit(name: str, timings: VersionTimings) -> ProfiledVersion:
    """The version's three figures, from the median step at each batch size; neither slope nor price is negative."""
    sizes = sorted({step.samples for step in timings.steps})
    if not sizes:
        raise UsageError(f"{name}: no step was timed, expected some at one batch size or two")
    medians = [float(np.median([s.cpu_s for s in timings.steps if s.samples == size])) for size in sizes]
    low, high = sizes[0], sizes[-1]
    slope = (medians[-1] - medians[0]) / (high - low) if high > low else medians[-1] / high
    slope = min(max(slope, 0.0), medians[-1] / high)
    # The price of a batch is set so that batches of the full size, which make up most of an epoch, come out right.
    return ProfiledVersion(name, slope, medians[-1] - slope * high, timings.pass_s, timings.flops_per_sample)


def profile(setup: Profilable, *, batches: int = 12) -> Profile:
    """Time a few batches of every version of `setup` (a `TrainingSetup`) on this machine, and fit.

    Args:
        setup: what trains; none of its state changes.
        batches: least number of steps at each of the two batch sizes; short steps are timed more often.
    """
    if batches < 1:
        raise UsageError(f"batches: got {batches}, expected at least 1")
    timer = setup.timer()
    versions = {name: fit(name, timings) for name, timings in timer.time(batches).items()}
    machine = f"{platform.machine()} {platform.system()}"
    return Profile(versions, timer.batch, timer.local_epochs, machine)

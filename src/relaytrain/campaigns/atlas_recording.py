"""Records an atlas: trains every relay up to given lengths on a grid, each shared beginning once. Imports torch.

One task is a seed's first legs, or all that branches off at one of their epochs; the file is written after each, so an
interrupted recording goes on where it was, and ends with the same bytes. What a replay asks for beyond the grid is
trained the same way (`off_grid`), from the nearest checkpoint that is still remembered.
"""

from __future__ import annotations

import math
import platform
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..core.cost import CostTable
from ..core.errors import NonFiniteTraining, RelayTrainError, UsageError
from ..core.plan import Decision
from ..core.problem import Pair, Problem
from ..costs.profiled import profile
from ..crew import Crew, Task, WorkerEnded, shared_out
from ..executors.inprocess import InProcess
from ..executors.pipelined import members_of
from ..relay.assembly import possible_changes
from ..relay.replay import Missing
from ..relay.runner import TorchRunner
from ..scenario import Scenario, load_scenario
from ..traces.atlas import MOST_LEGS_BEFORE, Atlas, AtlasLeg, LegKey, Way, read_atlas
from ..traces.atlas_scenario import digest_of, of_seed, same_training
from ..training.checkpoint import Checkpoint
from ..training.setup import TrainingSetup
from .campaign_estimate import OVERHEAD

MOST_REMEMBERED_BYTES = 256 << 20
"""Of checkpoints, by the trainer of one seed; what is forgotten is trained again when it is needed."""
MOST_PAIRS = 4
"""With more possible pairs the user says which."""
MOST_LEGS = 100_000
"""Of one seed."""
FORWARD = 1 / 3
"""Of a training step's work, a forward pass alone."""

PlannedLeg = tuple[LegKey, int]
"""A leg with its epochs."""


@dataclass(frozen=True)
class LegGrid:
    """How far an atlas goes: most epochs of a relay's first, second, ... leg, and the step at which legs branch off.

    `pairs`: which pairs; none: all that can train.
    """

    lengths: tuple[int, ...] = (24, 20, 14)
    every: int = 4
    pairs: tuple[str, ...] = ()


def possible_pairs(problem: Problem, costs: CostTable, wanted: Sequence[str]) -> list[int]:
    """Indexes of the pairs that can be trained and come to from the start, or of those that are `wanted`."""
    names = [str(pair) for pair in problem.pairs]
    can = [i for i in range(len(names)) if math.isfinite(costs.epoch_s[i, i])]
    for name in wanted:
        if name not in names:
            raise UsageError(f"--pair: got '{name[:80]}', expected some of: {', '.join(names)}")
        if (index := names.index(name)) not in can:
            raise UsageError(f"--pair: got '{name}', which cannot train: {costs.why_not(index, index)}; leave it out")
    if wanted:
        return sorted({names.index(name) for name in wanted})
    reached, more = {problem.start}, True
    while more:
        new = {j for i in reached for j in can if math.isfinite(costs.epoch_s[i, j])} - reached
        more, reached = bool(new), reached | new
    indexes = [i for i in can if i in reached]
    if len(indexes) > MOST_PAIRS:
        raise UsageError(
            f"{len(indexes)} pairs can train, an atlas of all their relays would be large; choose up to {MOST_PAIRS} "
            f"with --pair: {', '.join(names[i] for i in indexes)}"
        )
    return indexes


def planned_legs(grid: LegGrid, start: int, pairs: Sequence[int], ways: Callable[[int, int], bool]) -> list[PlannedLeg]:
    """Every leg to record with its epochs, those before it first; `ways(i, j)`: whether j may follow i."""
    legs: list[PlannedLeg] = []

    def branch(before: Way, pair: int, depth: int) -> None:
        epochs = grid.lengths[depth]
        legs.append((LegKey(before, pair), epochs))
        if len(legs) > MOST_LEGS:
            raise UsageError(
                f"more than {MOST_LEGS:,} legs a seed; give fewer or shorter --epochs, or a larger --every"
            )
        if depth + 1 >= len(grid.lengths):
            return
        for done in range(grid.every, epochs + 1, grid.every):
            for now in pairs:
                if now != pair and ways(pair, now):
                    branch((*before, (pair, done)), now, depth + 1)

    for first in pairs:
        if first == start or ways(start, first):
            branch((), first, 0)
    return legs


def legs_of(scenario: Scenario, grid: LegGrid, setup: TrainingSetup | None = None) -> list[PlannedLeg]:
    """What a recording of `grid` trains, for one seed."""
    if not 1 <= len(grid.lengths) <= MOST_LEGS_BEFORE + 1 or min(*grid.lengths, grid.every) < 1:
        raise UsageError(
            f"atlas: legs of {grid.lengths} epochs that branch off every {grid.every}, expected 1 to "
            f"{MOST_LEGS_BEFORE + 1} lengths and a step, all from 1 on"
        )
    setup = setup if setup is not None else TrainingSetup.from_scenario(scenario)
    costs = possible_changes(setup, scenario.problem, scenario.costs)
    pairs = possible_pairs(scenario.problem, costs, grid.pairs)
    return planned_legs(grid, scenario.problem.start, pairs, lambda i, j: math.isfinite(costs.epoch_s[i, j]))


class AtlasTrainer:
    """Trains legs of one seed; checkpoints are remembered as long as there is room.

    Args:
        scenario: of any seed.
        seed: of data and weights.
        folder: where the user's own code is looked for first; by default the scenario's.
        every: only checkpoints after so many epochs, and twice as many, and so on, are worth remembering.
    """

    def __init__(self, scenario: Scenario, seed: int, *, folder: Path | None = None, every: int = 1) -> None:
        setup = TrainingSetup.from_scenario(of_seed(scenario, seed), folder=folder or scenario.folder)
        self.runner = TorchRunner(setup, InProcess(setup), pipelines=members_of(setup, scenario.resolved))
        self.pairs, self.start = scenario.problem.pairs, scenario.problem.start
        self.metric = scenario.problem.target.metric
        self.every = every
        self.legs: dict[LegKey, AtlasLeg] = {}
        self._kept: OrderedDict[tuple[LegKey, int], Checkpoint] = OrderedDict()
        self._bytes = 0

    def leg(self, key: LegKey, epochs: int) -> AtlasLeg:
        """The leg, trained up to `epochs` at least."""
        leg = self.legs.get(key)
        if leg is None or len(leg.losses) < epochs:
            self.checkpoint(key, epochs)
        return self.legs[key]

    def checkpoint(self, key: LegKey, epochs: int) -> Checkpoint:
        """The network after so many epochs of a leg."""
        done = next((count for count in range(epochs, -1, -1) if (key, count) in self._kept), None)
        if done is None:
            done, at = 0, self._begin(key)
        else:
            at = self._kept[key, done]
            self._kept.move_to_end((key, done))
        leg, pair, before = self.legs[key], self.pairs[key.pair], sum(count for _, count in key.before)
        for epoch in range(done + 1, epochs + 1):
            result = self.runner.run_epoch(_decision(before + epoch, pair), at, run="atlas")
            at = result.checkpoint
            if not math.isfinite(result.outcome.loss):
                way = " -> ".join(f"{self.pairs[p]} x{n}" for p, n in (*key.before, (key.pair, epoch)))
                raise NonFiniteTraining(
                    f"atlas: the loss after {way} is no number; lower [training] lr, or leave it out"
                )
            if len(leg.losses) < epoch:
                leg.losses.append(result.outcome.loss)
            if epoch % self.every == 0 or epoch == epochs:
                self._keep((key, epoch), at)
        return at

    def _begin(self, key: LegKey) -> Checkpoint:
        """The network at the beginning of a leg: handed over from the leg before, or the first one."""
        at, came = self.runner.first(), self.pairs[self.start]
        if key.before:
            (pair, epochs), way = key.before[-1], key.before[:-1]
            at, came = self.checkpoint(LegKey(way, pair), epochs), self.pairs[pair]
        told: Mapping[str, Any] = {}
        if key.before or key.pair != self.start:
            epoch = sum(count for _, count in key.before) + 1
            handed = self.runner.hand_over(at, came, _decision(epoch, self.pairs[key.pair]), self._earlier(key))
            at = handed.checkpoint
            told = {"kind": handed.kind, "reached_ratio": handed.reached_ratio, **handed.probe}
        if key not in self.legs:
            start = self.runner.probe(at).metric(self.metric)
            self.legs[key] = AtlasLeg(start, [], {name: value for name, value in told.items() if value is not None})
        self._keep((key, 0), at)
        return at

    def _earlier(self, key: LegKey) -> Callable[[str], Any]:
        def last_of(version: str) -> Any:
            for index in reversed(range(len(key.before))):
                pair, epochs = key.before[index]
                if self.pairs[pair].version == version:
                    return self.checkpoint(LegKey(key.before[:index], pair), epochs)
            return self.runner.first() if self.pairs[self.start].version == version else None

        return last_of

    def _keep(self, key: tuple[LegKey, int], checkpoint: Checkpoint) -> None:
        if key in self._kept:
            return
        self._kept[key] = checkpoint
        self._bytes += _bytes_of(checkpoint)
        while self._bytes > MOST_REMEMBERED_BYTES and len(self._kept) > 1:
            self._bytes -= _bytes_of(self._kept.popitem(last=False)[1])


def _bytes_of(checkpoint: Checkpoint) -> int:
    return sum(tensor.nbytes for part in (checkpoint.weights, checkpoint.optimizer) for tensor in part.values())


def _decision(epoch: int, pair: Pair) -> Decision:
    return Decision(epoch, pair.version, pair.nodes)


def off_grid(scenario: Scenario, atlas: Atlas) -> Missing:
    """For an `AtlasRunner`: trains what `atlas` does not hold and adds it there. Seeds are best replayed one by one."""
    if not same_training(atlas, scenario):
        raise UsageError(
            f"atlas of {atlas.scenario}: made with other data, versions or training than {scenario.name} has now; "
            "record it again"
        )
    trainers: dict[int, AtlasTrainer] = {}

    def missing(seed: int, key: LegKey, epochs: int) -> AtlasLeg:
        if seed not in trainers:
            trainers.clear()
            trainers[seed] = AtlasTrainer(scenario, seed)
        leg = trainers[seed].leg(key, epochs)
        atlas.seeds.setdefault(seed, {})[key] = leg
        return leg

    return missing


def empty_atlas(scenario: Scenario) -> Atlas:
    """Of a scenario, with no seed yet."""
    problem = scenario.problem
    meta = {"torch": version("torch"), "machine": platform.machine()}
    return Atlas(scenario.name, problem.pairs, problem.start, digest_of(scenario), problem.target.metric, meta)


@dataclass(frozen=True)
class Recorded:
    """What a recording came to: `trained` epochs of this call, `found` those that were there already."""

    atlas: Atlas
    trained: int
    found: int
    cpu_s: float


class AtlasRecording:
    """What is to be recorded, what of it a file holds already, and what the rest would take.

    Args:
        scenario: with `[data]`.
        path: the file to write, or to go on with; one of another training is refused.
        grid: how far.
        seeds: each with data and weights of its own.
    """

    def __init__(self, scenario: Scenario, path: Path, grid: LegGrid, seeds: Iterable[int]) -> None:
        self.scenario, self.path, self.grid, self.seeds = scenario, path, grid, sorted(set(seeds))
        self.setup = TrainingSetup.from_scenario(scenario)
        self.legs = legs_of(scenario, grid, self.setup)
        self.atlas = empty_atlas(scenario)
        if path.exists() or path.is_symlink():
            held = read_atlas(path)
            if (held.digest, held.pairs) != (self.atlas.digest, self.atlas.pairs):
                raise UsageError(
                    f"{path}: got an atlas of {held.scenario} with other data, versions or training, expected one of "
                    f"{scenario.name} as it is now; choose another file"
                )
            self.atlas = held
        self.groups = _groups(self.legs)
        tasks = [(seed, group) for seed in self.seeds for group in range(len(self.groups))]
        self.left = [(seed, group) for seed, group in tasks if not _holds(self.atlas, seed, self.groups[group])]
        self.epochs = len(self.seeds) * sum(epochs for _, epochs in self.legs)
        self.found = self.epochs - sum(self._epochs(group) for _, group in self.left)

    def _epochs(self, group: int) -> int:
        return sum(epochs for _, epochs in self.groups[group])

    def expected_cpu_s(self) -> float:
        """Of what is left, from timing a few batches of every version here; validation counts as forward passes."""
        timing = profile(self.setup, batches=1)
        sets = {group.name: group.nodes for group in self.scenario.problem.node_sets}
        once_s: dict[int, float] = {}
        for index in {key.pair for key, _ in self.legs}:
            pair = self.scenario.problem.pairs[index]
            samples = [self.setup.counted_at(node) for node in sets[pair.nodes]]
            forward_s = FORWARD * timing.versions[pair.version].per_sample_s * (self.setup.validation_samples or 0)
            once_s[index] = timing.cpu_s(pair.version, samples) + forward_s
        return OVERHEAD * sum(epochs * once_s[key.pair] for _, group in self.left for key, epochs in self.groups[group])

    def train(self, workers: int = 2, progress: Callable[[int, int], None] | None = None) -> Recorded:
        """Train what is left; the file is written after every group of legs."""
        trained, cpu_s = 0, 0.0
        if progress is not None:
            progress(self.found, self.epochs)
        for (seed, group), answer in self._trained(min(workers, len(self.left))):
            new = empty_atlas(self.scenario)
            new.seeds[seed] = {
                key: AtlasLeg(start, losses, handed)
                for (key, _), (start, losses, handed) in zip(self.groups[group], answer["legs"], strict=True)
            }
            self.atlas.merge(new)
            self.atlas.save(self.path)
            trained, cpu_s = trained + self._epochs(group), cpu_s + float(answer["cpu_s"])
            if progress is not None:
                progress(self.found + trained, self.epochs)
        return Recorded(self.atlas, trained, self.found, cpu_s)

    def _trained(self, workers: int) -> Iterator[tuple[Task, Any]]:
        """Every group of legs as it is done."""
        if not self.left:
            return
        folder = None if self.scenario.folder is None else str(self.scenario.folder.resolve())
        opening = {
            "scenario": dict(self.scenario.resolved),
            "folder": folder,
            "every": self.grid.every,
            "groups": self.groups,
        }
        waiting = set(self.left)
        try:
            with Crew("campaigns.atlas_recording", opening, workers) as crew:
                for done, answer in shared_out(crew, lambda: waiting):
                    waiting.discard(done)
                    yield done, answer
        except WorkerEnded as ended:
            where = "before it was given anything" if ended.task is None else f"in seed {ended.task[0]}"
            raise RelayTrainError(f"atlas: a worker ended {where}; the same command goes on") from None


def _groups(legs: Sequence[PlannedLeg]) -> list[list[PlannedLeg]]:
    """The first legs together, then all that branches off at one of their epochs: what one task trains."""
    groups: dict[Way, list[PlannedLeg]] = {}
    for key, epochs in legs:
        groups.setdefault(key.before[:1], []).append((key, epochs))
    return [groups[branch] for branch in sorted(groups)]


def _holds(atlas: Atlas, seed: int, legs: Sequence[PlannedLeg]) -> bool:
    return all((leg := atlas.leg(seed, key)) is not None and len(leg.losses) >= epochs for key, epochs in legs)


def worker(opening: Mapping[str, Any]) -> Callable[[Task], dict[str, Any]]:
    """Trains the legs of a task; the trainer of the seed that it was given last is kept."""
    scenario = load_scenario(opening["scenario"])
    folder = None if opening["folder"] is None else Path(opening["folder"])
    groups = [
        [(LegKey(tuple((p, n) for p, n in before), pair), epochs) for (before, pair), epochs in group]
        for group in opening["groups"]
    ]
    trainers: dict[int, AtlasTrainer] = {}

    def work(task: Task) -> dict[str, Any]:
        seed, group = task
        began_s = time.process_time()
        if seed not in trainers:
            trainers.clear()
            trainers[seed] = AtlasTrainer(scenario, seed, folder=folder, every=opening["every"])
        legs = [trainers[seed].leg(key, epochs) for key, epochs in groups[group]]
        answer = [
            [leg.start, leg.losses[:epochs], dict(leg.handed)]
            for leg, (_, epochs) in zip(legs, groups[group], strict=True)
        ]
        return {"legs": answer, "cpu_s": time.process_time() - began_s}

    return work

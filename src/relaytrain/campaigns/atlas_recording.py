"""Records an atlas: trains every relay up to given lengths on a grid, each shared beginning once. Imports torch.

One task is one seed; the file is written after each, so an interrupted recording goes on where it was. What a replay
asks for beyond the grid is trained the same way, from the nearest checkpoint that is still remembered.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import RelayTrainError, UsageError
from ..core.plan import Decision
from ..core.problem import Pair
from ..crew import Crew, WorkerEnded
from ..executors.inprocess import InProcess
from ..relay.assembly import possible_changes
from ..relay.runner import TorchRunner
from ..scenario import Scenario, load_scenario
from ..store.files import is_regular
from ..traces.atlas import Atlas, AtlasLeg, LegKey, Way, read_atlas
from ..training.checkpoint import Checkpoint
from ..training.setup import TrainingSetup

MOST_REMEMBERED_BYTES = 256 << 20
"""Of checkpoints, by the trainer of one seed."""
MOST_PAIRS = 4
"""With more possible pairs the user says which."""
SEEDED = ("training", "data")
LEFT_OUT = ("name", "description", "law", "prior", "estimator", "planner", "depl", "costs", "devices", "simulate")
"""Tables of a scenario that losses do not depend on."""


@dataclass(frozen=True)
class LegGrid:
    """How far an atlas goes: most epochs of a relay's first, second, ... leg, and the step at which legs branch off.

    `pairs`: which pairs; none: all that can train.
    """

    lengths: tuple[int, ...] = (24, 20, 14)
    every: int = 4
    pairs: tuple[str, ...] = ()


def of_seed(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with this seed's data and weights."""
    tables = dict(scenario.resolved)
    for name in SEEDED:
        tables[name] = {**tables.get(name, {}), "seed": seed}
    return load_scenario(tables)


def digest_of(scenario: Scenario) -> str:
    """Of all that decides about losses but the seed."""
    kept = {key: value for key, value in scenario.resolved.items() if key not in LEFT_OUT}
    for name in SEEDED:
        kept[name] = {key: value for key, value in kept.get(name, {}).items() if key != "seed"}
    target = scenario.problem.target
    kept["target"] = [target.on, target.metric]
    kept["start"] = {key: value for key, value in kept.get("start", {}).items() if key != "loss"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def possible_pairs(scenario: Scenario, setup: TrainingSetup, wanted: Sequence[str] = ()) -> list[int]:
    """Indexes of the pairs that can be trained and come to from the start, or of those that are `wanted`."""
    problem = scenario.problem
    costs = possible_changes(setup, problem, scenario.costs)
    if wanted:
        names = [str(pair) for pair in problem.pairs]
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise UsageError(f"--pair: got '{unknown[0]}', expected some of: {', '.join(names)}")
        return [names.index(name) for name in wanted]
    can = [i for i in range(len(problem.pairs)) if math.isfinite(costs.epoch_s[i, i])]
    reached, more = {problem.start}, True
    while more:
        new = {j for i in reached for j in can if math.isfinite(costs.epoch_s[i, j])} - reached
        more, reached = bool(new), reached | new
    found = [i for i in can if i in reached]
    if len(found) > MOST_PAIRS:
        raise UsageError(
            f"{len(found)} pairs can train, an atlas of all their relays would be large; choose up to {MOST_PAIRS} with "
            f"--pair: {', '.join(str(problem.pairs[i]) for i in found)}"
        )
    return found


def planned_legs(grid: LegGrid, start: int, pairs: Sequence[int], ways: Callable[[int, int], bool]) -> list[tuple[LegKey, int]]:
    """Every leg to record with its epochs, those before it first; `ways(i, j)`: whether j may follow i."""
    legs: list[tuple[LegKey, int]] = []

    def branch(before: Way, pair: int, depth: int) -> None:
        epochs = grid.lengths[min(depth, len(grid.lengths) - 1)]
        legs.append((LegKey(before, pair), epochs))
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


class AtlasTrainer:
    """Trains legs of one seed; checkpoints are remembered as long as there is room."""

    def __init__(self, scenario: Scenario, seed: int, folder: Path | None = None) -> None:
        setup = TrainingSetup.from_scenario(of_seed(scenario, seed), folder=folder or scenario.folder)
        self.runner = TorchRunner(setup, InProcess(setup))
        self.pairs, self.start = scenario.problem.pairs, scenario.problem.start
        self.metric = scenario.problem.target.metric
        self.legs: dict[LegKey, AtlasLeg] = {}
        self._kept: OrderedDict[tuple[LegKey, int], Any] = OrderedDict()
        self._bytes = 0
        self.trained = 0

    def leg(self, key: LegKey, epochs: int) -> AtlasLeg:
        """The leg, trained up to `epochs` at least."""
        leg = self.legs.get(key)
        if leg is None or len(leg.losses) < epochs:
            self.checkpoint(key, epochs)
        return self.legs[key]

    def checkpoint(self, key: LegKey, epochs: int) -> Any:
        """The network after so many epochs of a leg."""
        done = epochs
        while done and (key, done) not in self._kept:
            done -= 1
        at = self._kept.get((key, done)) if done else None
        if at is None:
            at = self._begin(key)
        else:
            self._kept.move_to_end((key, done))
        leg, pair, before = self.legs[key], self.pairs[key.pair], sum(count for _, count in key.before)
        for epoch in range(done + 1, epochs + 1):
            result = self.runner.run_epoch(_decision(before + epoch, pair), at, run="atlas")
            at = result.checkpoint
            self.trained += 1
            if len(leg.losses) < epoch:
                leg.losses.append(result.outcome.loss)
            self._keep((key, epoch), at)
        return at

    def _begin(self, key: LegKey) -> Any:
        """The network at the beginning of a leg: handed over from the leg before, or the first one."""
        if key.before:
            (pair, epochs), way = key.before[-1], key.before[:-1]
            at, came = self.checkpoint(LegKey(way, pair), epochs), self.pairs[pair]
        else:
            at, came = self.runner.first(), self.pairs[self.start]
        told: Mapping[str, Any] = {}
        if key.before or key.pair != self.start:
            epoch = sum(count for _, count in key.before) + 1
            handed = self.runner.hand_over(at, came, _decision(epoch, self.pairs[key.pair]), self._earlier(key))
            at = handed.checkpoint
            told = {"kind": handed.kind, "reached_ratio": handed.reached_ratio, **handed.probe}
        if key not in self.legs:
            start = self.runner.probe(at).metric(self.metric)
            self.legs[key] = AtlasLeg(start, [], {name: value for name, value in told.items() if value is not None})
        return at

    def _earlier(self, key: LegKey) -> Callable[[str], Any]:
        def last_of(version: str) -> Any:
            for index in reversed(range(len(key.before))):
                pair, epochs = key.before[index]
                if self.pairs[pair].version == version:
                    return self.checkpoint(LegKey(key.before[:index], pair), epochs)
            return self.runner.first() if self.pairs[self.start].version == version else None

        return last_of

    def _keep(self, key: tuple[LegKey, int], checkpoint: Any) -> None:
        self._kept[key] = checkpoint
        self._bytes += _bytes_of(checkpoint)
        while self._bytes > MOST_REMEMBERED_BYTES and len(self._kept) > 1:
            self._bytes -= _bytes_of(self._kept.popitem(last=False)[1])

    def close(self) -> None:
        """End what the runner has begun."""
        self.runner.close()


def _bytes_of(checkpoint: Checkpoint) -> int:
    return sum(tensor.nbytes for part in (checkpoint.weights, checkpoint.optimizer) for tensor in part.values())


def _decision(epoch: int, pair: Pair) -> Decision:
    return Decision(epoch, pair.version, pair.nodes)


def empty_atlas(scenario: Scenario) -> Atlas:
    """Of a scenario, with no seed yet."""
    import torch

    problem = scenario.problem
    meta = {"torch": torch.__version__, "machine": platform.machine()}
    return Atlas(scenario.name, problem.pairs, problem.start, digest_of(scenario), problem.target.metric, meta)


def record(
    scenario: Scenario,
    path: Path,
    grid: LegGrid,
    *,
    seeds: Iterable[int],
    workers: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Atlas, int]:
    """Train what is not there yet and write the atlas after every seed; gives it and the epochs trained now."""
    wanted = sorted(set(seeds))
    atlas = empty_atlas(scenario)
    if is_regular(path):
        held = read_atlas(path)
        if held.digest != atlas.digest or held.pairs != atlas.pairs:
            raise UsageError(f"{path}: holds an atlas of other data, versions or training; choose another file")
        atlas = held
    legs = legs_of(scenario, grid)
    left = [seed for seed in wanted if not _holds(atlas, seed, legs)]
    total, done, trained = len(wanted) * sum(epochs for _, epochs in legs), 0, 0
    done = total - len(left) * sum(epochs for _, epochs in legs)
    if progress is not None:
        progress(done, total)
    for seed, answer in _trained(scenario, legs, left, min(workers, len(left))):
        new = empty_atlas(scenario)
        new.seeds[seed] = {
            LegKey(tuple((p, n) for p, n in before), pair): AtlasLeg(start, losses, handed)
            for before, pair, start, losses, handed in answer
        }
        atlas.merge(new)
        atlas.save(path)
        trained += sum(epochs for _, epochs in legs)
        if progress is not None:
            progress(done + trained, total)
    return atlas, trained


def legs_of(scenario: Scenario, grid: LegGrid) -> list[tuple[LegKey, int]]:
    """What a recording of `grid` trains, for one seed."""
    setup = TrainingSetup.from_scenario(scenario)
    costs = possible_changes(setup, scenario.problem, scenario.costs)
    pairs = possible_pairs(scenario, setup, grid.pairs)
    return planned_legs(grid, scenario.problem.start, pairs, lambda i, j: math.isfinite(costs.epoch_s[i, j]))


def _holds(atlas: Atlas, seed: int, legs: Sequence[tuple[LegKey, int]]) -> bool:
    return all((leg := atlas.leg(seed, key)) is not None and len(leg.losses) >= epochs for key, epochs in legs)


def _trained(
    scenario: Scenario, legs: Sequence[tuple[LegKey, int]], seeds: Sequence[int], workers: int
) -> Iterator[tuple[int, list[Any]]]:
    """Every seed with its legs, as they are done."""
    if not seeds:
        return
    folder = None if scenario.folder is None else str(scenario.folder)
    opening = {"scenario": dict(scenario.resolved), "folder": folder, "legs": legs}
    waiting = list(seeds)
    with Crew("campaigns.atlas_recording", opening, workers) as crew:
        running = 0
        while waiting or running:
            for number in crew.idle:
                if waiting:
                    crew.give(number, waiting.pop(0))
                    running += 1
            try:
                seed, answer = crew.take()
            except WorkerEnded as ended:
                raise RelayTrainError(f"atlas: a worker ended in seed {ended.task}; run it again to go on") from None
            running -= 1
            yield int(seed), answer


def worker(opening: Mapping[str, Any]) -> Callable[[int], list[Any]]:
    """Trains all legs of a seed."""
    import torch

    torch.set_num_threads(1)
    scenario = load_scenario(opening["scenario"])
    folder = None if opening["folder"] is None else Path(opening["folder"])
    legs = [(LegKey(tuple((p, n) for p, n in before), pair), epochs) for (before, pair), epochs in opening["legs"]]

    def work(seed: int) -> list[Any]:
        trainer = AtlasTrainer(scenario, seed, folder)
        for key, epochs in legs:
            trainer.leg(key, epochs)
        trainer.close()
        return [[key.before, key.pair, leg.start, leg.losses, dict(leg.handed)] for key, leg in trainer.legs.items()]

    return work

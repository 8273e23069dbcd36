"""The smart factory with measured losses: relays that were trained, interpolated in the epochs at which they switched.

L is the full network on gold, M the one with half of it pruned away on silver, S that with three quarters pruned away
on bronze. A campaign trained M after some K1 epochs of L, and S after some K2 epochs of M (or straight after L: K2 =
0). A leg that starts in between has the losses in between, on a logarithmic scale; outside the range of K1 and K2 the
nearest one's. Beyond the epochs that were trained a leg goes on as an inverse square root through its last eight
losses.

So the world knows what no planner's law does: how a leg goes depends on all that was trained before it. Losses are
divided by l(0), as the paper's begin at 1; every strategy starts with the least K1 of the campaign on L.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array
from ...core.errors import ScenarioError
from ...core.state import TOLERANCE
from ...estimators.learned.bundle import Bundle, LegCurve
from ...estimators.learned.features import sqrt_ahead, sqrt_rate
from ...estimators.learned.pair_facts import Facts
from ...scenario import Scenario
from .smart_factory_runs import Trace, factory

LONGEST = 400
"""Epochs of a leg at most."""
MOST_L, MOST_M = 60, 80
"""Epochs on L and on M that the benchmarks may choose."""
TAIL = 8
HOME = {"L": ("gold", 0.0), "M": ("silver", 0.5), "S": ("bronze", 0.75)}
MARGIN, WIDER = 0.05, 1.5
"""StaticLearn's gains may differ by this share of the whole fall; wider where whole epochs allow nothing."""


@dataclass(frozen=True)
class Replay:
    """One seed's world. Row 0 of a leg is the forward loss after the switch, row j the loss after its j-th epoch."""

    seed: int
    initial_loss: float
    k1: Array
    k2: Array
    on_l: Array  # (LONGEST + 1,)
    on_m: Array  # (len(k1), LONGEST + 1)
    on_s: Array  # (len(k1), len(k2), LONGEST + 1)
    facts: tuple[Facts, ...]
    measured: tuple[int, int, int]
    """Epochs that were trained: of L, of each M, of the shortest S."""

    @property
    def first(self) -> int:
        """Epochs on L that every strategy starts with."""
        return int(self.k1[0])

    def leg(self, version: str, k1: int, k2: int = 0) -> Array:
        """The losses (LONGEST + 1,) of a version after `k1` epochs of L and `k2` of M."""
        if version == "L":
            return self.on_l
        i, j, share = _between(self.k1, k1)
        if version == "M":
            return _mixed(self.on_m[i], self.on_m[j], share)
        rows = _mixed(self.on_s[i], self.on_s[j], share)
        a, b, other = _between(self.k2, k2)
        return _mixed(rows[a], rows[b], other)

    @cached_property
    def m_legs(self) -> Array:
        """Of M for every K1 from `first` to MOST_L."""
        return np.stack([self.leg("M", k1) for k1 in range(self.first, MOST_L + 1)])

    @cached_property
    def s_legs(self) -> Array:
        """Of S for every such K1 and every K2 from 0 to MOST_M."""
        return np.stack([[self.leg("S", k1, k2) for k2 in range(MOST_M + 1)] for k1 in range(self.first, MOST_L + 1)])


def replay_of(bundle: Bundle, seed: int) -> Replay:
    """The world of one seed of a campaign.

    Raises:
        ScenarioError: the campaign did not train such legs.
    """
    mine = [c for c in bundle.curves if c.seed == seed]
    root = [c for c in mine if c.stage == 0 and _at_home(c, "L")]
    legs = {c.epoch: c for c in mine if c.stage == 1 and _at_home(c, "M")}
    by_run = {c.run: k1 for k1, c in legs.items()}
    ends: dict[tuple[int, int], LegCurve] = {}
    for c in mine:
        if not _at_home(c, "S"):
            continue
        if c.stage == 1:
            ends[c.epoch, 0] = c
        elif c.parent in by_run:
            ends[by_run[c.parent], c.epoch - by_run[c.parent]] = c
    k2s = sorted({k2 for _, k2 in ends})
    k1s = sorted(k1 for k1 in legs if all((k1, k2) in ends for k2 in k2s))
    if not root or not k1s or not k2s:
        raise ScenarioError(
            f"traces of seed {seed}: got no legs of the full network on gold, half of it on silver and a quarter of it "
            "on "
            "bronze, expected those of `relaytrain collect --preset v16s`"
        )
    used = (root[0], legs[k1s[0]], ends[k1s[0], k2s[-1]])
    return Replay(
        seed,
        float(root[0].start or root[0].losses[0]),
        np.array(k1s, dtype=np.float64),
        np.array(k2s, dtype=np.float64),
        _extended(root[0]),
        np.stack([_extended(legs[k1]) for k1 in k1s]),
        np.stack([[_extended(ends[k1, k2]) for k2 in k2s] for k1 in k1s]),
        tuple((c.classes, c.samples, c.pruned) for c in used),
        (len(root[0].losses), min(len(legs[k].losses) for k in k1s), min(len(c.losses) for c in ends.values())),
    )


def _at_home(curve: LegCurve, version: str) -> bool:
    nodes, pruned = HOME[version]
    straight = all(step.split()[1] == "prune" for step in curve.configuration)
    return curve.node_set == nodes and abs(curve.pruned - pruned) < 0.01 and straight


def _extended(curve: LegCurve) -> Array:
    """The leg with its forward loss before it and its tail behind it."""
    losses = np.asarray(curve.losses, dtype=np.float64)
    rate = sqrt_rate(losses[None, :], last=TAIL)
    ahead = np.arange(1, LONGEST - len(losses) + 1, dtype=np.float64)
    return np.concatenate([[curve.start or losses[0]], losses, sqrt_ahead(losses[-1:], rate, ahead)])


def _between(grid: Array, value: float) -> tuple[int, int, float]:
    place = float(np.interp(value, grid, np.arange(len(grid))))
    low = int(place)
    return low, min(low + 1, len(grid) - 1), place - low


def _mixed(one: Array, other: Array, share: float) -> Array:
    return np.asarray(np.exp((1.0 - share) * np.log(one) + share * np.log(other)))


def place(world: Replay, target: float) -> Scenario:
    """The smart factory's costs and deadline with this world's l(0) and `target` times it as l_max, in nats."""
    where = factory(target * world.initial_loss)
    return replace(where, problem=replace(where.problem, initial_loss=world.initial_loss))


def replayed(name: str, world: Replay, where: Scenario, versions: Sequence[str]) -> Trace:
    """What comes of training these versions, one an epoch; stops at the target."""
    pairs = [pair.version for pair in where.problem.pairs]
    done = dict.fromkeys(pairs, 0)
    at, kept, losses, times, costs = pairs[where.problem.start], ["L"], [1.0], [0.0], [0.0]
    goal = where.problem.target.loss + TOLERANCE
    for version in versions:
        old, now = pairs.index(at), pairs.index(version)
        done[version] += 1
        loss = float(world.leg(version, done["L"], done["M"])[done[version]])
        times.append(times[-1] + float(where.costs.epoch_s[old, now]))
        costs.append(costs[-1] + float(where.costs.epoch_j[old, now]))
        losses.append(loss / world.initial_loss)
        kept.append(version)
        at = version
        if loss <= goal:
            break
    reached = losses[-1] * world.initial_loss <= goal and times[-1] <= where.problem.target.deadline_s + TOLERANCE
    return Trace(name, tuple(kept), tuple(losses), tuple(times), tuple(costs), reached)


def benchmarks(world: Replay, target: float) -> dict[str, Trace]:
    """Optimum, OneSwitch and StaticLearn at their best, by trying every number of epochs on L, M and S."""
    where = place(world, target)
    goal = where.problem.target.loss + TOLERANCE
    tried = _tried(world, where, goal)
    traces = {}
    for name, kinds in (("Optimum", ("L", "LM", "LS", "LMS")), ("OneSwitch", ("L", "LM", "LS"))):
        best = min((one for kind in kinds for one in tried[kind][:1]), key=lambda one: one[0], default=None)
        traces[name] = _followed(name, world, where, best)
    margin, chosen = MARGIN, None
    while chosen is None and margin < 1.0 and tried["LMS"]:
        chosen = next((one for one in tried["LMS"] if _spread(world, one) <= margin), None)
        margin *= WIDER
    traces["StaticLearn"] = _followed("StaticLearn", world, where, chosen)
    return traces


Counts = tuple[float, int, int, int]
"""Cost, and epochs on L, M and S."""


def _tried(world: Replay, where: Scenario, goal: float) -> dict[str, list[Counts]]:
    """Every way that ends at the goal in time by the versions it uses, cheapest first."""
    joules, seconds, deadline = where.costs.epoch_j, where.costs.epoch_s, where.problem.target.deadline_s + TOLERANCE
    l, m, s = (next(i for i, p in enumerate(where.problem.pairs) if p.version == v) for v in "LMS")

    def charged(table: Array, k1: int, k2: int, k3: int) -> float:
        total, before = k1 * table[l, l], l
        for now, count in ((m, k2), (s, k3)):
            if count:
                total, before = total + table[before, now] + (count - 1) * table[now, now], now
        return float(total)

    ways: dict[str, list[Counts]] = {"L": [], "LM": [], "LS": [], "LMS": []}

    def keep(kind: str, k1: int, k2: int, k3: int) -> None:
        if charged(seconds, k1, k2, k3) <= deadline:
            ways[kind].append((charged(joules, k1, k2, k3), k1, k2, k3))

    alone = _first_below(world.on_l[None, :], goal)[0]
    if alone:
        keep("L", int(alone), 0, 0)
    on_m, on_s = _first_below(world.m_legs, goal), _first_below(world.s_legs, goal)
    for row in range(len(on_m)):
        k1 = world.first + row
        if alone and k1 >= alone:
            break  # met before
        if on_m[row]:
            keep("LM", k1, int(on_m[row]), 0)
        for k2 in range(MOST_M + 1):
            if on_m[row] and k2 >= on_m[row]:
                break
            if on_s[row, k2]:
                keep("LMS" if k2 else "LS", k1, k2, int(on_s[row, k2]))
    return {kind: sorted(counts) for kind, counts in ways.items()}


def _first_below(legs: Array, goal: float) -> NDArray[np.int64]:
    """The first epoch after which a leg is at the goal; 0 for none."""
    below = legs[..., 1:] <= goal
    return np.where(below.any(axis=-1), below.argmax(axis=-1) + 1, 0)


def _spread(world: Replay, way: Counts) -> float:
    """How far the gains of L, M and S (jumps left out) lie apart, as a share of the whole fall."""
    _, k1, k2, k3 = way
    m, s = world.leg("M", k1), world.leg("S", k1, k2)
    gains = (world.initial_loss - world.on_l[k1], m[0] - m[k2], s[0] - s[k3])
    fall = world.initial_loss - s[k3]
    return float((max(gains) - min(gains)) / fall) if fall > 0 else math.inf


def _followed(name: str, world: Replay, where: Scenario, way: Counts | None) -> Trace:
    if way is None:
        return Trace(name, ("L",), (1.0,), (0.0,), (0.0,), reached=False)
    return replayed(name, world, where, ["L"] * way[1] + ["M"] * way[2] + ["S"] * way[3])

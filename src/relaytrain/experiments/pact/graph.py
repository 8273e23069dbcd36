"""The expanded graph of Algorithm 1, reachable part, vertex by vertex. Only to be drawn: planners never build it.

Paper: Alg. 1. Deviations: time and energy charge the new pair as (1) and (2) do (line 12 prints the old one); the loss
change is that of the epoch being executed (line 16 prints the one before); every feasible vertex is joined to Omega,
also one with no action left; the start is a vertex of its own at k = 0.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ...core.law import ROBUST_LEVEL, Level
from ...core.state import TOLERANCE, Grid
from ...scenario import Scenario

Kind = Literal["node", "model", "both", "neither", "goal"]
KINDS: tuple[Kind, ...] = ("node", "model", "both", "neither")


class Vertex(NamedTuple):
    """(k, m, n, l, T) with the pair's index for (m, n), and loss and time in steps of the grid."""

    epoch: int
    pair: int
    loss_index: int
    time_index: int


OMEGA = Vertex(-1, -1, -1, -1)
"""The virtual vertex behind all feasible ones."""


class Edge(NamedTuple):
    """An action with its energy (2), or, with kind "goal", the free edge from a feasible vertex to Omega."""

    source: Vertex
    target: Vertex
    energy: float
    kind: Kind


@dataclass(frozen=True)
class ExpandedGraph:
    """Vertices in the order they were reached and all edges between them."""

    start: Vertex
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]

    @property
    def feasible(self) -> frozenset[Vertex]:
        """The vertices joined to Omega."""
        return frozenset(edge.source for edge in self.edges if edge.kind == "goal")


def reachable_edges(where: Scenario, grid: Grid, level: Level = ROBUST_LEVEL) -> Iterator[Edge]:
    """The edges of Algorithm 1 that can be reached from the start, epoch by epoch."""
    problem, costs = where.problem, where.costs
    target = problem.target
    highest = grid.loss_index(problem.initial_loss if grid.loss_top is None else grid.loss_top)
    last_time, goal = grid.deadline_index(target.deadline_s), grid.goal_index(target.loss)
    seconds, joules = costs.epoch_s, costs.epoch_j
    layer = [Vertex(0, problem.start, grid.loss_index(problem.initial_loss), 0)]
    last_epoch = grid.time_index(target.deadline_s)
    for epoch in range(last_epoch + 1):
        following: dict[Vertex, None] = {}
        for vertex in layer:
            if vertex.loss_index <= goal:
                yield Edge(vertex, OMEGA, 0.0, "goal")
            loss = np.array([vertex.loss_index * grid.loss_step])
            for now in range(len(problem.pairs)):
                spent, energy = seconds[vertex.pair, now], joules[vertex.pair, now]
                if epoch == last_epoch or not (np.isfinite(spent) and np.isfinite(energy)):
                    continue
                landed = float(where.law.next_loss(epoch + 1, loss, vertex.pair, now, level)[0])
                arrival = vertex.time_index + grid.time_index(float(spent))
                if arrival > last_time or not np.isfinite(landed) or grid.loss_index(landed) > highest:
                    continue
                reached = Vertex(epoch + 1, now, grid.loss_index(landed), arrival)
                following[reached] = None
                yield Edge(vertex, reached, float(energy), kind_of(where, vertex.pair, now))
        layer = list(following)


def reachable_graph(where: Scenario, grid: Grid, level: Level = ROBUST_LEVEL) -> ExpandedGraph:
    """The reachable expanded graph as a whole."""
    edges = tuple(reachable_edges(where, grid, level))
    start = Vertex(0, where.problem.start, grid.loss_index(where.problem.initial_loss), 0)
    vertices = dict.fromkeys([start, *(edge.target for edge in edges if edge.kind != "goal")])
    return ExpandedGraph(start, tuple(vertices), edges)


def kind_of(where: Scenario, before: int, now: int) -> Kind:
    """Which of model and nodes an action changes."""
    (old_version, old_nodes), (version, nodes) = where.problem.pairs[before], where.problem.pairs[now]
    if version == old_version:
        return "neither" if nodes == old_nodes else "node"
    return "model" if nodes == old_nodes else "both"


def near_best(graph: ExpandedGraph, extra: float) -> tuple[Edge, ...]:
    """The edges on paths to Omega that cost at most `extra` more than the best, ending at the first feasible vertex."""
    inner = [edge for edge in graph.edges if edge.kind == "goal" or edge.source not in graph.feasible]
    done = _distances(inner, graph.start)
    to_go = _distances([Edge(e.target, e.source, e.energy, e.kind) for e in inner], OMEGA)
    limit = to_go[graph.start] + extra + TOLERANCE
    far = float("inf")
    return tuple(e for e in inner if done.get(e.source, far) + e.energy + to_go.get(e.target, far) <= limit)


def _distances(edges: Iterable[Edge], source: Vertex) -> dict[Vertex, float]:
    out: dict[Vertex, list[Edge]] = defaultdict(list)
    for edge in edges:
        out[edge.source].append(edge)
    least, queue = {source: 0.0}, [(0.0, source)]
    while queue:
        value, vertex = heapq.heappop(queue)
        if value > least[vertex]:
            continue
        for edge in out[vertex]:
            if value + edge.energy < least.get(edge.target, np.inf):
                least[edge.target] = value + edge.energy
                heapq.heappush(queue, (least[edge.target], edge.target))
    return least

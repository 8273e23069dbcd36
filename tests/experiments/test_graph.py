"""The drawn graph against networkx, against the planners, and against the rules of Algorithm 1."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import relaytrain as rt
from relaytrain.api import scenario
from relaytrain.core.state import Grid
from relaytrain.experiments.pact.fig5 import chosen_path
from relaytrain.experiments.pact.graph import KINDS, OMEGA, ExpandedGraph, Vertex, near_best, reachable_graph
from relaytrain.scenario import Scenario


@pytest.fixture(scope="module")
def toy() -> Scenario:
    return scenario("fig5")


@pytest.fixture(scope="module")
def grid(toy: Scenario) -> Grid:
    assert toy.planner.grid is not None
    return toy.planner.grid


@pytest.fixture(scope="module")
def graph(toy: Scenario, grid: Grid) -> ExpandedGraph:
    return reachable_graph(toy, grid)


def _networkx(graph: ExpandedGraph) -> nx.DiGraph:
    found = nx.DiGraph()
    found.add_weighted_edges_from((edge.source, edge.target, edge.energy) for edge in graph.edges)
    return found


def test_shortest_path_is_the_optimum(toy: Scenario, graph: ExpandedGraph) -> None:
    least = nx.shortest_path_length(_networkx(graph), graph.start, OMEGA, weight="weight")
    assert least == pytest.approx(0.9)
    assert least == pytest.approx(rt.plan("fig5", planner="optimum").energy_j)


def test_chosen_path_is_a_shortest_path(toy: Scenario, grid: Grid, graph: ExpandedGraph) -> None:
    path = [*chosen_path(toy, grid), OMEGA]
    assert nx.path_weight(_networkx(graph), path, "weight") == pytest.approx(0.9)


def test_graph_is_the_part_of_algorithm_1_that_can_be_reached(toy: Scenario, grid: Grid, graph: ExpandedGraph) -> None:
    """All vertices of lines 3-8, all edges of lines 10-20, written anew over whole steps; then what the start
    reaches."""
    run_steps, jump_steps = (-1, -2, -2, -4), 1
    times, costs = (2, 1, 3, 2), (0.2, 0.5, 0.15, 0.4)
    full = nx.DiGraph()
    for epoch, pair, loss, time in np.ndindex(16, 4, 13, 16):
        for now in range(4):
            model, node = pair // 2 != now // 2, pair % 2 != now % 2
            late = time + times[now] + (model or node)
            after = max(0, loss + jump_steps * model + run_steps[now])
            if late <= 15 and after <= 12 and epoch < 15:
                weight = costs[now] + 0.1 * (model + node)
                full.add_edge((epoch, pair, loss, time), (epoch + 1, now, after, late), weight=weight)
    start = (0, 0, 10, 0)
    reached = nx.descendants(full, start) | {start}
    assert set(map(tuple, graph.vertices)) == reached
    ours = {(tuple(e.source), tuple(e.target)): e.energy for e in graph.edges if e.kind != "goal"}
    theirs = {(u, v): w for u, v, w in full.subgraph(reached).edges(data="weight")}
    assert ours.keys() == theirs.keys()
    assert all(ours[key] == pytest.approx(theirs[key]) for key in ours)


def test_every_vertex_below_the_target_and_no_other_leads_to_omega(grid: Grid, graph: ExpandedGraph) -> None:
    assert graph.feasible == {vertex for vertex in graph.vertices if vertex.loss_index * grid.loss_step <= 0.25 + 1e-9}


def test_edges_are_of_the_kind_they_are_called(toy: Scenario, graph: ExpandedGraph) -> None:
    pairs = toy.problem.pairs
    for edge in graph.edges:
        if edge.kind == "goal":
            assert edge.target == OMEGA
            continue
        before, now = pairs[edge.source.pair], pairs[edge.target.pair]
        changed = (before.version != now.version, before.nodes != now.nodes)
        assert edge.kind == {(0, 1): "node", (1, 0): "model", (1, 1): "both", (0, 0): "neither"}[changed]
    assert {edge.kind for edge in graph.edges} == {*KINDS, "goal"}


def test_near_best_keeps_exactly_the_cheap_ways(graph: ExpandedGraph) -> None:
    inner = ExpandedGraph(
        graph.start,
        graph.vertices,
        tuple(e for e in graph.edges if e.kind == "goal" or e.source not in graph.feasible),
    )
    whole = _networkx(inner)
    done = nx.single_source_dijkstra_path_length(whole, graph.start)
    to_go = nx.single_source_dijkstra_path_length(whole.reverse(), OMEGA)
    for extra in (0.0, 0.15, 0.3):
        cheap = {
            (u, v)
            for u, v, w in whole.edges(data="weight")
            if u in done and v in to_go and done[u] + w + to_go[v] <= 0.9 + extra + 1e-9
        }
        assert {edge[:2] for edge in near_best(graph, extra)} == cheap


def test_impossible_changes_have_no_edge() -> None:
    factory = scenario("smart_factory", overrides=["target.deadline=4"])
    grid = Grid(0.05, 0.5, 1.2)
    graph = reachable_graph(factory, grid, "expected")
    moves = {(e.source.pair, e.target.pair) for e in graph.edges if e.kind != "goal"}
    assert moves == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}
    assert graph.start == Vertex(0, 0, 20, 0)

"""PACT's expanded graph, built literally (Alg. 1) and searched with networkx (Alg. 2): an oracle, slow on purpose.

Read as equations (1)-(3) say: an edge charges the new pair, at the epoch it executes; every vertex that meets the loss
is joined to Omega; the start is the single vertex of epoch 0; rounding forgives 1e-9.
"""

import math
from itertools import product

import networkx as nx

from relaytrain.testing.brute_force import plain_step

SLACK = 1e-9
OMEGA = "omega"


def up(value):
    return math.ceil(value - SLACK)


def expanded_graph(drawn, loss_step, time_step, loss_top):
    """The full vertex set {(k, pair, loss index, time index)} with all its edges; also the start vertex."""
    problem, costs, law = drawn.problem, drawn.costs, drawn.law
    deadline = problem.target.deadline_s
    last_epoch = up(deadline / time_step)
    if problem.max_epochs is not None:
        last_epoch = min(last_epoch, problem.max_epochs)
    pairs = range(len(problem.pairs))
    losses = range(up(loss_top / loss_step) + 1)
    times = range(math.floor(deadline / time_step + SLACK) + 1)
    goal = math.floor(problem.target.loss / loss_step + SLACK)
    start = (0, problem.start, max(0, up(problem.initial_loss / loss_step)), 0)
    graph = nx.DiGraph()
    graph.add_nodes_from([start, OMEGA])
    graph.add_nodes_from(product(range(1, last_epoch + 1), pairs, losses, times))
    for vertex in list(graph):
        if vertex == OMEGA:
            continue
        epoch, before, index, time = vertex
        if index <= goal:
            graph.add_edge(vertex, OMEGA, weight=0.0)
        for now in pairs:
            seconds = costs.change_s[before, now] + costs.run_s[now]
            joules = costs.change_j[before, now] + costs.run_j[now]
            landed = plain_step(law, epoch + 1, index * loss_step, before, now)
            if not math.isfinite(seconds + joules + landed):
                continue
            there = (epoch + 1, now, max(0, up(landed / loss_step)), time + up(seconds / time_step))
            if there in graph:
                graph.add_edge(vertex, there, weight=float(joules))
    return graph, start


def shortest(graph, start):
    """Weight of the shortest path from start to Omega; infinity when there is none."""
    try:
        return nx.dijkstra_path_length(graph, start, OMEGA)
    except nx.NetworkXNoPath:
        return math.inf

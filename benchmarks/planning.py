"""Planning speed, side by side in one run: our search against graph libraries and a dense dynamic program.

    python benchmarks/planning.py [--quick]

Every candidate gets the same law tables; graph libraries get a vectorised build of the reachable graph only. All
answers are checked to be equal before anything is timed. Times are CPU seconds, medians of interleaved repetitions.
"""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace

import numpy as np
from machine import calibrated, median_s

import relaytrain as rt
from relaytrain.api import scenario
from relaytrain.core.cost import CostTable
from relaytrain.core.law import EpochLaw, LevelLaw
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.core.state import Grid, State
from relaytrain.planners.pact.planner import Optimum, Pact
from relaytrain.planners.search.dense import dense
from relaytrain.planners.search.solve import SearchInstance, Start, instance_of, solve
from relaytrain.scenario import preset_names

QUICK = "--quick" in sys.argv
EVERY = slice(None)


def random_problem(rng, pairs, deadline, *, kind, epochs=100, goal=0.25):
    """Larger versions cost more and learn faster; a handover costs a little and lifts the loss a little."""
    size = np.sort(rng.uniform(0.15, 1.0, pairs))[::-1]
    seconds, joules = 0.4 + 0.9 * size + rng.uniform(0, 0.1, pairs), size**1.5 + rng.uniform(0, 0.05, pairs)
    off = 1.0 - np.eye(pairs)
    costs = CostTable(
        seconds, off * rng.uniform(0.1, 0.5, (pairs, pairs)), joules, off * rng.uniform(0.1, 0.5, (pairs, pairs))
    )
    names = tuple(Pair(f"v{i}", f"n{i}") for i in range(pairs))
    if kind == "epoch":
        gain = (
            (0.008 + 0.014 * size)[None, :] * (1 + 1.5 * np.arange(epochs) / epochs)[:, None] ** -0.5 * (100 / epochs)
        )
        law = EpochLaw(-gain * rng.uniform(0.8, 1.2, gain.shape), off[None] * rng.uniform(0.0, 0.03, (1, pairs, pairs)))
    else:
        curves = np.column_stack([0.22 * size, 1 - 0.22 * size, 3 + 40 * (1 - size), np.full(pairs, 1.3)])
        law = LevelLaw(
            curves, off * rng.uniform(0.005, 0.03, (pairs, pairs)), off * 0.02, np.ones((1, pairs)), loss_top=1.3
        )
    return (
        Problem("bench", names, 0, 1.0, Target(goal, deadline), max_epochs=epochs if kind == "epoch" else None),
        costs,
        law,
    )


def layered_problem(times, cells):
    """Three pairs of 1, 2 and 3 time steps, gains of one to six loss steps an epoch: most of the grid is reachable."""
    rng = np.random.default_rng(7)
    off = 1.0 - np.eye(3)
    costs = CostTable(np.array([3.0, 2.0, 1.0]), off * 1.0, np.array([1.0, 0.55, 0.2]), off * 0.3)
    gains = np.array([5.0, 3.2, 1.4])[None, :] * rng.uniform(0.6, 1.2, (times, 3)) / cells
    law = EpochLaw(-gains, off[None] * 2.0 / cells)
    names = tuple(Pair(f"v{i}", f"n{i}") for i in range(3))
    return Problem("layers", names, 0, 1.0, Target(0.45, float(times)), max_epochs=times), costs, law


def reachable_graph(instance: SearchInstance, start: Start):
    """States (epoch, pair, loss, time) reachable from the start, layer by layer with numpy, and their edges."""
    pairs, cells, times = len(instance.seconds), instance.form.table.shape[3], int(instance.deadline) + 1
    steps = instance.seconds.astype(np.int64)
    layer = np.array([[start.pair, int(start.loss), int(start.elapsed_s)]])
    offset, sources, targets, weights, goals = 0, [], [], [], []
    for epoch in range(instance.epochs):
        goals.append(offset + np.flatnonzero(layer[:, 1] <= instance.goal))
        open_rows = np.flatnonzero(layer[:, 1] > instance.goal)
        if len(open_rows) == 0:
            break
        p, i, t = layer[open_rows].T
        table = instance.form.table[min(epoch, len(instance.form.table) - 1)]
        found, rows, costs = [], [], []
        for q in range(pairs):
            landed, late = table[p, q, i], t + steps[p, q]
            good = np.isfinite(landed) & (late < times)
            found.append((q * cells + landed[good].astype(np.int64)) * times + late[good])
            rows.append(open_rows[good])
            costs.append(instance.joules[p[good], q])
        keys, rows, costs = np.concatenate(found), np.concatenate(rows), np.concatenate(costs)
        unique, inverse = np.unique(keys, return_inverse=True)
        sources.append(offset + rows)
        targets.append(offset + len(layer) + inverse)
        weights.append(costs)
        offset += len(layer)
        layer = np.column_stack([unique // (cells * times), unique // times % cells, unique % times])
    else:
        goals.append(offset + np.flatnonzero(layer[:, 1] <= instance.goal))
    return (
        offset + len(layer),
        np.concatenate(sources),
        np.concatenate(targets),
        np.concatenate(weights),
        np.concatenate(goals),
    )


def by_scipy(instance, start):
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    count, sources, targets, weights, goals = reachable_graph(instance, start)
    return dijkstra(csr_matrix((weights, (sources, targets)), shape=(count, count)), indices=0)[goals].min()


def by_rustworkx(instance, start):
    import rustworkx as rx

    count, sources, targets, weights, goals = reachable_graph(instance, start)
    graph = rx.PyDiGraph()
    graph.add_nodes_from(range(count + 1))
    graph.add_edges_from(list(zip(sources.tolist(), targets.tolist(), weights.tolist(), strict=True)))
    graph.add_edges_from([(int(g), count, 0.0) for g in goals])
    return rx.dijkstra_shortest_path_lengths(graph, 0, float, goal=count)[count]


def by_networkx(instance, start):
    import networkx as nx

    count, sources, targets, weights, goals = reachable_graph(instance, start)
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(zip(sources.tolist(), targets.tolist(), weights.tolist(), strict=True))
    graph.add_weighted_edges_from((int(g), count, 0.0) for g in goals)
    return nx.dijkstra_path_length(graph, 0, count)


def literal_networkx(instance, start):
    """Alg. 1-2 as printed: every vertex of the full grid, scalar law lookups, then Dijkstra to Omega."""
    import networkx as nx

    graph = nx.DiGraph()
    pairs, cells, times = len(instance.seconds), instance.form.table.shape[3], int(instance.deadline) + 1
    for epoch in range(instance.epochs + 1):
        table = instance.form.table[min(epoch, len(instance.form.table) - 1)]
        for p in range(pairs):
            for i in range(cells):
                for t in range(times):
                    if i <= instance.goal:
                        graph.add_edge((epoch, p, i, t), "omega", weight=0.0)
                        continue
                    if epoch == instance.epochs:
                        continue
                    for q in range(pairs):
                        late, landed = t + instance.seconds[p, q], table[p, q, i]
                        if late < times and landed < cells:
                            graph.add_edge(
                                (epoch, p, i, t), (epoch + 1, q, int(landed), int(late)), weight=instance.joules[p, q]
                            )
    return nx.dijkstra_path_length(graph, (0, start.pair, int(start.loss), 0), "omega")


def cold(instance: SearchInstance, start: Start):
    """A solve with nothing but the law tables at hand."""
    return solve(replace(instance, tables={}), start)


def gridded(problem, costs, law, cells, steps):
    grid = Grid(1.2 / cells, problem.target.deadline_s / steps, 1.2)
    instance = instance_of(problem, costs, law, grid=grid)
    return instance, Start(0, 0, float(grid.loss_index(1.0)), 0.0)


def graphs():
    print(
        "\nGridded, epoch tables, slack deadline: ours against graph libraries on the reachable graph (law tables "
        "given to all)"
    )
    print("  pairs,time,loss    states     ours ms   rustworkx    scipy   networkx")
    for pairs, times, cells in ((3, 30, 60), (3, 45, 80), (3, 55, 95)):
        problem, costs, law = layered_problem(times, cells)
        instance, start = gridded(problem, costs, law, cells, times)
        states = reachable_graph(instance, start)[0]
        answer = cold(instance, start)
        candidates = {
            "ours": lambda i=instance, s=start: cold(i, s),
            "rustworkx": lambda i=instance, s=start: by_rustworkx(i, s),
            "scipy": lambda i=instance, s=start: by_scipy(i, s),
            "networkx": lambda i=instance, s=start: by_networkx(i, s),
        }
        for name in ("rustworkx", "scipy", "networkx"):
            assert abs(candidates[name]() - answer.energy_j) < 1e-6, name
        taken = median_s(candidates, 3 if QUICK else 5)
        ratios = "   ".join(f"{taken[n] / taken['ours']:7.0f}x" for n in ("rustworkx", "scipy", "networkx"))
        print(f"  {pairs},{times},{cells:<12} {states:>8}  {taken['ours'] * 1e3:9.3f}  {ratios}")
    problem, costs, law = random_problem(np.random.default_rng(7), 3, 20.0, kind="epoch", epochs=20, goal=0.6)
    instance, start = gridded(problem, costs, law, 25, 20)
    assert abs(literal_networkx(instance, start) - cold(instance, start).energy_j) < 1e-6
    taken = median_s({"ours": lambda: cold(instance, start), "literal": lambda: literal_networkx(instance, start)}, 3)
    print(
        "  literal full graph in networkx (3 pairs, 20 epochs, 20 times, 26 losses): "
        f"{taken['literal'] / taken['ours']:.0f}x ours"
    )


def by_dense(instance, start):
    every = np.ones(len(instance.joules), np.bool_)
    costs = (instance.seconds, instance.joules)
    path = dense(instance.form, costs, int(instance.goal), (start.pair, int(start.loss), int(instance.deadline)), every)
    before = np.concatenate(([start.pair], path[:-1])).astype(np.int64)
    return float(instance.joules[before, path].sum())


def deadlines():
    print(
        "\nGridded, no epoch index, deadline half way between quickest and cheapest: ours against the dense k-free "
        "program"
    )
    ratios = []
    rng = np.random.default_rng(11)
    count = 8 if QUICK else 24
    while len(ratios) < count:
        pairs, steps, cells = ((3, 200, 400), (6, 400, 1000), (3, 1000, 2000), (9, 600, 1200))[len(ratios) % 4]
        problem, costs, law = random_problem(rng, pairs, 1e4, kind="level", goal=rng.uniform(0.12, 0.35))
        free, there = instance_of(problem, costs, law), Start(0, 0, 1.0, 0.0)
        cheap = solve(free, there)
        timed = replace(free, joules=free.seconds, tables={})
        quick = solve(timed, there)
        if not cheap.feasible or cheap.elapsed_s - quick.elapsed_s < 2.0:
            continue
        middle = 0.5 * (cheap.elapsed_s + quick.elapsed_s)
        bound = replace(problem, target=replace(problem.target, deadline_s=middle))
        instance, start = gridded(bound, costs, law, cells, steps)
        answer = cold(instance, start)
        if not answer.feasible:
            continue
        assert abs(by_dense(instance, start) - answer.energy_j) < 1e-6, (by_dense(instance, start), answer)
        taken = median_s(
            {"ours": lambda i=instance, s=start: cold(i, s), "dense": lambda i=instance, s=start: by_dense(i, s)}, 3
        )
        ratios.append(taken["dense"] / taken["ours"])
        print(
            f"  {pairs},{steps},{cells:<6} ours {taken['ours'] * 1e3:8.2f} ms ({answer.labels} labels)  dense "
            f"{taken['dense'] * 1e3:8.2f} ms  {ratios[-1]:6.2f}x"
        )
    print(
        f"  speed against dense: least {min(ratios):.2f}x, median {np.median(ratios):.1f}x, most {max(ratios):.0f}x "
        f"over {len(ratios)} problems"
    )


def replanning():
    print("\nRe-plan with unchanged estimates against a cold solve (un-quantised)")
    for name, pairs, goal in (("3 pairs", 3, 0.1), ("9 pairs", 9, 0.08), ("30 pairs", 30, 0.08)):
        problem, costs, law = random_problem(np.random.default_rng(3), pairs, 1e4, kind="level", goal=goal)
        instance, start = instance_of(problem, costs, law), Start(0, 0, 1.0, 0.0)
        first = solve(instance, start)
        step = first.actions[0]
        later = Start(1, step, first.losses[0] * 1.01, first.elapsed_s * 0.01)
        taken = median_s(
            {"cold": lambda i=instance, s=start: cold(i, s), "again": lambda i=instance, s=later: solve(i, s)}
        )
        print(
            f"  {name:<9} {len(first.actions):>5} epochs: cold {taken['cold'] * 1e3:8.3f} ms, again "
            f"{taken['again'] * 1e3:7.3f} ms = 1/{taken['cold'] / taken['again']:.0f}"
        )


def whole_plans():
    print("\nrt.plan() complete: bands, probability, alternatives, bounds")
    for name in preset_names():
        loaded = scenario(name)
        taken = median_s({name: lambda s=loaded: rt.plan(s)})
        print(f"  {name:<16} {taken[name] * 1e3:8.2f} ms")
    problem, costs, law = random_problem(np.random.default_rng(5), 50, 1000.0, kind="level", goal=0.1)
    robust = replace(law, mult_robust=law.mult * 0.9)
    planner, state = Pact(), State(0, 1.0, 0.0, 0)
    plan = planner.plan(problem, costs, robust, state)
    taken = median_s({"big": lambda: planner.plan(problem, costs, robust, state)}, 3)
    print(
        f"  50 pairs, up to {int(1000 / costs.run_s.min())} epochs ({plan.summary()[:60]}...): "
        f"{taken['big'] * 1e3:.0f} ms"
    )
    problem, costs, law = random_problem(np.random.default_rng(5), 50, 1000.0, kind="epoch", epochs=1000, goal=0.1)
    taken = median_s({"big": lambda: planner.plan(problem, costs, law, state)}, 3)
    print(f"  50 pairs, 1000 epochs, epoch tables: {taken['big'] * 1e3:.0f} ms")


def growth():
    print("\nGrowth of a cold un-quantised solve (no epoch index; deadline 1.02x the cheapest plan's time, then 0.97x)")
    print("  pairs  goal   epochs    slack ms   bound ms   labels    peak MB")
    for pairs, goal in ((3, 0.3), (3, 0.2), (10, 0.2), (10, 0.08), (30, 0.08), (100, 0.08), (300, 0.08), (1000, 0.08)):
        if QUICK and pairs > 100:
            continue
        problem, costs, law = random_problem(np.random.default_rng(9), pairs, 1e5, kind="level", goal=goal)
        start = Start(0, 0, 1.0, 0.0)
        free = solve(instance_of(problem, costs, law), start)
        row = []
        for share in (1.02, 0.97):
            bound = replace(problem, target=replace(problem.target, deadline_s=free.elapsed_s * share))
            instance = instance_of(bound, costs, law)
            row.append(
                (
                    median_s({"x": lambda i=instance, s=start: cold(i, s)}, 3 if pairs < 300 else 1)["x"],
                    cold(instance, start),
                )
            )
        tracemalloc.start()
        cold(instance, start)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        print(
            f"  {pairs:>5}  {goal:<5} {len(free.actions):>6}  {row[0][0] * 1e3:10.2f} {row[1][0] * 1e3:10.2f} "
            f"{row[1][1].labels:>8}  {peak:8.1f}"
        )


def main() -> None:
    loaded = scenario("smart_factory")
    start = loaded.problem.first_state
    Optimum().plan(loaded.problem, loaded.costs, loaded.law, start)  # compiles what is not yet cached
    with calibrated():
        graphs()
        deadlines()
        replanning()
        whole_plans()
        growth()


if __name__ == "__main__":
    main()

"""DepL, one run: version selection, quantiles, allocation and whole plans against what they replace.

Every section prints what it asks for and whether it holds. Times are CPU seconds; ratios count, not milliseconds. The
problems are the paper's Table I with the stand-in curves of the committed cases, and seeded random ones. Version
selection and the paper's grid both begin with the instance alone: tables of losses, frequencies, bounds and edges are
made within the time measured, on either side. Splines of single variables' characteristic functions are kept by the
process (`core.distribution`) and are there for both. The grid's time is a median, too, where one run takes less than a
second. `python benchmarks/depl.py [versions] [quantiles] [allocation] [plans]` runs some of it, `--quick` at smaller
counts.
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import numpy as np
from machine import calibrated, median_s

from relaytrain.core.depl import DeplData, DeplNodeSet, DeplProblem, DeplVersion
from relaytrain.core.distribution import InverseGamma, StudentT, weighted_sum
from relaytrain.core.problem import Target
from relaytrain.planners.depl.allocation import allocate
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.planners.depl.exact.version_search import VersionSearch
from relaytrain.planners.depl.procedures import Options, plan_by
from relaytrain.scenario import load_scenario

QUICK = "--quick" in sys.argv
CASES = (
    ("alexnet", 13.0),
    ("alexnet", 9.0),
    ("alexnet", 5.0),
    ("mobilenet", 13.0),
    ("mobilenet", 9.0),
    ("mobilenet", 5.0),
)


def verdict(name: str, holds: bool) -> None:
    print(f"  {'holds' if holds else 'FALLS SHORT'}: {name}")


def paper_like(network: str, loss: float) -> DeplProblem:
    """Table I; A, B and the switches are stand-ins, the paper does not print them."""
    settings = load_scenario(f"depl_{network}", overrides=[f"target.loss={loss}"]).depl
    assert settings is not None
    return settings.instance


def versions() -> None:
    print("\nVersion selection against the paper's grid, eta = 200 (`merged`, at most 8,000 labels a layer)")
    print("  case            epochs f/i/s     cost   merged cost     S=2 ms     S=3 ms   merged s    S=2      S=3")
    fast, slow, cheaper, total_s = [], [], [], np.zeros(3)
    for network, loss in CASES[:2] if QUICK else CASES:
        instance = paper_like(network, loss)
        begin = time.process_time()
        grid = plan_by("merged", instance, Options(eta=200))
        merged_s = time.process_time() - begin
        calls = {f"{s}": lambda i=instance, s=s: VersionSearch(i, (0,), switches=s).best() for s in (2, 3)}
        if merged_s < 1.0:
            calls["merged"] = lambda i=instance: plan_by("merged", i, Options(eta=200))
        taken = median_s(calls, 3)
        merged_s = taken.get("merged", merged_s)
        best = VersionSearch(instance, (0,)).best()
        assert best is not None
        counts = "/".join(str(n) for n in np.bincount(best.versions, minlength=3))
        fast.append(merged_s / taken["2"])
        slow.append(merged_s / taken["3"])
        cheaper.append(best.cost <= grid.cost * (1 + 1e-9))
        print(
            f"  {network:<10}{loss:>4.0f}  {counts:>12} {best.cost:>10.3f}    {grid.cost / best.cost:.4f} x  "
            f"{taken['2'] * 1e3:9.2f}  {taken['3'] * 1e3:9.2f}  {merged_s:9.2f} {fast[-1]:7.0f}x {slow[-1]:7.0f}x"
        )
        total_s += np.array([merged_s, taken["2"], taken["3"]])
    print(
        f"  all of them: {total_s[0] / total_s[1]:.0f} times faster with up to 2 switches, "
        f"{total_s[0] / total_s[2]:.0f} with up to 3"
    )
    verdict("equal or lower cost on every case", all(cheaper))
    verdict(f"at least 50 times faster with up to 2 switches (least {min(fast):.0f})", min(fast) >= 50)
    verdict(f"at least 50 times faster with up to 3 switches, the default (least {min(slow):.0f})", min(slow) >= 50)


def quantiles() -> None:
    print("\nThe 99 % quantile of a sum of 40 epochs and 2 switches (nu = 5) against 10^6 samples")
    instance = paper_like("alexnet", 9.0)
    terms = instance.terms((0,), [0] * 6 + [1] * 17 + [2] * 17)
    label = weighted_sum(terms, 20.0)
    begin = time.process_time()
    rng = np.random.default_rng(1)
    sampled = np.quantile(20.0 + sum(factor * of.sample(rng, 1_000_000) for factor, of in terms), 0.99)
    sampling_s = time.process_time() - begin
    taken = median_s({"quantile": lambda: label.quantile(0.99), "sum": lambda: weighted_sum(terms, 20.0)}, 5)
    ratio, whole = sampling_s / taken["quantile"], sampling_s / (taken["quantile"] + taken["sum"])
    print(
        f"  exact {label.quantile(0.99):.6f} in {taken['quantile'] * 1e6:.0f} us ({taken['sum'] * 1e6:.0f} us to add "
        "up the terms), "
        f"sampled {sampled:.6f} in {sampling_s:.2f} s: {ratio:.0f}x, {whole:.0f}x with the adding up"
    )
    verdict("at least 10,000 times cheaper than 10^6 samples, given the label", ratio >= 10_000)


def tables(counts: tuple[int, ...], node_sets: int) -> np.ndarray:
    """All ways to give so many epochs of each kind to node sets, (n, kinds, node sets)."""

    def rows(total: int, parts: int) -> list[tuple[int, ...]]:
        if parts == 1:
            return [(total,)]
        return [(first, *rest) for first in range(total + 1) for rest in rows(total - first, parts - 1)]

    return np.array(list(itertools.product(*(rows(n, node_sets) for n in counts))), float)


def by_bisection(kinds, counts, node_sets, deadline_s, charge) -> float:
    """The least cost over all assignments, the multiplier of each by bisection: no formula of the planner's."""
    table = tables(counts, len(node_sets))
    work, size = (np.array(column, float)[:, None] for column in zip(*kinds, strict=True))
    capability, bandwidth, price = (
        np.array([getattr(c, n) for c in node_sets]) for n in ("capability", "bandwidth", "price")
    )
    low, high = np.full(len(table), 1e-6), np.full(len(table), 1e6)
    for _ in range(70):
        q = np.sqrt(low * high)[:, None, None]
        x = np.minimum(capability, q * np.sqrt(work / price))
        late = (table * (work / x + size / bandwidth)).sum(axis=(1, 2)) > deadline_s
        low, high = np.where(late, np.sqrt(low * high), low), np.where(late, high, np.sqrt(low * high))
    x = np.minimum(capability, high[:, None, None] * np.sqrt(work / price))
    slowest = (table * (work / capability + size / bandwidth)).sum(axis=(1, 2))
    cost = (table * price * x).sum(axis=(1, 2)) + (table.sum(axis=1) > 0) @ np.asarray(charge)
    return float(np.where(slowest <= deadline_s * (1 + 1e-12), cost, math.inf).min())


def by_highs(epochs, node_sets, deadline_s, levels: int = 16) -> float:
    """A mixed-integer program: node set and one of 16 resource levels for each epoch."""
    from scipy.optimize import LinearConstraint, milp

    cost, seconds, rows = [], [], []
    for k, (work, size) in enumerate(epochs):
        for c in node_sets:
            for share in np.geomspace(0.05, 1.0, levels):
                cost.append(c.price * share * c.capability)
                seconds.append(work / (share * c.capability) + size / c.bandwidth)
                rows.append(k)
    once = np.zeros((len(epochs), len(cost)))
    once[rows, np.arange(len(cost))] = 1.0
    limits = [LinearConstraint(once, 1.0, 1.0), LinearConstraint(np.array([seconds]), -np.inf, deadline_s)]
    options = {"time_limit": 60.0, "mip_rel_gap": 1e-4}
    return float(
        milp(np.array(cost), constraints=limits, integrality=np.ones(len(cost)), bounds=(0, 1), options=options).fun
    )


def allocation() -> None:
    print("\nAllocation of node sets and resources")
    rng = np.random.default_rng(17)
    ratios = []
    for i in range(30 if QUICK else 120):
        kinds = [(rng.uniform(0.6, 2.6), rng.uniform(0.02, 0.5)) for _ in range(3)]
        node_sets = [
            DeplNodeSet(str(n), rng.uniform(30, 120), rng.uniform(1, 40), rng.uniform(0.6, 1.6)) for n in range(3)
        ]
        charge = rng.uniform(0, 20, 3) * (i % 2)
        epochs = [kinds[k] for k in (0, 0, 1, 1, 2, 2)]
        deadline_s = rng.uniform(1.01, 2.5) * sum(
            min(c / n.capability + s / n.bandwidth for n in node_sets) for c, s in epochs
        )
        best = by_bisection(kinds, (2, 2, 2), node_sets, deadline_s, charge)
        ratios.append(allocate(epochs, node_sets, deadline_s, charge).cost / best)
    print(
        f"  {len(ratios)} random ones (3 node sets, 6 epochs, half with data charges): cost / brute force at most "
        f"{max(ratios):.9f}"
    )
    verdict("at most 1.001 times brute force", max(ratios) <= 1.001)
    epochs = [(2.6, 0.5)] * 20 + [(1.4, 0.25)] * 20 + [(1.0, 0.1)] * 20
    table_one = [DeplNodeSet("A", 100, 20, 1.0), DeplNodeSet("B", 50, 20, 1.2)]
    mixed = [
        DeplNodeSet("a", 100, 40, 1.3),
        DeplNodeSet("b", 50, 60, 0.8),
        DeplNodeSet("c", 70, 9, 0.7),
        DeplNodeSet("d", 30, 80, 0.5),
    ]
    gaps, speeds = [], []
    for name, node_sets in (("paper", table_one), ("mixed", mixed)):
        least = sum(min(c / n.capability + s / n.bandwidth for n in node_sets) for c, s in epochs)
        for stretch in (1.3,) if QUICK else (1.1, 1.5, 2.5):
            found = allocate(epochs, node_sets, stretch * least, [0.0] * len(node_sets))
            gaps.append(found.cost / found.dual_bound)
            taken = median_s({"ours": lambda c=node_sets, t=stretch * least: allocate(epochs, c, t, [0.0] * len(c))}, 3)
            begin = time.process_time()
            grid = by_highs(epochs, node_sets, stretch * least)
            highs_s = time.process_time() - begin
            speeds.append(highs_s / taken["ours"])
            print(
                f"  60 epochs, {name}, deadline {stretch} x the quickest: cost / dual bound {gaps[-1]:.6f}, "
                f"{taken['ours'] * 1e3:.1f} ms; "
                f"HiGHS with 16 levels {grid / found.cost:.4f} x the cost, {speeds[-1]:.0f} x the time"
            )
    verdict(f"at most 1.0005 times the dual bound at 60 epochs (most {max(gaps):.6f})", max(gaps) <= 1.0005)
    verdict(f"at least 10 times faster than HiGHS (least {min(speeds):.0f})", min(speeds) >= 10)


def tiny(seed: int) -> DeplProblem:
    """One to three datasets, two or three versions and node sets, four epochs; targets from easy to impossible."""
    rng = np.random.default_rng([5, seed])
    count, places, sources = int(rng.integers(2, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    versions = tuple(
        DeplVersion(
            f"m{i}",
            rng.uniform(0.05, 0.3),
            rng.uniform(0.6, 2.0),
            rng.uniform(0.9, 1.4),
            float(rng.integers(0, 3)),
            InverseGamma(rng.uniform(0.9, 1.1), rng.uniform(0.005, 0.05)),
        )
        for i in range(count)
    )
    switches = tuple(
        tuple(None if a == b else StudentT(rng.uniform(0.0, 0.15), rng.uniform(0.01, 0.05), 5.0) for b in range(count))
        for a in range(count)
    )
    node_sets = tuple(
        DeplNodeSet(f"n{i}", rng.uniform(25, 120), rng.uniform(2, 60), rng.uniform(0.7, 1.5)) for i in range(places)
    )
    data = tuple(DeplData(f"d{i}", rng.uniform(0.4, 1.2)) for i in range(sources))
    target = Target(
        loss=rng.uniform(2.2, 3.8), probability=float(rng.choice([0.5, 0.9, 0.99])), deadline_s=rng.uniform(0.12, 0.6)
    )
    return DeplProblem(
        versions, switches, node_sets, data, rng.uniform(0, 12, (sources, places)), 5.0, target, 4, 0.7, 0.35
    )


def exhaustive(instance: DeplProblem) -> float:
    """Every choice of data and every sequence of versions, the cheapest first until one meets the target."""
    target, rows = instance.target, []
    indices = range(len(instance.datasets))
    for chosen in (c for size in range(1, len(instance.datasets) + 1) for c in itertools.combinations(indices, size)):
        volume = instance.volume(chosen)
        kinds = [(m.work * volume, m.size) for m in instance.versions]
        costs: dict[tuple[int, ...], float] = {}
        for epochs in range(1, instance.max_epochs + 1):
            for versions in itertools.product(range(len(kinds)), repeat=epochs):
                counts = tuple(versions.count(m) for m in range(len(kinds)))
                if counts not in costs:
                    charge = instance.data_charge(chosen)
                    costs[counts] = by_bisection(kinds, counts, instance.node_sets, target.deadline_s, charge)
                if math.isfinite(costs[counts]):
                    rows.append((costs[counts], chosen, versions))
    for cost, chosen, versions in sorted(rows):
        terms = instance.terms(chosen, versions)
        mean, variance = 5.0 + sum(f * d.mean for f, d in terms), sum(f * f * d.variance for f, d in terms)
        if mean - target.loss > math.sqrt(variance * (1 / target.probability - 1)):
            continue  # Cantelli
        if weighted_sum(terms, 5.0).cdf(target.loss) >= target.probability - 1e-9:
            return cost
    return math.inf


def plans() -> None:
    count = 40 if QUICK else 200
    print(f"\nWhole plans on {count} random tiny problems against trying everything")
    ratios: dict[str, list[float]] = {"joint": [], "merged": []}
    wrong, impossible = 0, 0
    for seed in range(count):
        instance = tiny(seed)
        least, found = exhaustive(instance), plan(instance)
        impossible += math.isinf(least)
        wrong += found.feasible != math.isfinite(least)
        if math.isfinite(least) and found.feasible:
            ratios["joint"].append(found.cost / least)
            if seed % 4 == 0:
                paper = plan_by("merged", instance)
                ratios["merged"].append(paper.cost / least if paper.feasible else math.inf)
    for name, values in ratios.items():
        finite = [v for v in values if math.isfinite(v)]
        print(
            f"  {name:<7} {len(values)} feasible: cost / exhaustive mean {np.mean(finite):.6f}, most "
            f"{max(finite):.6f}, "
            f"{len(values) - len(finite)} not found"
        )
    print(f"  {impossible} have no plan; declared wrongly, either way: {wrong}")
    joint = ratios["joint"]
    verdict("mean at most 1.02, most at most 1.10", float(np.mean(joint)) <= 1.02 and max(joint) <= 1.10)
    verdict("every impossible one declared, no possible one missed", wrong == 0)


def main() -> None:
    sections = {"versions": versions, "quantiles": quantiles, "allocation": allocation, "plans": plans}
    asked = [name for name in sections if name in sys.argv] or list(sections)
    warm = paper_like("mobilenet", 13.0)
    plan_by("merged", warm, Options(eta=20))  # compiles what is not yet cached
    VersionSearch(warm, (0,)).best()
    with calibrated():
        for name in asked:
            sections[name]()


if __name__ == "__main__":
    main()

"""Small random DepL instances, and every plan of one tried in turn with formulas of its own."""

import itertools
import math

import numpy as np

from relaytrain.core.depl import DeplData, DeplNodeSet, DeplProblem, DeplVersion
from relaytrain.core.distribution import InverseGamma, StudentT, weighted_sum
from relaytrain.core.problem import Target


def random_instance(seed, *, epochs=4, most=2):
    """One to `most` datasets, two versions, one to three node sets; targets from easy to impossible."""
    random = np.random.default_rng(seed)
    versions = tuple(
        DeplVersion(
            f"m{i}",
            random.uniform(0.05, 0.3),
            random.uniform(0.6, 2.0),
            random.uniform(0.9, 1.4),
            float(random.integers(0, 3)),
            InverseGamma(random.uniform(0.9, 1.1), random.uniform(0.005, 0.05)),
        )
        for i in range(2)
    )
    jump = StudentT(random.uniform(0.0, 0.15), random.uniform(0.01, 0.05), 5.0)
    node_sets = tuple(
        DeplNodeSet(f"n{i}", random.uniform(25, 120), random.uniform(2, 60), random.uniform(0.7, 1.5))
        for i in range(random.integers(1, 4))
    )
    datasets = tuple(DeplData(f"d{i}", random.uniform(0.4, 1.2)) for i in range(random.integers(1, most + 1)))
    charges = random.uniform(0, 12, (len(datasets), len(node_sets))) * random.integers(0, 2)
    target = Target(
        loss=random.uniform(1.6, 3.9), probability=random.choice([0.5, 0.9, 0.99]), deadline_s=random.uniform(0.12, 0.6)
    )
    return DeplProblem(
        versions, ((None, jump), (jump, None)), node_sets, datasets, charges, 5.0, target, epochs, 0.7, 0.35
    )


def cheapest(instance):
    """The least cost over all datasets, sequences and assignments; infinite when there is none."""
    target, best = instance.target, math.inf
    for size in range(1, len(instance.datasets) + 1):
        for chosen in itertools.combinations(range(len(instance.datasets)), size):
            for epochs in range(1, instance.max_epochs + 1):
                for versions in itertools.product(range(len(instance.versions)), repeat=epochs):
                    loss = weighted_sum(instance.terms(chosen, versions), instance.initial_loss)
                    if loss.cdf(target.loss) >= target.probability - 1e-9:
                        best = min(best, cheapest_assignment(instance, chosen, versions))
    return best


def paper_like(network, loss, *, deadline_s=2.0, nu=5.0, epochs=80):
    """Table I with stand-in curves: three versions, two classes of node set, one dataset, 99 %."""
    gain, mean, variance, work = {
        "alexnet": ((1.325, 1.13, 1.085), (1.02, 1.0, 0.98), (0.031, 0.010, 0.007), (2.6, 1.4, 1.0)),
        "mobilenet": ((1.36, 1.22, 1.13), (1.02, 0.95, 0.92), (0.029, 0.012, 0.006), (1.8, 1.0, 0.6)),
    }[network]
    names, offsets = ("fast-unsteady", "intermediate", "slow-steady"), (0.0, 0.0, 4.0)
    versions = tuple(
        DeplVersion(name, 0.0, work[i], gain[i], offsets[i], InverseGamma(mean[i], variance[i]))
        for i, name in enumerate(names)
    )
    near, far = StudentT(0.055, 0.02, nu), StudentT(0.0825, 0.02, nu)
    switches = ((None, near, far), (near, None, near), (far, near, None))
    node_sets = (DeplNodeSet("A", 100.0, 1.0, 1.0), DeplNodeSet("B", 50.0, 1.0, 1.2))
    target = Target(loss, deadline_s, 0.99)
    return DeplProblem(
        versions, switches, node_sets, (DeplData("cifar10", 1.0),), np.zeros((1, 2)), 20.0, target, epochs
    )


def cheapest_placed(instance):
    """The least cost when every node set holds data of its own: all placements, sequences and assignments."""
    target, best = instance.target, math.inf
    sets = [
        c
        for size in range(len(instance.datasets) + 1)
        for c in itertools.combinations(range(len(instance.datasets)), size)
    ]
    for held in itertools.product(sets, repeat=len(instance.node_sets)):
        usable = [n for n, data in enumerate(held) if data]
        for epochs in range(1, instance.max_epochs + 1):
            for versions in itertools.product(range(len(instance.versions)), repeat=epochs):
                for used in itertools.product(usable, repeat=epochs):
                    if set(used) != set(usable):
                        continue
                    terms, rows = [], []
                    for k, (m, n) in enumerate(zip(versions, used, strict=True), start=1):
                        version, volume = instance.versions[m], instance.volume(held[n])
                        gain = instance.gain_base + instance.gain_slope * math.log1p(volume)
                        terms.append((-gain * version.gain / math.sqrt(k + version.offset), version.noise))
                        if k > 1 and versions[k - 2] != m:
                            terms.append((1.0, instance.switches[versions[k - 2]][m]))
                        rows.append((version.work * volume, version.size, instance.node_sets[n]))
                    paying = used if instance.charged == "every-epoch" else usable
                    charge = sum(instance.charges[d, n] for n in paying for d in held[n])
                    cost = charge + bisected(rows, target.deadline_s, instance.objective)
                    if (
                        cost < best
                        and weighted_sum(terms, instance.initial_loss).cdf(target.loss) >= target.probability - 1e-9
                    ):
                        best = cost
    return best


def cheapest_assignment(instance, chosen, versions):
    """Over every assignment of node sets to epochs, each with resources by bisection on the multiplier."""
    volume = sum(instance.datasets[d].volume for d in chosen)
    best = math.inf
    for used in itertools.product(range(len(instance.node_sets)), repeat=len(versions)):
        paying = used if instance.charged == "every-epoch" else set(used)
        charge = sum(instance.charges[d, n] for d in chosen for n in paying)
        if instance.runs_on is not None and not all(
            instance.runs_on[m, n] for m, n in zip(versions, used, strict=True)
        ):
            continue
        if math.isinf(charge):
            continue
        rows = [(instance.versions[m], instance.node_sets[n]) for m, n in zip(versions, used, strict=True)]
        rows = [(m.work * volume, m.size, c) for m, c in rows]
        best = min(best, charge + bisected(rows, instance.target.deadline_s, instance.objective))
    return best


def spent(rows, x, objective):
    """What the epochs (work, size, node set) cost with resources x: the definitions, written out."""
    if objective == "rate":
        return sum(c.price * at for at, (_, _, c) in zip(x, rows, strict=True))
    total = 0.0
    for at, (work, size, c) in zip(x, rows, strict=True):
        sending_s = size / c.bandwidth
        total += c.price * at * (work / at + c.waiting * sending_s) + c.link_power * sending_s
    return total


def bisected(rows, deadline_s, objective="rate"):
    def resources(mu):
        held = [c.price * (1.0 if objective == "rate" else c.waiting * size / c.bandwidth) for _, size, c in rows]
        pairs = zip(rows, held, strict=True)
        return [min(c.capability, math.sqrt(mu * work / a)) if a else c.capability for (work, _, c), a in pairs]

    def elapsed(x):
        return sum(work / at + size / c.bandwidth for at, (work, size, c) in zip(x, rows, strict=True))

    if elapsed([c.capability for _, _, c in rows]) > deadline_s + 1e-12:
        return math.inf
    low, high = 1e-9, 1e9
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if elapsed(resources(middle)) <= deadline_s else (middle, high)
    return spent(rows, resources(high), objective)

"""Who holds which images: division among nodes and splits, as sorted index arrays. Deterministic by seed.

Every function returns one index array per node; arrays are disjoint. What is left over belongs to nobody, except in
`iid`, `dirichlet` and `split` by shares, which give everything away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core.errors import ScenarioError
from .dataset import Indexes, Labels

Parts = dict[str, Indexes]


def iid(count: int, nodes: Sequence[str], *, seed: int) -> Parts:
    """All `count` images at random among the nodes, sizes equal to within one."""
    names = _names(nodes)
    if count < len(names):
        raise ScenarioError(f"partition: {count} images for {len(names)} nodes; each needs at least one")
    order = np.random.default_rng(seed).permutation(count)
    return {name: np.sort(part) for name, part in zip(names, np.array_split(order, len(names)), strict=True)}


def by_size(count: int, sizes: Mapping[str, int], *, seed: int) -> Parts:
    """At random, as many images to each node as `sizes` says."""
    names = _names(list(sizes))
    _positive(sizes)
    total = sum(sizes.values())
    if total > count:
        raise ScenarioError(f"partition: the nodes want {total} images, there are {count}; ask for fewer samples")
    order = np.random.default_rng(seed).permutation(count)
    ends = np.cumsum([sizes[name] for name in names])
    return {name: np.sort(order[end - sizes[name] : end]) for name, end in zip(names, ends, strict=True)}


def by_class(
    labels: Labels, classes: Mapping[str, Sequence[int]], *, seed: int, sizes: Mapping[str, int] | None = None
) -> Parts:
    """Each node holds images of its own classes only; a class that several nodes own is divided among them.

    Without `sizes` every image of an owned class is given away, equally among the owners. With `sizes` a node gets
    that many, as evenly over its classes as what is left of them allows.

    Paper: PACT section VI-A: later node sets own more classes.
    """
    names = _names(list(classes))
    pools = _shuffled_pools(labels, seed)
    for name in names:
        for label in classes[name]:
            if label not in pools:
                raise ScenarioError(f"partition: node {name} wants class {label}, of which there is no image")
        if not classes[name]:
            raise ScenarioError(f"partition: node {name} has no classes; expected at least one")
    if sizes is None:
        owners = {label: [n for n in names if label in classes[n]] for label in pools}
        shares: dict[str, list[Indexes]] = {name: [] for name in names}
        for label, pool in pools.items():
            for name, share in zip(owners[label], np.array_split(pool, max(1, len(owners[label]))), strict=False):
                shares[name].append(share)
        return {name: np.sort(np.concatenate(parts)) for name, parts in shares.items()}
    _positive(sizes)
    taken = dict.fromkeys(pools, 0)
    parts_by_name: Parts = {}
    for name in names:
        left = {label: len(pools[label]) - taken[label] for label in classes[name]}
        picks = []
        for label, quota in _even(sizes[name], left, name).items():
            picks.append(pools[label][taken[label] : taken[label] + quota])
            taken[label] += quota
        parts_by_name[name] = np.sort(np.concatenate(picks))
    return parts_by_name


def dirichlet(labels: Labels, nodes: Sequence[str], *, alpha: float, seed: int) -> Parts:
    """Every class divided among the nodes in shares drawn from a Dirichlet law; small `alpha` is very uneven.

    A node that would hold nothing gets one image of the node that holds most.
    """
    names = _names(nodes)
    if not alpha > 0:
        raise ScenarioError(f"partition.alpha: got {alpha}, expected a number above 0")
    if len(labels) < len(names):
        raise ScenarioError(f"partition: {len(labels)} images for {len(names)} nodes; each needs at least one")
    rng = np.random.default_rng(seed)
    held: list[list[Indexes]] = [[] for _ in names]
    for label in np.unique(labels):
        pool = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.round(np.cumsum(rng.dirichlet(np.full(len(names), alpha)))[:-1] * len(pool)).astype(np.int64)
        for node, share in enumerate(np.split(pool, cuts)):
            held[node].append(share)
    parts = [np.concatenate(shares) for shares in held]
    while min(len(part) for part in parts) == 0:
        empty = min(range(len(parts)), key=lambda node: len(parts[node]))
        rich = max(range(len(parts)), key=lambda node: len(parts[node]))
        parts[empty], parts[rich] = parts[rich][-1:], parts[rich][:-1]
    return {name: np.sort(part) for name, part in zip(names, parts, strict=True)}


def split(labels: Labels, shares: Mapping[str, float], *, seed: int) -> Parts:
    """Train, validation, test or any other split by shares that sum to one; every class is divided alike.

    Largest remainders decide within a class, so sizes are right to within one image per class.
    """
    names = _names(list(shares))
    values = np.array([shares[name] for name in names], dtype=np.float64)
    if not np.isfinite(values).all() or (values <= 0).any() or abs(values.sum() - 1.0) > 1e-6:
        raise ScenarioError(f"split: shares {dict(shares)}, expected positive numbers that sum to 1")
    parts: dict[str, list[Indexes]] = {name: [] for name in names}
    for pool in _shuffled_pools(labels, seed).values():
        exact = values * len(pool)
        whole = np.floor(exact + 1e-9).astype(np.int64)
        short = len(pool) - int(whole.sum())
        whole[np.argsort(whole - exact, kind="stable")[:short]] += 1
        for name, share in zip(names, np.split(pool, np.cumsum(whole)[:-1]), strict=True):
            parts[name].append(share)
    return {name: np.sort(np.concatenate(chunks)) for name, chunks in parts.items()}


def _shuffled_pools(labels: Labels, seed: int) -> dict[int, Indexes]:
    rng = np.random.default_rng(seed)
    return {int(label): rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)}


def _even(size: int, left: Mapping[int, int], name: str) -> dict[int, int]:
    """`size` spread over classes as evenly as `left` allows, the scarcest class first."""
    if sum(left.values()) < size:
        raise ScenarioError(f"partition: node {name} wants {size} images, {sum(left.values())} of its classes are left")
    quotas: dict[int, int] = {}
    for position, label in enumerate(sorted(left, key=lambda label: (left[label], label))):
        quotas[label] = min(left[label], (size - sum(quotas.values())) // (len(left) - position))
    return quotas


def _names(nodes: Sequence[str]) -> list[str]:
    if not nodes or len(set(nodes)) != len(nodes):
        raise ScenarioError(f"partition: nodes {list(nodes)}, expected at least one and each name once")
    return list(nodes)


def _positive(sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ScenarioError(f"partition.sizes: node {name} wants {size!r} images, expected a whole number above 0")

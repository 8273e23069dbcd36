"""What learned estimators must know of a pair besides its losses: classes, samples, share of parameters pruned away."""

from __future__ import annotations

from ...core.errors import ScenarioError
from ...core.problem import Pair, Problem

Facts = tuple[int, int, float]


def facts_of(problem: Problem) -> dict[Pair, Facts]:
    """Classes, samples of an epoch (of the nodes that are drawn for it) and pruned share of every pair.

    Raises:
        ScenarioError: the scenario does not say how many samples or classes a node has, or how large a version is.
    """
    nodes, sets = {n.name: n for n in problem.nodes}, {s.name: s for s in problem.node_sets}
    sizes = {v.name: v.parameters for v in problem.versions}
    largest = max((size for size in sizes.values() if size is not None), default=None)
    facts: dict[Pair, Facts] = {}
    for pair in problem.pairs:
        size = sizes.get(pair.version)
        if size is None or largest is None:
            raise ScenarioError(
                f"{problem.name}: versions: got no `parameters` for {pair.version}, expected a count: a learned "
                "estimator "
                "needs it; see `relaytrain doctor`, or use --estimator prior"
            )
        group = sets.get(pair.nodes)
        members = [nodes[name] for name in group.nodes if name in nodes] if group is not None else []
        for key in ("samples", "classes"):
            if not members or any(getattr(node, key) is None for node in members):
                raise ScenarioError(
                    f"{problem.name}: nodes: got no `{key}` for a node of {pair.nodes}, expected a count: a learned "
                    "estimator needs it; give it, or use --estimator prior"
                )
        classes = max(node.classes or 1 for node in members)
        samples = round(sum(node.samples or 0 for node in members) * group.sampled / len(group.nodes)) if group else 0
        facts[pair] = (classes, max(samples, 1), 1.0 - size / largest)
    return facts


def ratio_between(before: Facts, after: Facts) -> float:
    """Share of the present version's parameters that a change removes; 0 when it removes none."""
    return max(1.0 - (1.0 - after[2]) / max(1.0 - before[2], 1e-9), 0.0)

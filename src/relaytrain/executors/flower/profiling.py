"""What versions cost on the nodes themselves: each times them by its trainer, and the cost table gets what they say.

An epoch of a pair then takes what its slowest node takes by its own clock, and the joules of all nodes by their meters;
where a share of them is drawn, what is expected of a draw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from ...core.notices import say
from ...core.problem import Problem, Version
from ...costs.profiled import ProfiledVersion
from ...costs.sampled import sampled_cost
from ...scenario import Scenario, load_scenario
from ...training.task import BadMessage
from .messages import of_about, to_about
from .roster import PULL_S, WORDS_EVERY_S, Roster

MEASURE_S = 900.0
"""How long nodes may take to time all versions."""
_VERSION = ("per_sample_s", "per_batch_s", "pass_s", "flops_per_sample")


@dataclass(frozen=True)
class NodeProfile:
    """What one Flower node measured.

    `wall_per_cpu`: seconds that pass for a second of CPU. By node that it plays: `j_per_cpu_s`, joules by its meter for
    such a second, and `samples`.
    """

    versions: Mapping[str, ProfiledVersion]
    batch: int
    local_epochs: int
    wall_per_cpu: float
    j_per_cpu_s: Mapping[str, float]
    provenance: str
    samples: Mapping[str, int]

    @classmethod
    def read(cls, about: Mapping[str, Any]) -> NodeProfile:
        """Of a node's answer, which may be anything.

        Raises:
            BadMessage: it is none.
        """
        try:
            versions = {
                str(name): ProfiledVersion(str(name), *(_amount(row[key]) for key in _VERSION))
                for name, row in about["versions"].items()
            }
            samples = {str(name): int(_amount(count)) for name, count in about["samples"].items()}
            batch, local_epochs = (max(1, int(_amount(about[key]))) for key in ("batch", "local_epochs"))
            joules = {name: _amount(about["j_per_cpu_s"][name]) for name in samples}
            wall = _amount(about["wall_per_cpu"])
            return cls(versions, batch, local_epochs, wall, joules, str(about["provenance"])[:20], samples)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            words = about.get("error") if isinstance(about, Mapping) else None
            raise BadMessage(str(words)[:300] if words else "it sent no profile") from None

    def epoch(self, version: Version, node: str) -> tuple[float, float]:
        """Seconds and joules of one node's pass."""
        samples = self.samples[node]
        cpu_s = version.trained(lambda name: self.versions[name].cpu_s(samples, self.batch, self.local_epochs))
        return cpu_s * self.wall_per_cpu, cpu_s * self.j_per_cpu_s[node]


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise ValueError
    return float(value)


def profile_nodes(grid: Grid, names: Sequence[str], *, batches: int, wait_s: float) -> dict[str, NodeProfile]:
    """Profiles by node of the scenario, of all who are there and answer."""
    roster = Roster(grid)
    there = roster.wait_for(sorted(names), wait_s)
    numbers = sorted(set(there.values()))
    asked = [
        Message(of_about({"profile": batches}), dst_node_id=n, message_type=MessageType.QUERY, ttl=MEASURE_S)
        for n in numbers
    ]
    say(f"timing all versions on {len(numbers)} nodes")
    keys = dict(zip(grid.push_messages(asked), numbers, strict=True))
    keys.pop("", None)
    profiles: dict[int, NodeProfile] = {}
    began = told_s = time.monotonic()
    while keys and (now := time.monotonic()) - began < MEASURE_S:
        for answer in grid.pull_messages(list(keys)):
            number = keys.pop(answer.metadata.reply_to_message_id, None)
            if number is None or answer.metadata.src_node_id != number:
                continue
            try:
                if answer.has_error():
                    raise BadMessage(answer.error.reason or "no reason")
                profiles[number] = NodeProfile.read(to_about(answer.content))
            except BadMessage as wrong:
                say(f"{'+'.join(roster.about[number]['nodes'])} was not measured: {wrong}")
        if now - told_s >= WORDS_EVERY_S:
            told_s = now
            say(f"timing: {len(keys)} nodes are not done yet ({now - began:.0f} s)")
        time.sleep(PULL_S)
    return {
        name: profiles[number]
        for name, number in there.items()
        if number in profiles and name in profiles[number].samples
    }


def measured_pairs(problem: Problem, profiles: Mapping[str, NodeProfile]) -> dict[tuple[str, str], tuple[float, float]]:
    """Seconds and joules of an epoch, of every pair whose nodes were all measured."""
    sets = {group.name: group for group in problem.node_sets}
    versions = {version.name: version for version in problem.versions}
    rows = {}
    for pair in problem.pairs:
        group, version = sets[pair.nodes], versions.get(pair.version, Version(pair.version))
        able, trained = [profiles.get(node) for node in group.nodes], {version.name, *version.slices}
        if group.mode == "pipeline" or not able or any(p is None or trained - p.versions.keys() for p in able):
            continue
        seconds, joules = zip(*(profiles[node].epoch(version, node) for node in group.nodes), strict=True)
        expected = sampled_cost(seconds, joules, [0.0] * len(seconds), group.sampled)
        rows[pair.version, pair.nodes] = expected.seconds, expected.joules
    return rows


def with_measured(scenario: Scenario, profiles: Mapping[str, NodeProfile]) -> Scenario:
    """`scenario` with the measured epochs as its [[pairs]]; what was not measured stays as it was."""
    measured = measured_pairs(scenario.problem, profiles)
    given = {(row.get("version"), row.get("nodes")): row for row in scenario.resolved.get("pairs") or ()}
    rows = []
    for i, pair in enumerate(scenario.problem.pairs):
        key = (pair.version, pair.nodes)
        seconds, energy = float(scenario.costs.run_s[i]), float(scenario.costs.run_j[i])
        if key in measured and math.isfinite(seconds) and math.isfinite(energy):  # what is forbidden stays so
            seconds, energy = measured[key]
        figures = {"version": pair.version, "nodes": pair.nodes, "seconds": seconds, "energy": energy}
        rows.append({**given.get(key, {}), **figures})
    loaded = load_scenario({**scenario.resolved, "pairs": rows})
    kept = {key: getattr(scenario, key) for key in ("source", "preset", "overrides", "without")}
    return replace(loaded, **kept)

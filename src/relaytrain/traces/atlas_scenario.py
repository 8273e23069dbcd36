"""What an atlas has to do with a scenario: its seeds, whether both speak of the same training, and which fixed
schedule would have met the scenario's target at least energy. No torch: an atlas is judged where nothing trains."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.cost import CostTable
from ..core.errors import ScenarioError
from ..core.problem import Problem
from ..core.state import TOLERANCE
from ..scenario import Scenario, load_scenario
from ..scenario.schema import NodeSetTable, VersionTable, WorldTable
from ..scenario.strict_table import Table
from ..scenario.training_tables import DataTable, TrainingTable
from .atlas import BUNDLED, Atlas, LegKey, Way, read_atlas

SEEDED = ("training", "data")
LEFT_OUT = ("name", "description", "law", "prior", "estimator", "planner", "depl", "costs", "devices")
"""Tables of a scenario that losses do not depend on."""
FIRST_KEYS: Mapping[str, tuple[type[Table], str]] = {
    "training": (
        TrainingTable,
        "loss optimizer lr momentum weight_decay lr_schedule lr_epochs lr_factor batch local_epochs optimizer_state "
        "start devices clock seed threads quorum epoch_timeout importance charge_lost_work count_pauses "
        "when_infeasible transport workers distill",
    ),
    "data": (DataTable, "source folder partition seed alpha classes nodes validation shrink standardise"),
    "versions": (
        VersionTable,
        "name parameters flops_per_sample weight_bytes activation_bytes_per_sample family width factory ratio of "
        "student grow chain",
    ),
    "node_sets": (NodeSetTable, "name nodes mode in_flight keep checkpoint share_data"),
}
"""Keys that the first atlases knew. Others have come since: left at their defaults they change no training, and do not
count, so that what was recorded before them still holds."""


def of_seed(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with this seed's data and weights."""
    tables = dict(scenario.resolved)
    for name in SEEDED:
        tables[name] = {**tables.get(name, {}), "seed": seed}
    return replace(load_scenario(tables), source=scenario.source)


def same_training(atlas: Atlas, scenario: Scenario) -> bool:
    """Whether an atlas was recorded with the training that the scenario has; the world of its simulations once counted
    too, so that one recorded then may be known by that of the scenario."""
    return atlas.digest == digest_of(scenario) or atlas.digest == _digest(scenario, scenario.resolved["world"])


def digest_of(scenario: Scenario) -> str:
    """Of all that decides about losses but the seed."""
    return _digest(scenario, WorldTable().model_dump(by_alias=True, exclude_none=True))


def _digest(scenario: Scenario, world: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in scenario.resolved.items() if key not in LEFT_OUT}
    for name, (table, first) in FIRST_KEYS.items():
        rows = kept.get(name, {})
        kept[name] = (
            [_first(row, table, first) for row in rows] if isinstance(rows, list) else _first(rows, table, first)
        )
    for name in SEEDED:
        kept[name] = {key: value for key, value in kept[name].items() if key != "seed"}
    target = scenario.problem.target
    kept["target"] = [target.on, target.metric]
    kept["world"] = world
    kept["start"] = {key: value for key, value in kept.get("start", {}).items() if key != "loss"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def _first(row: Mapping[str, Any], table: type[Table], first: str) -> dict[str, Any]:
    """A row without later keys that stand at their defaults."""
    known, fields = first.split(), table.model_fields
    return {k: v for k, v in row.items() if k in known or k not in fields or v != fields[k].default}


def atlas_for(scenario: Scenario) -> Atlas | None:
    """The atlas that `planner.atlas` names; else the bundled one, where it was recorded with the same training.

    Raises:
        ScenarioError: the file that is named cannot be read, or holds other pairs, another start or another metric.
    """
    file = scenario.planner.atlas
    if file is None:
        bundled = BUNDLED / f"{scenario.name}.npz"
        if not bundled.exists():
            return None
        held = read_atlas(bundled)
        return held if same_training(held, scenario) and fits(held, scenario.problem) else None
    held = read_atlas(scenario.beside(file))
    if not fits(held, scenario.problem):
        raise ScenarioError(
            f"planner.atlas: got {file}, recorded with other pairs, another start or another metric than "
            f"{scenario.name} has, expected one of it: relaytrain atlas {scenario.name} FILE.npz"
        )
    return held


def fits(atlas: Atlas, problem: Problem) -> bool:
    """Whether an atlas speaks of the problem's pairs, start and metric."""
    return (problem.pairs, problem.start, problem.target.metric) == (atlas.pairs, atlas.start, atlas.figure)


@dataclass(frozen=True)
class FixedSchedule:
    """Legs, the last of them until the target, with what they came to: `met` of `seeds`, and mean joules and seconds
    over those that met it."""

    before: Way
    last: int
    met: int
    seeds: int
    energy_j: float
    elapsed_s: float


def best_fixed(atlas: Atlas, costs: CostTable, problem: Problem) -> FixedSchedule | None:
    """The schedule that met the target in time with most seeds, and among those at least mean energy; None: none did.

    Only what is held is judged: a last leg that ends before the target counts as a miss. A schedule ends at the first
    epoch that meets the target, be it in an earlier leg. Chosen with the losses known, so it is a yardstick and no
    forecast: on other seeds it does worse.
    """
    ends = set.intersection(*(set(legs) for legs in atlas.seeds.values())) if atlas.seeds else set()
    schedules = [_judged(atlas, costs, problem, key) for key in sorted(ends)]
    return min((one for one in schedules if one.met), key=lambda one: (-one.met, one.energy_j), default=None)


def _judged(atlas: Atlas, costs: CostTable, problem: Problem, key: LegKey) -> FixedSchedule:
    spent = [end for seed in atlas.seeds if (end := _until(atlas, seed, costs, problem, key)) is not None]
    met = max(len(spent), 1)
    means = (sum(energy for energy, _ in spent) / met, sum(seconds for _, seconds in spent) / met)
    return FixedSchedule(key.before, key.pair, len(spent), len(atlas.seeds), *means)


def _until(atlas: Atlas, seed: int, costs: CostTable, problem: Problem, key: LegKey) -> tuple[float, float] | None:
    """Joules and seconds until the target, or None where it is not met in time on this way."""
    energy_j = elapsed_s = 0.0
    came = atlas.start
    most = math.inf if problem.max_epochs is None else problem.max_epochs
    for epochs, (pair, loss) in enumerate(_epochs(atlas, seed, key), 1):
        energy_j += float(costs.epoch_j[came, pair])
        elapsed_s += float(costs.epoch_s[came, pair])
        came = pair
        if elapsed_s > problem.target.deadline_s + TOLERANCE or epochs > most or math.isinf(energy_j):
            return None
        if loss <= problem.target.loss + TOLERANCE:
            return energy_j, elapsed_s
    return None


def _epochs(atlas: Atlas, seed: int, key: LegKey) -> Iterator[tuple[int, float]]:
    """Pair and loss of every epoch of a way, its last leg as long as it is held."""
    for number, (pair, count) in enumerate(key.before):
        leg = atlas.leg(seed, LegKey(key.before[:number], pair))
        held = [] if leg is None else leg.losses
        if len(held) < count:
            return
        yield from ((pair, loss) for loss in held[:count])
    leg = atlas.leg(seed, key)
    yield from ((key.pair, loss) for loss in (leg.losses if leg is not None else []))

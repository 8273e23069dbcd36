"""Work by epoch and switches by epoch and data, c(k, m, d) and l_sw(k, d, .): against every plan tried in turn."""

import itertools
import math
import os
from dataclasses import replace

import numpy as np
import pytest
from instances import bisected, random_instance

import relaytrain
from relaytrain.core.depl import DeplTables
from relaytrain.core.distribution import StudentT, weighted_sum
from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.core.outcome import EpochOutcome
from relaytrain.planners.depl.exact.brute_force import brute_force
from relaytrain.planners.depl.exact.by_epoch import EpochSearch
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.planners.depl.exact.version_search import VersionSearch
from relaytrain.planners.depl.procedures import plan_by
from relaytrain.scenario import load_scenario

SEEDS = range(120 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 8)


def drawn(seed):
    """A random problem with tables drawn by epoch, and by data where there are two datasets; and those as figures."""
    instance, random = random_instance(seed, epochs=3), np.random.default_rng(7000 + seed)
    work = [tuple(random.uniform(0.4, 2.5, random.integers(1, 4)).tolist()) for _ in instance.versions]
    sets = [None] + ([(0,), (0, 1)] if len(instance.datasets) > 1 else [])
    jumps = {}
    for chosen in sets:
        for a, b in ((0, 1), (1, 0)):
            rows = random.integers(1, 4)
            scales = random.uniform(0.0, 0.08, rows)
            jumps[chosen, a, b] = list(zip(random.uniform(-0.1, 0.5, rows), scales, strict=True))
            if random.uniform() < 0.15:
                jumps[chosen, a, b][random.integers(rows)] = None
    series = {
        key: tuple(r if r is None else StudentT(*map(float, r), 5.0) for r in rows) for key, rows in jumps.items()
    }
    tables = DeplTables(
        tuple(work),
        tuple((c, (((None,), series[c, 0, 1]), (series[c, 1, 0], (None,)))) for c in sets),
    )
    first = ((None, series[None, 0, 1][0]), (series[None, 1, 0][0], None))
    started = {"before": 0, "epochs_done": 1} if seed % 4 == 3 else {}
    charged = "every-epoch" if seed % 2 else "once"
    return replace(instance, switches=first, tables=tables, charged=charged, **started), work, jumps


def cheapest_by_epoch(instance, work, jumps):
    """The least cost over all datasets, sequences and assignments, from the figures of the tables."""
    target, best = instance.target, math.inf
    count, done = len(instance.datasets), instance.epochs_done
    for chosen in itertools.chain.from_iterable(itertools.combinations(range(count), n + 1) for n in range(count)):
        volume = sum(instance.datasets[d].volume for d in chosen)
        gain = instance.gain_base + instance.gain_slope * math.log1p(volume)
        for epochs in range(1, instance.max_epochs + 1):
            for versions in itertools.product(range(2), repeat=epochs):
                terms, before, kinds = [], instance.before, []
                for k, m in enumerate(versions, start=done + 1):
                    version = instance.versions[m]
                    terms.append((-gain * version.gain / math.sqrt(k + version.offset), version.noise))
                    kinds.append((work[m][min(k, len(work[m])) - 1] * volume, version.size))
                    if before is not None and before != m:
                        rows = jumps[chosen if (chosen, before, m) in jumps else None, before, m]
                        row = rows[min(k, len(rows)) - 1]
                        if row is None:
                            break
                        terms.append((1.0, StudentT(*map(float, row), 5.0)))
                    before = m
                else:
                    if weighted_sum(terms, instance.initial_loss).cdf(target.loss) < target.probability - 1e-9:
                        continue
                    for used in itertools.product(range(len(instance.node_sets)), repeat=epochs):
                        paying = used if instance.charged == "every-epoch" else set(used)
                        charge = sum(instance.charges[d, n] for d in chosen for n in paying)
                        rows = [(*kind, instance.node_sets[n]) for kind, n in zip(kinds, used, strict=True)]
                        best = min(best, charge + bisected(rows, target.deadline_s, instance.objective))
    return best


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_tried_in_turn_is_cheaper(seed):
    instance, work, jumps = drawn(seed)
    found, least = plan(instance), cheapest_by_epoch(instance, work, jumps)
    assert found.feasible == math.isfinite(least)
    if found.feasible:
        assert found.cost == pytest.approx(least, rel=1e-6)
        assert brute_force(instance).cost == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_tables_that_say_the_same_in_every_epoch_change_nothing(seed):
    instance = random_instance(seed, epochs=6, most=1)
    (_, jump), (back, _) = instance.switches
    work = tuple((version.work,) * 3 for version in instance.versions)
    tables = DeplTables(work, ((None, (((None,), (jump, jump)), ((back,), (None,)))),))
    plain = VersionSearch(instance, (0,)).best()
    found = EpochSearch(replace(instance, tables=tables), (0,)).best()
    assert (found is None) == (plain is None)
    if found is not None:
        assert found.cost == pytest.approx(plain.cost, rel=1e-9)


CHANGES = (
    "target.max_epochs=14",
    "target.loss=15",
    "depl.max_switches=1",
    "depl.versions.0.work=[6.0, 5.0, 4.0, 1.0]",
    "depl.switches=[{location = [0.0, 2.0], scale = 0.02}]",
)


def test_a_scenario_with_lists_is_planned_booked_and_compared():
    scenario = load_scenario("depl_alexnet", CHANGES)
    made = relaytrain.plan(scenario, planner="depl")
    assert made.feasible
    history = []
    for decision in made.decisions:
        history.append(EpochOutcome(decision, 1.0, *scenario.depl.run(decision, history)))
    assert sum(o.energy_j for o in history) == pytest.approx(made.energy_j, rel=1e-9)
    assert sum(o.elapsed_s for o in history) == pytest.approx(made.elapsed_s, rel=1e-9)
    change, last = scenario.law.change, len(scenario.problem.pairs) - 1  # the first pair has another version
    assert len(change) == 14 and change[0, 0, last] == 0.0 and change[1, 0, last] == change[13, 0, last] == 2.0
    shown = relaytrain.compare(scenario).plans
    assert "best-exp-greedy" in shown and "depl-merged" not in shown
    with pytest.raises(UsageError, match="tables by epoch"):
        plan_by("merged", scenario.depl.instance)


def test_lists_beside_dependent_epochs_are_refused():
    with pytest.raises(ScenarioError, match="independent"):
        load_scenario("depl_alexnet", [*CHANGES, "depl.dependence.common=0.5"])

"""How sure a schedule is when epochs hang together, against many plain samples; and none that would do is missed."""

import itertools
import math
import os

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.api import scenario
from relaytrain.core.dependence import from_normal
from relaytrain.planners.depl.exact.dependent_epochs import plan_dependent
from relaytrain.planners.depl.exact.sampled_paths import Paths
from relaytrain.planners.depl.exact.version_search import VersionSearch
from relaytrain.planners.depl.planner import Depl

MANY = 1_000_000 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 100_000


def settings(name, *overrides, common=0.0, correlation=0.0):
    dependence = (f"depl.dependence.common={common}", f"depl.dependence.correlation={correlation}")
    return scenario(name, overrides=(*overrides, *dependence)).depl


def plainly(instance, common, correlation, chosen, versions, *, seed=3):
    """The share of MANY runs that reach the target, each epoch's z drawn with the others by their correlations."""
    rng, k = np.random.default_rng(seed), np.arange(len(versions))
    m = np.array(versions)
    decaying = np.where(k[:, None] == k, 1.0, correlation ** np.maximum(abs(k[:, None] - k), 1))
    root = np.linalg.cholesky(common * (m[:, None] == m) + (1 - common) * decaying + 1e-12 * np.eye(len(m)))
    reached = 0
    for _ in range(MANY // 10_000):
        z = rng.standard_normal((10_000, len(m))) @ root.T
        loss = np.full(len(z), instance.initial_loss)
        before = instance.before
        for i, now in enumerate(versions):
            if before not in (None, now):
                jump = instance.jump(before, now)
                loss += jump.location + jump.scale * rng.standard_t(jump.nu, len(z))
            version = instance.versions[now]
            loss -= instance.data_gain(chosen) * float(version.progress(i + 1)) * from_normal(version.noise, z[:, i])
            before = now
        reached += int((loss <= instance.target.loss + 1e-9).sum())
    return reached / MANY


@pytest.mark.parametrize(("common", "correlation"), [(0.8, 0.0), (0.2, 0.5)])
def test_a_plan_keeps_its_probability_on_fresh_runs(common, correlation):
    known = settings("depl_digits", common=common, correlation=correlation)
    made = plan_dependent(known.instance, known.belief)
    share = plainly(known.instance, common, correlation, made.datasets, made.versions)
    error = math.sqrt(0.09 / MANY)
    assert made.feasible and made.probability >= known.instance.target.probability
    assert made.probability == pytest.approx(share, abs=4 * error + 5e-4)


def test_other_paths_say_the_same_to_a_ten_thousandth():
    known = settings("depl_digits", common=0.3)
    made = plan_dependent(known.instance, known.belief)
    said = [Paths(known.instance, known.belief, seed=s).probability(made.datasets, made.versions) for s in range(5, 10)]
    assert np.ptp(said) < 6e-4 and abs(np.mean(said) - made.probability) < 4e-4
    least = Paths(known.instance, known.belief, seed=5).quantile(made.datasets, made.versions, 0.9)
    assert least <= known.instance.target.loss


@pytest.mark.slow
def test_what_some_schedule_can_do_is_not_called_infeasible():
    """Every schedule of at most one switch, on all data, against the planner; near misses are left to it."""
    seen = {True: 0, False: 0}
    for common, loss, deadline in itertools.product((0.4, 0.8), (0.15, 0.32, 0.36), (10, 60)):
        overrides = (f"target.loss={loss}", f"target.deadline={deadline}", "target.max_epochs=9")
        known = settings("depl_digits", *overrides, common=common)
        instance, asked = known.instance, known.instance.target.probability
        paths, chosen = Paths(instance, known.belief, seed=99), instance.all_data
        search = VersionSearch(instance, chosen)
        best = 0.0
        for first, second in itertools.product(range(len(instance.versions)), repeat=2):
            for epochs in range(1, instance.max_epochs + 1):
                for early in range(1, epochs + 1) if first != second else (epochs,):
                    versions = (first,) * early + (second,) * (epochs - early)
                    if instance.possible(versions) and search.quickest_s[list(versions)].sum() <= deadline:
                        best = max(best, paths.share(chosen, versions, every=10))
        made = plan_dependent(instance, known.belief)
        if best >= asked + 0.02:
            seen[True] += 1
            assert made.feasible, (common, loss, deadline, best)
        elif best < asked - 0.1:
            seen[False] += 1
    assert all(seen.values()), seen


def test_the_plan_that_was_called_infeasible_is_made():
    plan = rt.plan("depl_digits", overrides=["depl.dependence.common=0.8"])
    assert plan.met and dict(plan.probabilities)["correlation 0, common 0.8"] >= 0.9


@pytest.mark.parametrize(
    "overrides",
    [
        ("target.deadline=25",),
        pytest.param(("target.deadline=20", "depl.dependence.common=0.8"), marks=pytest.mark.soak),
    ],
)
def test_named_targets_are_met_and_a_digit_better_is_not(overrides):
    plan = rt.plan("depl_digits", overrides=overrides)

    def met(loss, late, share=0.9):
        asked = (f"target.loss={loss!r}", f"target.deadline={late!r}", f"target.probability={share!r}")
        loaded = scenario("depl_digits", overrides=(*overrides, *asked))
        return rt.plan(loaded, planner=Depl(loaded.depl, explained=False)).met

    higher, later = plan.nearest
    assert met(higher.loss, higher.deadline_s) and met(later.loss, later.deadline_s)
    assert not met(higher.loss - 2e-4, higher.deadline_s) and not met(later.loss, later.deadline_s - 0.02)
    assert met(plan.target_loss, plan.deadline_s, plan.attainable)
    assert not met(plan.target_loss, plan.deadline_s, plan.attainable + 0.001)

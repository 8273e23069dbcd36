"""DepL's fits against values drawn from known distributions, scipy's own fits, and the readings' rule."""

from __future__ import annotations

import numpy as np
import pytest

from relaytrain.core.errors import UsageError
from relaytrain.estimators.depl.curve_fit import autocorrelation, fit_curves, fit_switches, least_squares
from relaytrain.estimators.depl.distributions import (
    Fit,
    best_family,
    crps,
    fit_family,
    ks_statistic,
    naive_p,
    refitted_p,
)
from relaytrain.estimators.learned.bundle import LegCurve, LegSwitch


def level_curves(seeds: int, rng: np.random.Generator, shape: float = 60.0) -> list[LegCurve]:
    k = np.arange(1, 31)
    made = []
    for seed in range(seeds):
        x = (shape - 1.0) / rng.gamma(shape, 1.0, size=30)
        made.append(LegCurve(seed, 0, 0, "gold", 10, 100, 0.0, 2.0 / np.sqrt(k + 3.0) * x, start=None))
    return made


def change_curves(seeds: int, rng: np.random.Generator) -> list[LegCurve]:
    k = np.arange(1, 31)
    steps = [0.4 / np.sqrt(k + 2.0) * 79.0 / rng.gamma(80.0, 1.0, size=30) for _ in range(seeds)]
    return [LegCurve(i, 0, 0, "gold", 10, 100, 0.0, 5.0 - np.cumsum(s), start=5.0) for i, s in enumerate(steps)]


def test_least_squares_is_exact_without_noise():
    k = np.arange(1.0, 40.0)
    gain, offset, r2 = least_squares([(k, 1.7 / np.sqrt(k + 2.5))])
    assert (gain, offset, r2) == (
        pytest.approx(1.7, rel=1e-3),
        pytest.approx(2.5, rel=5e-3),
        pytest.approx(1.0, abs=1e-6),
    )


@pytest.mark.parametrize("family", ["inverse-gamma", "log-normal", "normal", "student-t"])
def test_families_are_recovered_and_agree_with_scipys_likelihood(family):
    truth = {
        "inverse-gamma": (12.0, 11.0),
        "log-normal": (0.1, 0.3),
        "normal": (1.0, 0.2),
        "student-t": (0.5, 0.2, 4.0),
    }
    wanted = Fit(family, truth[family])
    values = wanted.sample(np.random.default_rng(1), 4000)
    found = fit_family(values, family)
    assert np.allclose(found.parameters[:2], wanted.parameters[:2], rtol=0.12)
    assert np.allclose(
        found.quantile(np.array([0.05, 0.5, 0.95])), wanted.quantile(np.array([0.05, 0.5, 0.95])), rtol=0.05, atol=0.02
    )
    if family == "inverse-gamma":
        from scipy import stats

        shape, _, scale = stats.invgamma.fit(values, floc=0)
        assert np.allclose(found.parameters, (shape, scale), rtol=1e-3)


def test_a_fitted_p_value_is_too_kind_and_the_refitted_one_is_not():
    """Over samples of the family itself the refitted p is uniform; the naive one is not."""
    naive, refitted = [], []
    for seed in range(25):
        values = Fit("inverse-gamma", (8.0, 7.0)).sample(np.random.default_rng([3, seed]), 60)
        fit = fit_family(values, "inverse-gamma")
        naive.append(naive_p(values, fit))
        refitted.append(refitted_p(values, fit, replicates=19, seed=seed))
    assert np.mean(naive) > np.mean(refitted) + 0.15 and 0.3 < np.mean(refitted) < 0.7


def test_other_shapes_are_rejected_and_the_right_family_scores_best():
    rng = np.random.default_rng(5)
    two = np.concatenate([rng.normal(0.6, 0.05, 150), rng.normal(1.4, 0.05, 150)])
    assert refitted_p(two, fit_family(two, "inverse-gamma"), replicates=19) <= 0.05
    rng.shuffle(two)
    assert best_family(two[:150], two[150:])[0] == "empirical"
    normal = rng.normal(0.0, 1.0, 600)
    family, scored = best_family(normal[:300], normal[300:], ("normal", "inverse-gamma"))
    assert family == "normal" and set(scored) == {"normal"}  # a positive family cannot hold these
    assert crps(normal, Fit("normal", (0.0, 1.0))) == pytest.approx(0.564, abs=0.04)  # 1/sqrt(pi)
    assert ks_statistic(np.array([0.5]), Fit("normal", (0.5, 1.0))) == pytest.approx(0.5)


def test_a_level_fit_recovers_the_papers_form_and_is_refused_by_planners():
    fit = fit_curves(level_curves(6, np.random.default_rng(2)), "level", replicates=19)
    assert fit.gain == pytest.approx(2.0, rel=0.1) and fit.offset == pytest.approx(3.0, rel=0.3)
    seen = fit.diagnostics
    assert seen.r2 > 0.8 and seen.refitted_p > 0.05 and abs(seen.autocorrelation) < 0.2
    assert seen.coverage == pytest.approx(0.99, abs=0.03) and seen.held_out_p > 0.01 and seen.count == 180
    with pytest.raises(UsageError, match="reading='change'"):
        fit.version("L", size=1.0, work=1.0)


def test_a_change_fit_is_what_planners_add_up():
    curves = change_curves(8, np.random.default_rng(4))
    fit = fit_curves(curves, "change", replicates=0)
    version = fit.version("L", size=1.0, work=2.0)
    assert version.noise.mean == pytest.approx(1.0, abs=0.05)
    lowered = sum(version.progress(k) for k in range(1, 31)) * version.noise.mean
    assert lowered == pytest.approx(np.mean([5.0 - c.losses[-1] for c in curves]), rel=0.02)


def test_rising_losses_need_a_family_with_negative_values():
    rng = np.random.default_rng(6)
    curves = change_curves(4, rng)
    bumpy = [
        LegCurve(c.seed, 0, 0, "gold", 10, 100, 0.0, c.losses + 0.2 * rng.standard_normal(30), start=5.0)
        for c in curves
    ]
    with pytest.raises(UsageError, match="losses rise"):
        fit_curves(bumpy, "change", replicates=0)
    chosen = fit_curves(bumpy, "change", family=None, replicates=0)
    assert chosen.noise.family in ("normal", "empirical") and chosen.diagnostics.crps
    assert chosen.diagnostics.autocorrelation < -0.2  # a loss that jumps up comes down again


def test_autocorrelation_by_hand():
    assert autocorrelation([np.array([1.0, -1.0, 1.0, -1.0])]) == pytest.approx(-0.75)


def test_switches_are_students_t():
    rng = np.random.default_rng(7)
    made = [
        LegSwitch(
            i,
            1,
            1,
            "both",
            0.5,
            np.array([1.0]),
            (10, 100, 0.0),
            (10, 50, 0.5),
            2.0,
            None,
            1.0 + 0.8 + 0.1 * float(rng.standard_t(4)),
        )
        for i in range(200)
    ]
    fit = fit_switches(made, replicates=19)
    assert fit.noise.parameters[0] == pytest.approx(0.8, abs=0.03) and fit.positive == 1.0 and fit.refitted_p > 0.04
    assert fit.noise.distribution.mean == pytest.approx(0.8, abs=0.03)
    with pytest.raises(UsageError, match="at least 3"):
        fit_switches(made[:2])

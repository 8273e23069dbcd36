"""Dependent noise against closed forms: normal sums, the estimate, and what the past says of the future."""

import math

import numpy as np
import pytest

from relaytrain.core.dependence import (
    Dependence,
    NoiseBelief,
    NoisePast,
    draw_latent,
    estimate,
    from_normal,
    spread_by_epoch,
    sure,
    to_normal,
)
from relaytrain.core.distribution import Empirical, InverseGamma, LogNormal, Normal
from relaytrain.core.errors import UsageError

SAMPLES = 40_000
CLOSE = 5.0 / math.sqrt(SAMPLES)  # five standard errors of a correlation
SETTINGS = [Dependence(), Dependence(0.7, 0.0), Dependence(0.0, 0.5), Dependence(0.6, 0.3)]


@pytest.mark.parametrize("dependence", SETTINGS, ids=str)
def test_draws_have_the_correlations_they_should(dependence):
    versions, epochs = (0, 0, 1, 1, 0), range(1, 6)
    z = draw_latent(sure(dependence), NoisePast(), epochs, 2, samples=SAMPLES, seed=1)
    path = np.array([z[:, m, i] for i, m in enumerate(versions)])
    common, rho, at = dependence.common, dependence.correlation, range(5)
    wanted = np.array(
        [[common * (versions[j] == versions[k]) + (1 - common) * rho ** abs(j - k) for k in at] for j in at]
    )
    assert np.abs(np.cov(path) - wanted).max() < 2 * CLOSE
    assert np.abs(dependence.matrix(epochs, versions) - wanted).max() < 1e-12


@pytest.mark.parametrize("dependence", SETTINGS[1:], ids=str)
def test_the_past_moves_and_narrows_the_future_as_the_normal_law_says(dependence):
    past = NoisePast((1, 2, 3), (0, 0, 1), (1.2, 0.8, -0.5))
    z = draw_latent(sure(dependence), past, (4, 5), 2, samples=SAMPLES, seed=2)
    every = dependence.matrix((1, 2, 3, 4, 5), (0, 0, 1, 0, 0))
    gain = every[3:, :3] @ np.linalg.inv(every[:3, :3])
    mean, spread = gain @ past.z, every[3:, 3:] - gain @ every[:3, 3:]
    drawn = z[:, 0]
    assert np.abs(drawn.mean(axis=0) - mean).max() < CLOSE
    assert np.abs(np.cov(drawn.T) - spread).max() < 2 * CLOSE


@pytest.mark.parametrize(
    "of",
    [InverseGamma(1.0, 0.03), LogNormal(1.1, 0.05), Normal(1.0, 0.2), Empirical((0.7, 0.9, 1.0, 1.1, 1.4))],
    ids=str,
)
def test_values_and_normal_figures_go_back_and_forth(of):
    z = np.linspace(-3, 3, 61)
    x = from_normal(of, z)
    assert (np.diff(x) > 0).all()
    np.testing.assert_allclose(to_normal(of, x), z, atol=1e-4)
    drawn = np.sort(of.sample(np.random.default_rng(3), SAMPLES))
    below = np.searchsorted(drawn, from_normal(of, np.array([-1.0, 0.0, 1.5]))) / SAMPLES
    np.testing.assert_allclose(below, [0.1587, 0.5, 0.9332], atol=2 * CLOSE)


@pytest.mark.parametrize("truth", SETTINGS, ids=str)
def test_forty_runs_tell_the_dependence(truth):
    epochs, versions = tuple(range(1, 31)), (0,) * 12 + (1,) * 18
    root = np.linalg.cholesky(truth.matrix(epochs, versions) + 1e-12 * np.eye(30))
    random = np.random.default_rng(4)
    runs = [NoisePast(epochs, versions, tuple(root @ random.standard_normal(30))) for _ in range(40)]
    found = estimate(runs).mean
    assert found.correlation == pytest.approx(truth.correlation, abs=0.12)
    assert found.common == pytest.approx(truth.common, abs=0.17)


def test_spread_of_a_sum_is_the_quadratic_form():
    weights, dependence = np.array([0.5, 0.4, 0.3]), Dependence(0.6, 0.2)
    matrix = dependence.matrix((1, 2, 3), (0, 0, 0))
    wanted = [math.sqrt(weights[:n] @ matrix[:n, :n] @ weights[:n]) for n in (1, 2, 3)]
    np.testing.assert_allclose(spread_by_epoch(weights, dependence), wanted)


def test_a_belief_is_drawn_by_its_weights():
    belief = NoiseBelief((Dependence(), Dependence(0.0, 1.0)), (0.75, 0.25))
    z = draw_latent(belief, NoisePast(), (1, 2), 1, samples=1000, seed=5)[:, 0]
    assert (np.abs(z[:, 0] - z[:, 1]) < 1e-9).sum() == 250


def test_impossible_figures_are_refused():
    with pytest.raises(UsageError, match="common 0"):
        Dependence(1.0, 0.0)

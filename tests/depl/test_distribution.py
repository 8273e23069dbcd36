"""Sums of independent variables: exact quantiles against closed forms, other libraries' integrals and samples."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relaytrain.core.distribution import (
    Empirical,
    InverseGamma,
    LogNormal,
    Normal,
    StudentT,
    frequencies_for,
    weighted_sum,
)
from relaytrain.core.errors import UsageError
from relaytrain.core.fourier import Label

some = settings(max_examples=40, derandomize=True, deadline=None, database=None)
noises = st.one_of(
    st.builds(InverseGamma, st.floats(0.5, 2.0), st.floats(0.005, 0.4)),
    st.builds(StudentT, st.floats(-0.2, 0.2), st.floats(0.01, 0.1), st.sampled_from([4.0, 5.0, 9.0])),
    st.builds(Normal, st.floats(-1.0, 1.0), st.floats(0.05, 0.5)),
)
sums = st.lists(
    st.tuples(st.floats(0.2, 1.5).flatmap(lambda f: st.sampled_from([f, -f])), noises), min_size=1, max_size=5
)


@pytest.mark.parametrize(("mean", "variance"), [(1.02, 0.031), (0.98, 0.3), (2.0, 0.001), (1.0, 0.8), (1.0, 2.0)])
@pytest.mark.parametrize("omega", [0.01, 0.5, 0.99])
def test_one_inverse_gamma_is_scipys(mean, variance, omega):
    from scipy.stats import invgamma

    one = InverseGamma(mean, variance)
    theirs = invgamma(one.shape, scale=one.scale)
    close = 1e-8 if one.shape > 4 else 1e-4 if one.shape > 3 else 1e-3  # tails of order near 2 get a shorter period
    assert weighted_sum([(1.0, one)]).quantile(omega) == pytest.approx(theirs.ppf(omega), abs=close)
    assert weighted_sum([(-1.0, one)]).quantile(omega) == pytest.approx(-theirs.ppf(1 - omega), abs=close)


def normal_quantile(terms, omega, constant=0.0):
    """The quantile if the sum were normal. Too low, so unsafe, when a heavy-tailed switch dominates."""
    mean = constant + sum(f * d.mean for f, d in terms)
    return mean + NormalDist().inv_cdf(omega) * math.sqrt(sum(f * f * d.variance for f, d in terms))


def label(factor, of, frequencies):
    """The label of factor * variable."""
    return Label(factor * of.mean, of.log_cf(factor * frequencies.at), frequencies)


@pytest.mark.parametrize(("nu", "close"), [(3.0, 1e-5), (4.0, 1e-7), (5.0, 1e-7), (40.0, 1e-7)])
def test_one_t_is_scipys(nu, close):
    from scipy.stats import t

    found = weighted_sum([(1.0, StudentT(0.3, 0.2, nu))])
    for omega in (0.05, 0.9, 0.999):
        assert found.quantile(omega) == pytest.approx(0.3 + 0.2 * t(nu).ppf(omega), abs=close)


def test_normals_add_in_closed_form():
    terms = [(2.0, Normal(1.0, 0.3)), (-1.0, Normal(0.5, 0.4))]
    closed = NormalDist(1.5, math.hypot(0.6, 0.4))
    found = weighted_sum(terms, 10.0)
    for omega in (1e-4, 0.3, 0.999):
        assert found.quantile(omega) == pytest.approx(10.0 + closed.inv_cdf(omega), abs=1e-9)
        assert normal_quantile(terms, omega, 10.0) == pytest.approx(10.0 + closed.inv_cdf(omega), abs=1e-12)


def test_one_log_normal_is_the_exponential_of_a_normal():
    one = LogNormal(1.3, 0.2)
    for omega in (0.05, 0.5, 0.99):
        closed = math.exp(NormalDist(one.location, one.sigma).inv_cdf(omega))
        assert weighted_sum([(1.0, one)]).quantile(omega) == pytest.approx(closed, abs=1e-8)


def test_observed_values_keep_mean_and_variance():
    values = tuple(np.random.default_rng(5).gamma(3.0, 1.0, 200))
    one = Empirical(values)
    draws = one.sample(np.random.default_rng(6), 200_000)
    assert draws.mean() == pytest.approx(np.mean(values), abs=0.02)
    assert draws.var() == pytest.approx(np.var(values), rel=0.03)
    assert weighted_sum([(1.0, one)]).quantile(0.9) == pytest.approx(np.quantile(draws, 0.9), abs=0.03)


@pytest.mark.parametrize("omega", [0.05, 0.5, 0.95])
def test_sums_agree_with_samples(omega):
    terms = [(-0.7, InverseGamma(1.0, 0.2)), (0.5, LogNormal(1.0, 0.3)), (1.0, StudentT(0.1, 0.1, 4.0))]
    rng = np.random.default_rng(2)
    drawn = 3.0 + sum(factor * of.sample(rng, 400_000) for factor, of in terms)
    assert weighted_sum(terms, 3.0).quantile(omega) == pytest.approx(np.quantile(drawn, omega), abs=0.01)


@pytest.mark.parametrize("mean", [-2.0, -0.3, 0.0, 0.4, 1.5, 6.0])
def test_the_mean_of_what_counts_as_zero_at_least_in_closed_form(mean):
    normal = NormalDist(mean, 0.5)
    closed = mean * normal.cdf(0.0 + 2.0 * mean) + 0.25 * normal.pdf(0.0)  # P(x > 0) = P(x < 2 mean)
    assert weighted_sum([(1.0, Normal(mean, 0.5))]).mean_at_least(0.0) == pytest.approx(closed, abs=1e-11)
    assert weighted_sum([(1.0, Normal(0.0, 0.5))], mean).mean_at_least(0.0) == pytest.approx(closed, abs=1e-11)
    assert weighted_sum([(1.0, Normal(mean, 0.0))]).mean_at_least(0.0) == max(mean, 0.0)


@pytest.mark.parametrize("constant", [0.1, 0.6, 1.5, 9.0, 1e6, -1e6])
def test_the_mean_of_what_counts_as_zero_at_least_agrees_with_a_million_samples(constant):
    terms = [(-0.7, InverseGamma(1.0, 0.2)), (0.5, LogNormal(1.0, 0.3)), (1.0, StudentT(0.1, 0.1, 4.0))]
    rng = np.random.default_rng(3)
    drawn = np.maximum(constant + sum(factor * of.sample(rng, 1_000_000) for factor, of in terms), 0.0)
    deviation = float(drawn.std()) / 1000.0
    found = weighted_sum(terms, constant).mean_at_least(0.0)
    assert found == pytest.approx(float(drawn.mean()), abs=4.0 * deviation + 1e-9 * abs(constant))


@some
@given(sums, st.randoms(use_true_random=False))
def test_convolution_commutes(terms, random):
    frequencies = frequencies_for(terms)
    labels = [label(f, d, frequencies) for f, d in terms]
    shuffled = random.sample(labels, len(labels))
    one, other = (sum(rest, first) for first, *rest in (labels, shuffled))
    assert one.mean == pytest.approx(other.mean, abs=1e-12)
    assert one.quantile(0.9) == pytest.approx(other.quantile(0.9), abs=1e-9)


@some
@given(sums)
def test_quantiles_grow_with_omega_and_undo_the_cdf(terms):
    total = weighted_sum(terms)
    levels = [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999]
    found = [total.quantile(omega) for omega in levels]
    assert found == sorted(found)
    assert [total.cdf(x) for x in found] == pytest.approx(levels, abs=1e-9)


def test_beyond_half_a_period_nothing_repeats():
    total = weighted_sum([(1.0, InverseGamma(1.0, 0.01))])
    period = total.frequencies.period
    for far in (0.5, 0.9, 1.0, 1.5, 7.25):
        assert total.cdf(total.mean + far * period) == 1.0
        assert total.cdf(total.mean - far * period) == 0.0


def test_a_heavy_tail_makes_the_normal_formula_unsafe():
    terms = [(-0.5, InverseGamma(1.0, 0.01))] * 10 + [(1.0, StudentT(0.3, 0.2, 3.0))]
    assert normal_quantile(terms, 0.999) < weighted_sum(terms).quantile(0.999)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="nu > 2"):
        StudentT(0.0, 1.0, 2.0)
    with pytest.raises(UsageError, match="mean > 0"):
        InverseGamma(0.0, 1.0)
    with pytest.raises(UsageError, match="at least 2"):
        Empirical((1.0,))
    one = weighted_sum([(1.0, Normal(0.0, 1.0))])
    with pytest.raises(UsageError, match="omega: got 1"):
        one.quantile(1.0)
    with pytest.raises(UsageError, match="do not add"):
        one + weighted_sum([(1.0, Normal(0.0, 2.0))])

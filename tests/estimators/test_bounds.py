"""Theory bounds against the theorem by hand, gradient descent on a quadratic, and what a correction must keep."""

from __future__ import annotations

import numpy as np
import pytest

from relaytrain.core.errors import UsageError
from relaytrain.estimators.bands import Bands
from relaytrain.estimators.learned.bounds import (
    Bound,
    Constants,
    calibrated_offset,
    shape_bound,
    theorem_1,
)
from relaytrain.estimators.learned.features import AHEAD, Seen, rows_of

PLAIN = Constants(
    smoothness=2.0, convexity=0.5, noise=0.1, gradient=1.0, heterogeneity=0.05, distance=3.0, local_steps=4
)


def seen_of(losses, positions):
    return Seen(
        rows_of([np.array([v]) for v in losses]),
        np.array(positions, dtype=float),
        np.ones((len(losses), 4)),
        np.zeros(len(losses), int),
    )


def test_theorem_1_by_hand():
    gamma = 32.0  # 8 * 2 / 0.5
    spread = 0.1 + 6 * 2 * 0.05 + 8 * 9 * 1.0
    wanted = 4.0 / (gamma + 99) * (2 * spread / 0.5 + 0.5 * gamma / 2 * 3.0)
    assert float(theorem_1(PLAIN, 100.0)) == pytest.approx(wanted)
    assert PLAIN.spread == pytest.approx(spread)


def test_theorem_1_holds_for_gradient_descent_on_a_quadratic():
    """One device, exact gradients, E = 1: the bound lies above the true gap at every step."""
    mu, big = 0.5, 2.0
    start = np.array([2.0, -1.0])
    curvature = np.array([mu, big])
    c = Constants(big, mu, 0.0, float(((curvature * start) ** 2).sum()), 0.0, float((start**2).sum()))
    w = start.copy()
    for t in range(1, 200):
        w = w - 2.0 / (mu * (c.gamma + t)) * curvature * w
        assert 0.5 * float((curvature * w**2).sum()) <= float(theorem_1(c, float(t + 1)))


def test_the_shape_bound_is_progress_that_fades():
    found = shape_bound(np.array([1.0, 1.0]), np.array([1.0, 20.0]), 3.0)
    assert found.shape == (2, AHEAD) and (found < 0).all() and (np.diff(found, axis=1) < 0).all()
    assert (found[1] > found[0]).all()  # later epochs are promised less
    assert found[0, 0] == pytest.approx(4 / 5 - 1)


@pytest.mark.parametrize("mode", ["shape", "level"])
def test_corrections_only_raise_the_robust_side_and_are_told(mode):
    seen = seen_of([1.0, 0.5, 2.0], [5, 10, 2])
    changes = Bands(*(np.full((3, AHEAD), v) for v in (-0.3, -0.5, -0.2)))
    made, words = Bound(mode, offset=50.0, constants=PLAIN).correct(seen, changes)
    assert (made.high >= changes.high).all() and (made.mean <= made.high).all()
    assert np.array_equal(made.mean, changes.mean) and np.array_equal(made.low, changes.low)
    assert len(words) == 1 and "raised" in words[0] and ("vacuous" in words[0]) == (mode == "level")


def test_off_and_uncalibrated_change_nothing():
    seen = seen_of([1.0], [5])
    changes = Bands(*(np.full((1, AHEAD), v) for v in (-0.3, -0.5, -0.2)))
    for bound in (Bound("off"), Bound("shape")):
        assert bound.correct(seen, changes) == (changes, ())
    with pytest.raises(UsageError, match="Theorem 1"):
        Bound("level")
    with pytest.raises(UsageError, match="L >= mu"):
        Constants(1.0, 2.0, 0, 0, 0, 0)


def test_calibration_keeps_overrides_rare():
    rng = np.random.default_rng(1)
    losses, positions = rng.uniform(0.3, 2.0, 400), rng.integers(1, 10, 400)
    seen = seen_of(losses, positions)
    high = -losses[:, None] * rng.uniform(0.0, 0.05, (400, 1)) * np.ones((1, AHEAD))
    changes = Bands(high - 0.1, high - 0.2, high)
    offset = calibrated_offset(seen, changes)
    fired = (shape_bound(seen.loss, seen.position, offset)[:, 0] > high[:, 0]).mean()
    assert 0.03 <= fired <= 0.05
    assert calibrated_offset(seen, Bands(high, high, high * 0 - losses[:, None])) is None

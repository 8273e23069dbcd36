"""Handovers made later: one curve and its progress by epoch, against laws that are known."""

from __future__ import annotations

import numpy as np
import pytest

from relaytrain.core.law import LevelLaw
from relaytrain.estimators.learned.late_handovers import LATER, Entered, entered_from, shared_curve, shared_twin
from relaytrain.estimators.learned.tail import HORIZONS

CURVE = np.array([0.2, 0.6, 9.0, 2.0])


def law_of(curve, paces):
    """A law of one pair whose progress goes from the first of `paces` to the last, LATER epochs from now."""
    mult = np.interp(np.arange(LATER[-1] + 1), LATER, paces)[:, None]
    return LevelLaw(curve[None, :], np.zeros((1, 1)), np.zeros((1, 1)), mult)


def leg(law, later, start, lift=1.0):
    losses, loss = [], np.array(start)
    for epoch in range(later + 2, later + 2 + HORIZONS[-1]):  # its first epoch has been done
        loss = law.next_loss(epoch, loss, 0, 0)
        losses.append(float(loss))
    path = np.array(losses)[np.array(HORIZONS) - 1]
    return Entered(later, start, path, path * lift)


@pytest.mark.parametrize("paces", [(0.3, 0.6, 1.0), (1.0, 1.0, 1.0), (0.8, 0.5, 1.0)])
def test_a_law_whose_progress_grows_is_found_again(paces):
    law = law_of(CURVE, paces)
    legs = [leg(law, later, start, 1.2) for later, start in zip(LATER, (0.9, 0.6, 0.45), strict=True)]
    curve, found = shared_curve(legs, 4.0)
    assert found[-1] == 1.0 and (found <= 1.0).all()
    again = law_of(curve, found)
    for one in legs:
        said = leg(again, one.later, one.start).mean
        assert np.abs(np.log(said / one.mean))[:8].max() < 0.12  # of one in two, up to 21 epochs ahead
    twin, slow, scatter = shared_twin(curve, found, legs)
    assert twin[0] >= curve[0] and 0.0 < slow <= 1.0 and np.array_equal(twin[1:], curve[1:])
    assert scatter == pytest.approx(np.log(1.2) / 1.6449, abs=0.05)


def test_an_epoch_is_taken_back_exactly():
    curves, pace = np.stack([CURVE, CURVE * [0.5, 2.0, 1.0, 0.5]]), np.array([0.4, 1.0])
    losses = np.array([0.5, 0.7])
    began = entered_from(curves, losses, pace, 4.0)
    for curve, factor, before, after in zip(curves, pace, began, losses, strict=True):
        law = LevelLaw(curve[None, :], np.zeros((1, 1)), np.zeros((1, 1)), np.array([[factor]]))
        assert float(law.next_loss(1, np.array(before), 0, 0)) == pytest.approx(after, abs=1e-7)
    assert (began > losses).all()
    assert entered_from(curves, np.array([0.1, 0.05]), pace, 4.0).tolist() == [
        0.1,
        0.05,
    ]  # below the floor nothing moves


def test_legs_that_never_fall_hardly_move():
    still = [Entered(later, 0.5, np.full(len(HORIZONS), 0.5), np.full(len(HORIZONS), 0.6)) for later in LATER]
    curve, paces = shared_curve(still, 4.0)
    assert (paces == 1.0).all() and curve[2] >= 1e9

"""The yardstick of `benchmarks/decisions.py` that knows curves and not luck, against luck drawn many times."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from relaytrain.core.cost import CostTable
from relaytrain.core.problem import Pair
from relaytrain.traces.atlas import Atlas, AtlasLeg, LegKey

pytestmark = pytest.mark.slow

FILE = Path(__file__).parents[2] / "benchmarks" / "known_curves.py"
SCATTER, TARGET, CAP_J, SEED = 0.06, 0.5, 400.0, 7
SCHEDULES = (((0, 4), (1, 0)), ((0, 8), (1, 0)))


@pytest.fixture(scope="module")
def known_curves():
    spec = importlib.util.spec_from_file_location("known_curves", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def curve(way: int, epoch: np.ndarray) -> np.ndarray:
    """True losses: gold's from 2.3, bronze's lower the longer gold was trained."""
    floor, start = (0.6, 1.7) if way == 0 else (0.46 if way == 4 else 0.40, 0.5)
    return floor + start * (1.0 + epoch / 9.0) ** -4.0


def made(rng: np.random.Generator) -> tuple[Atlas, CostTable]:
    atlas = Atlas("made", (Pair("full", "gold"), Pair("small", "bronze")), 0, "d" * 64)
    epochs = np.arange(1, 25)
    noisy = {way: curve(way, epochs) * np.exp(SCATTER * rng.standard_normal(24)) for way in (0, 4, 8)}
    atlas.seeds[SEED] = {
        LegKey((), 0): AtlasLeg(2.3, noisy[0].tolist()),
        LegKey(((0, 4),), 1): AtlasLeg(1.1, noisy[4].tolist()),
        LegKey(((0, 8),), 1): AtlasLeg(1.0, noisy[8].tolist()),
    }
    stay, change = np.array([1.0, 5.0]), np.array([[0.0, 2.0], [2.0, 0.0]])
    return atlas, CostTable(stay, change, stay, change)


def drawn(rng: np.random.Generator, gold: int, deadline_s: float, loops: int) -> tuple[float, float]:
    """Mean joules until the target and the share in time, by drawing."""
    spent, in_time = [], 0
    for _ in range(loops):
        epochs = np.concatenate((curve(0, np.arange(1, gold + 1)), curve(gold, np.arange(1, 25))))
        losses = epochs * np.exp(SCATTER * rng.standard_normal(len(epochs)))
        costs = np.cumsum([1.0] * gold + [7.0] + [5.0] * 23)  # seconds, and joules
        hit = int(np.argmax(losses <= TARGET)) if (losses <= TARGET).any() else len(costs) - 1
        spent.append(costs[hit] if losses[hit] <= TARGET else CAP_J)
        in_time += costs[hit] <= deadline_s and losses[hit] <= TARGET
    return float(np.mean(spent)), in_time / loops


def test_expected_energy_and_chance_are_those_of_luck_drawn(known_curves):
    rng = np.random.default_rng(5)
    atlas, costs = made(rng)
    known = known_curves.KnownCurves(atlas, SEED, costs)
    for legs in SCHEDULES:
        energy_j, chance = known.judged(legs, TARGET, 60.0, CAP_J)
        mean_j, share = drawn(rng, legs[0][1], 60.0, 600)
        assert energy_j == pytest.approx(mean_j, rel=0.2) and chance == pytest.approx(share, abs=0.12)
    best, least_j, _ = known.best(SCHEDULES, TARGET, 600.0, asked=0.9, most_j=CAP_J)
    figures = {legs: known.judged(legs, TARGET, 600.0, CAP_J)[0] for legs in SCHEDULES}
    assert best == min(figures, key=figures.get) and least_j == figures[best]


def test_too_tight_a_deadline_takes_the_surest(known_curves):
    atlas, costs = made(np.random.default_rng(5))
    known = known_curves.KnownCurves(atlas, SEED, costs)
    best, _, chance = known.best(SCHEDULES, TARGET, 20.0, asked=0.9, most_j=CAP_J)
    assert chance < 0.9
    assert chance >= max(known.judged(legs, TARGET, 20.0, CAP_J)[1] for legs in SCHEDULES) - known_curves.NEAR
    assert best in SCHEDULES
    assert known.judged((((0, 4), (1, 4), (0, 0))), TARGET, 20.0, CAP_J) == (CAP_J, 0.0)  # not recorded

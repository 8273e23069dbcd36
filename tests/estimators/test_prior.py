"""The `prior` estimator against worlds drawn from its own assumptions, and against what it must never do."""

from __future__ import annotations

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.core.errors import ScenarioError
from relaytrain.core.law import EpochLaw, LevelLaw, begin
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.estimators import Prior
from relaytrain.estimators.prior.belief import CurveBelief, Noise
from relaytrain.estimators.prior.epoch_tables import StepsPrior
from relaytrain.estimators.prior.robust_twin import quantiles

PAIRS = (rt.Pair("L", "gold"), rt.Pair("S", "gold"), rt.Pair("S", "bronze"))


def belief(*, pace: float = 0.3, floor: float = 0.05, jump: float = 0.1, noise: Noise | None = None) -> CurveBelief:
    curves = np.array([[0.4, 1.9, 2.0, 1.2], [0.2, 2.0, 5.0, 1.2], [0.1, 2.0, 8.0, 1.2]])
    jumps = np.full((3, 3), 0.1) * (1 - np.eye(3))
    spread = np.full((3, 3), jump) * (1 - np.eye(3))
    return CurveBelief(
        PAIRS, curves, np.ones((1, 3)), np.full(3, pace), np.full(3, floor), jumps, jumps * 0, spread, noise or Noise()
    )


def epochs(pair: int, losses, first: int = 1, probed: float | None = None) -> list[EpochOutcome]:
    rows = []
    for k, loss in enumerate(losses):
        decision = Decision(first + k, *PAIRS[pair])
        rows.append(EpochOutcome(decision, float(loss), 1.0, 1.0, handover_loss=probed if k == 0 else None))
    return rows


def ahead(law, level, pair: int, loss: float, steps: int) -> float:
    loss = begin(law, loss, pair, level)
    for k in range(steps):
        loss = float(law.next_loss(k + 1, np.array(loss), pair, pair, level))
    return loss


def true_path(
    b: CurveBelief, pair: int, start: float, pace: float, steps: int, floor: float | None = None
) -> np.ndarray:
    a, drop, s, alpha = b.curves[pair]
    a = a if floor is None else floor
    u = ((start - a) / drop) ** (-1 / alpha)
    return a + drop * (u + pace * np.arange(1, steps + 1) / s) ** -alpha


def test_without_history_the_expected_law_is_the_prior():
    prior = Prior(belief(), 0, 2.3)
    law = prior.law([], PAIRS)
    assert isinstance(law, LevelLaw) and law.monotone and law.autonomous
    assert np.allclose(law.curves[:, 1:], belief().curves[:, 1:], rtol=0.05)
    for pair in range(3):
        wanted = true_path(belief(), pair, 2.3 if pair == 0 else 2.4, 1.0, 20)[-1]
        got = ahead(law, "expected", pair, 2.3 if pair == 0 else 2.4, 20)
        assert got == pytest.approx(wanted, rel=0.03)


def test_robust_is_never_better_than_expected_and_levels_are_ordered():
    law = Prior(belief(), 0, 2.3).law(epochs(0, true_path(belief(), 0, 2.3, 0.8, 6)), PAIRS)
    for pair in range(3):
        losses = [ahead(law, level, pair, 1.5, 12) for level in (0.2, "expected", 0.75, 0.95, 0.99)]
        assert losses == sorted(losses)


@pytest.mark.parametrize("pace", [0.5, 1.0, 1.8])
def test_the_run_s_own_pace_is_found(pace):
    b = belief(noise=Noise(noise=0.02))
    history = epochs(0, true_path(b, 0, 2.3, pace, 10))
    law = Prior(b, 0, 2.3).law(history, PAIRS)
    wanted = true_path(b, 0, 2.3, pace, 30)[-1]
    naive = ahead(Prior(b, 0, 2.3).law([], PAIRS), "expected", 0, history[-1].loss, 20)
    got = ahead(law, "expected", 0, history[-1].loss, 20)
    assert abs(got - wanted) <= max(abs(naive - wanted), 0.03)
    assert law.curves[0, 2] == pytest.approx(b.curves[0, 2] / pace, rel=0.35)


def test_an_untried_pair_is_shifted_by_the_common_residual_only():
    b = belief()
    slow = Prior(b, 0, 2.3).law(epochs(0, true_path(b, 0, 2.3, 0.5, 12)), PAIRS)
    fresh = Prior(b, 0, 2.3).law([], PAIRS)
    assert slow.curves[2, 2] > fresh.curves[2, 2] * 1.05  # slower than the prior said ...
    assert slow.curves[2, 2] / b.curves[2, 2] < slow.curves[0, 2] / b.curves[0, 2]  # ... but less than the tried one
    alone = Prior(belief(noise=Noise(common=0.0)), 0, 2.3).law(epochs(0, true_path(b, 0, 2.3, 0.5, 12)), PAIRS)
    assert alone.curves[2, 2] == pytest.approx(fresh.curves[2, 2], rel=0.05)


def test_a_pair_may_be_predicted_never_to_arrive():
    b = belief(floor=0.15)
    stalled = true_path(b, 0, 2.3, 1.3, 25, floor=0.65)  # its asymptote lies above what the prior said
    law = Prior(b, 0, 2.3).law(epochs(0, stalled), PAIRS)
    assert law.curves[0, 0] > 0.5
    assert ahead(law, "expected", 0, stalled[-1], 2000) > 0.5
    assert Prior(b, 0, 2.3).law([], PAIRS).curves[0, 0] < 0.45


def test_one_odd_epoch_does_not_settle_it():
    b = belief()
    usual = list(true_path(b, 0, 2.3, 1.0, 10))
    odd = [*usual[:5], 2.2, *usual[6:]]
    plain, shaken = (Prior(b, 0, 2.3).law(epochs(0, path), PAIRS) for path in (usual, odd))
    assert shaken.curves[0, 2] == pytest.approx(plain.curves[0, 2], rel=0.25)


def test_jumps_learn_from_the_handovers_of_the_run():
    b = belief()
    history = [*epochs(0, [1.5, 1.2]), *epochs(1, [1.5], 3, probed=1.6)]  # jumped by 0.4, the prior said 0.1
    law = Prior(b, 0, 2.3).law(history, PAIRS)
    fresh = Prior(b, 0, 2.3).law([], PAIRS)
    assert law.jump0[0, 1] > 0.25
    assert fresh.jump0[1, 2] < law.jump0[1, 2] < law.jump0[0, 1]
    assert (law.jump0_robust >= law.jump0).all()
    assert (law.jump0_robust - law.jump0)[0, 1] < (fresh.jump0_robust - fresh.jump0)[0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_the_95_curve_covers_95_percent_of_worlds_so_far_ahead(memory):
    """240 worlds drawn from the belief; the level is path-wise: 95 % of losses h epochs ahead lie below its curve, h =
    1 too."""
    b = belief(noise=Noise(correlation=memory))
    chance = np.random.default_rng(7)
    below: dict[int, list[bool]] = {1: [], 3: [], 8: [], 20: [], 40: []}
    for _ in range(240):
        common, own = chance.standard_normal(2)
        pace = np.exp(0.3 * (np.sqrt(0.5) * common + np.sqrt(0.5) * own))
        floor = max(0.4 + 0.05 * chance.standard_normal(), 0.0)
        scatter = np.empty(48)
        state = chance.standard_normal()
        for k in range(len(scatter)):
            state = memory * state + np.sqrt(1.0 - memory**2) * chance.standard_normal()
            scatter[k] = state
        losses = true_path(b, 0, 2.3, pace, 48, floor) * np.exp(0.05 * scatter)
        law = Prior(b, 0, 2.3).law(epochs(0, losses[:8]), PAIRS)
        for steps, hits in below.items():
            hits.append(losses[7 + steps] <= ahead(law, 0.95, 0, losses[7], steps))
    shares = {steps: float(np.mean(hits)) for steps, hits in below.items()}
    assert all(0.92 <= share <= 0.99 for share in shares.values()), shares


def test_a_lucky_epoch_is_seen_as_luck():
    """Nine epochs on the curve and a tenth 15 % below it, with 5 % of scatter: the next loss is expected back on the
    curve."""
    b = belief(noise=Noise(correlation=0.0))
    usual = true_path(b, 0, 2.3, 1.0, 11)
    law = Prior(b, 0, 2.3).law(epochs(0, [*usual[:9], 0.85 * usual[9]]), PAIRS)
    assert law.standing[0] > 0.08 and not law.standing[1:].any()
    assert ahead(law, "expected", 0, 0.85 * usual[9], 1) == pytest.approx(usual[10], rel=0.04)


def test_a_pair_has_its_own_scatter():
    prior = {"noise": 0.1, "correlation": 0.0, "curves": [{"nodes": "bronze", "noise": 0.02}]}
    law = Prior.of(rt.load_scenario({**BASE, "prior": prior})).law([], rt.load_scenario(BASE).problem.pairs)
    assert law.scatter == pytest.approx([0.1, 0.02])


def test_it_is_a_pure_function_of_the_history():
    b = belief()
    history = epochs(0, true_path(b, 0, 2.3, 0.7, 9))
    one, other = (Prior(b, 0, 2.3).law(history, PAIRS) for _ in range(2))
    for name in ("curves", "jump0", "mult_robust", "curves_robust", "jump0_robust"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def test_weighted_quantiles_against_repetition():
    chance = np.random.default_rng(1)
    values, counts = chance.standard_normal((2, 7, 3)), chance.integers(1, 6, (2, 7))
    (found,) = quantiles(values, counts.astype(float), (0.7,))
    for p in range(2):
        for t in range(3):
            plain = np.sort(np.repeat(values[p, :, t], counts[p]))
            assert found[p, t] == plain[int(np.ceil(0.7 * len(plain) - 1e-9)) - 1]


# --- from scenarios

BASE = {
    "target": {"loss": 0.3, "deadline": 100.0},
    "versions": [{"name": "L"}, {"name": "S"}],
    "node_sets": [{"name": "gold"}, {"name": "bronze"}],
    "start": {"loss": 2.0, "version": "L", "nodes": "gold"},
    "pairs": [
        {"version": "L", "nodes": "gold", "seconds": 1, "energy": 1},
        {"version": "S", "nodes": "bronze", "seconds": 1, "energy": 1},
    ],
    "law": {"kind": "level", "robust_progress": 0.7, "curves": [{"floor": 0.1, "drop": 2, "scale": 3, "power": 1.2}]},
}


def test_a_scenario_s_prior_overrides_its_law_entry_by_entry():
    prior = {
        "noise": 0.03,
        "curves": [{"scale": 9.0, "spread": 0.2}, {"version": "S", "floor": 0.25, "floor_spread": 0.04}],
        "handovers": [{"from": "L on gold", "to": "S on bronze", "mean": 0.4, "mean_per_loss": 0.1, "spread": 0.15}],
    }
    loaded = rt.load_scenario({**BASE, "prior": prior})
    made = Prior.of(loaded).belief
    assert made.curves.tolist() == [[0.1, 2.0, 9.0, 1.2], [0.25, 2.0, 9.0, 1.2]]
    assert made.pace_spread.tolist() == [0.2, 0.2] and made.floor_spread.tolist() == [0.0, 0.04]
    assert (made.jump0[0, 1], made.jump1[0, 1], made.jump_spread[0, 1]) == (0.4, 0.1, 0.15)
    assert made.jump0[1, 0] == 0.0 and made.noise == Noise(0.03, 0.6, 0.5)
    assert rt.load_scenario(loaded.resolved) == loaded


def test_without_a_prior_the_law_s_robust_figures_are_the_spread():
    made = Prior.of(rt.load_scenario(BASE)).belief
    assert made.pace_spread == pytest.approx([-np.log(0.7) / 1.645] * 2, rel=1e-3)
    law = Prior.of(rt.load_scenario(BASE)).law([], made.pairs)
    wanted = [ahead(rt.load_scenario(BASE).law, level, 0, 2.0, 10) for level in ("expected", 0.95)]
    assert ahead(law, "expected", 0, 2.0, 10) == pytest.approx(wanted[0], rel=0.02)
    assert ahead(law, 0.95, 0, 2.0, 10) == pytest.approx(wanted[1], rel=0.12)


@pytest.mark.parametrize(
    ("prior", "key"),
    [
        ({"curves": [{"version": "X"}]}, "prior.curves[0].version"),
        ({"handovers": [{"to": "S on nowhere"}]}, "prior.handovers[0].to"),
        ({"noise": 0}, "prior.noise"),
        ({"spraed": 1}, "spraed"),
        ({"curves": [{"spread": -1}]}, "prior.curves[0].spread"),
    ],
)
def test_a_wrong_prior_names_its_key(prior, key):
    with pytest.raises(ScenarioError, match="prior") as caught:
        rt.load_scenario({**BASE, "prior": prior})
    assert key in str(caught.value)


def test_leaving_out_a_node_set_leaves_out_its_prior():
    prior = {"curves": [{"nodes": "bronze", "floor": 0.2}], "handovers": [{"to": "S on bronze", "mean": 0.1}]}
    loaded = rt.load_scenario({**BASE, "prior": prior}, without=["bronze"])
    assert loaded.prior["curves"] == [] and loaded.prior["handovers"] == []
    assert rt.load_scenario(loaded.resolved) == loaded


def test_epoch_tables_get_one_factor_a_pair():
    loaded = rt.load_scenario("epoch_example")
    made = Prior.of(loaded)
    assert isinstance(made, StepsPrior)
    law = loaded.law
    assert isinstance(law, EpochLaw)
    pair = loaded.problem.start
    losses = loaded.problem.initial_loss + 0.5 * np.cumsum(np.minimum(law.run[:6, pair], 0.0))
    rows = [
        EpochOutcome(Decision(k + 1, *loaded.problem.pairs[pair]), float(loss), 1.0, 1.0)
        for k, loss in enumerate(losses)
    ]
    learned, fresh = made.law(rows, loaded.problem.pairs), made.law([], loaded.problem.pairs)
    assert np.allclose(fresh.run, law.run)
    gains = law.run[:, pair] < 0
    ratio = learned.run[gains, pair] / law.run[gains, pair]
    assert (ratio < 0.95).all() and (ratio > 0.4).all()
    assert (learned.run_robust >= learned.run - 1e-12).all()

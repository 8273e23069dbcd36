"""Windows, splits, metrics, conformal steps and exports against closed forms, sklearn and torch."""

from __future__ import annotations

import numpy as np
import pytest

from relaytrain.core.errors import UsageError
from relaytrain.core.npz import Wrong
from relaytrain.estimators.bands import Bands, ordered
from relaytrain.estimators.judging.kept_forecasts import kept
from relaytrain.estimators.judging.metrics import by_clusters, mean_by_clusters, score, winkler_of
from relaytrain.estimators.learned.bundle import LegCurve, bundle_of
from relaytrain.estimators.learned.calibration import (
    Adaptive,
    category_factors,
    conformal_factor,
    grown,
    scores,
    weighted_quantile,
)
from relaytrain.estimators.learned.change_model import fit_linear, node_inputs, paper_inputs, targets
from relaytrain.estimators.learned.features import (
    AHEAD,
    LONGEST,
    NAMES,
    Seen,
    per_epoch,
    rows_of,
    sqrt_ahead,
    sqrt_rate,
    tree_features,
    windows,
)
from relaytrain.estimators.learned.fitted_parts import forest_arrays
from relaytrain.estimators.learned.splits import by_configuration, by_seed, parts_of
from relaytrain.estimators.learned.tail import HORIZONS, PLAIN_POWER, growth_power, paths, rolled_out, rounds_of
from relaytrain.estimators.learned.trees import ARRAYS, doubled, exported, fit_forest, joined
from relaytrain.traces.trace_files import bundled_traces


def test_windows_hold_what_came_before_and_after(campaign):
    found = windows(campaign.curves, least=3)
    assert len(found) == sum(max(len(c.losses) - AHEAD - 2, 0) for c in campaign.curves)
    gold = campaign.curves[0]
    first = found.take(np.flatnonzero((found.seed == 0) & (found.run == 0)))
    assert np.array_equal(first.seen.history[2, -5:], gold.losses[:5])
    assert np.isnan(first.seen.history[2, : LONGEST - 5]).all()
    assert np.allclose(first.target[2], gold.losses[5:10] - gold.losses[4])
    assert np.allclose(per_epoch(first.target)[2], np.diff(gold.losses[4:10]))


def test_a_start_stands_before_the_first_epoch(campaign):
    plain, led = windows(campaign.curves, least=3), windows(campaign.curves, least=3, with_start=True)
    assert np.array_equal(plain.target, led.target) and np.array_equal(plain.seen.position, led.seen.position)
    assert np.array_equal(led.seen.length, plain.seen.length + 1)
    none = windows(campaign.curves, least=0, with_start=True)
    assert (none.seen.position == 0).any() and (none.seen.length == 1).any()


def test_the_square_root_law_is_recovered_exactly():
    k = np.arange(1, 21)
    losses = 1.7 / np.sqrt(k + 2.5)
    history = np.full((1, LONGEST), np.nan)
    history[0, -12:] = losses[:12]
    rate = sqrt_rate(history)
    for h in range(1, 9):
        assert sqrt_ahead(history[:, -1], rate, float(h))[0] == pytest.approx(losses[11 + h], rel=1e-12)


@pytest.mark.parametrize("split", [by_configuration, by_seed])
def test_splits_never_share_a_configuration_or_a_seed(campaign, split):
    tested = []
    for fold in split(campaign):
        parts = (fold.train, fold.calibration, fold.test)
        assert sum(len(p.curves) for p in parts) == len(campaign.curves)
        assert sum(len(p.switches) for p in parts) == len(campaign.switches)
        names = [{c.group if split is by_configuration and c.group else c.seed for c in p.curves} for p in parts]
        assert not names[0] & names[1] and not names[0] & names[2] and not names[1] & names[2]
        tested += [(c.seed, c.run) for c in fold.test.curves]
    assert sorted(tested) == sorted((c.seed, c.run) for c in campaign.curves)  # each curve tested once


def test_splits_refuse_too_little(campaign):
    with pytest.raises(UsageError, match="use --by seed"):
        next(by_configuration(campaign.only([c.stage == 0 for c in campaign.curves], [False] * len(campaign.switches))))
    with pytest.raises(UsageError, match="use --by configuration"):
        next(by_seed(campaign.of_seeds((0, 1))))


def test_metrics_by_hand():
    truth = np.array([0.0, 1.0, 2.0, 5.0])
    bands = Bands(np.array([0.5, 1.0, 2.5, 2.0]), np.array([-1.0, 1.5, 1.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    found = score(truth, bands)
    assert (found.mae, found.mil, found.icp, found.upper) == (1.0, 1.875, 0.5, 0.75)
    assert np.allclose(winkler_of(truth, bands), [2.0, 0.5 + 20 * 0.5, 2.0, 3.0 + 20 * 1.0])


def test_the_least_winkler_score_is_that_of_the_true_quantiles():
    rng = np.random.default_rng(1)
    truth = rng.standard_normal(200_000)
    best = min(
        np.linspace(1.0, 2.4, 29),
        key=lambda z: winkler_of(truth, Bands(truth * 0, truth * 0 - z, truth * 0 + z)).mean(),
    )
    assert best == pytest.approx(1.645, abs=0.06)


def test_quantiles_that_cross_are_brought_together():
    found = ordered(Bands(np.array([3.0, 0.0]), np.array([2.0, -1.0]), np.array([1.0, 1.0])))
    assert (found.low <= found.mean).all() and (found.mean <= found.high).all()
    assert (found.low[0], found.high[0]) == (1.5, 1.5)


def test_cluster_bootstrap_is_wider_than_independent_rows():
    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(8), 50)
    values = np.repeat(rng.standard_normal(8), 50) + 0.1 * rng.standard_normal(400)
    whole, rows = mean_by_clusters(values, clusters), mean_by_clusters(values, np.arange(400))
    assert whole.value == pytest.approx(values.mean()) and rows.value == pytest.approx(values.mean())
    assert whole.high - whole.low > 4 * (rows.high - rows.low)
    assert by_clusters(lambda i: float(values[i].mean()), clusters, draws=300).value == pytest.approx(values.mean())


def test_conformal_bands_cover_new_runs():
    """Runs with their own bias: coverage of the next run's windows is 0.9 on average, whatever the raw width."""
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(120):
        lengths = rng.integers(2, 30, size=40)
        runs = np.repeat(np.arange(40), lengths)
        truth = np.repeat(rng.standard_normal(40), lengths) + 0.3 * rng.standard_normal(len(runs))
        bands = Bands(truth * 0, truth * 0 - 0.4, truth * 0 + 0.4)
        factor = conformal_factor(scores(truth, bands), runs)
        new = rng.standard_normal() + 0.3 * rng.standard_normal(20)
        wide = grown(Bands(new * 0, new * 0 - 0.4, new * 0 + 0.4), factor)
        hits.append(((new >= wide.low) & (new <= wide.high)).mean())
    assert np.mean(hits) == pytest.approx(0.91, abs=0.04)
    assert conformal_factor(np.zeros(19), np.arange(19)) is None


def test_weighted_quantile_counts_weights():
    assert weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 8.0, 1.0]), 0.9) == 2.0
    assert weighted_quantile(np.array([1.0, np.inf]), np.array([1.0, 1.0]), 0.9) == np.inf


@pytest.mark.parametrize("wrong", [0.4, 1.0, 3.0])
def test_adaptive_inference_finds_the_coverage_whatever_the_model(wrong):
    rng = np.random.default_rng(4)
    warm = scores(rng.standard_normal(100), Bands(np.zeros(100), np.full(100, -1.645), np.full(100, 1.645)))
    adaptive, hits = Adaptive(warm), []
    for _ in range(400):
        factor = adaptive.factor()
        one = float(
            scores(
                np.array([wrong * rng.standard_normal()]), Bands(np.zeros(1), np.array([-1.645]), np.array([1.645]))
            )[0]
        )
        hits.append(one <= factor)
        adaptive.tell(one)
    assert np.mean(hits[50:]) >= 0.87


def test_tail_goes_on_from_the_learned_part_and_widens(campaign):
    seen = windows(campaign.curves).seen
    change = Bands(*(np.tile(np.linspace(-0.02, -0.1, AHEAD) * f, (len(seen), 1)) for f in (1.0, 1.5, 0.5)))
    found = paths(seen, change, 0.8)
    assert np.allclose(found.mean[:, :AHEAD], np.maximum(seen.loss[:, None] + change.mean, 0))
    assert (np.diff(found.mean[:, AHEAD - 1 :], axis=1) <= 1e-12).all()
    width = np.log(found.high[:, AHEAD - 1 :] / found.mean[:, AHEAD - 1 :])
    assert (np.diff(width, axis=1) >= -1e-12).all() and found.mean.shape[1] == len(HORIZONS)
    assert np.allclose(width / width[:, :1], (np.array(HORIZONS[AHEAD - 1 :]) / AHEAD) ** 0.8)


def test_a_law_rolled_out_by_itself_follows_its_own_curve():
    """A model that knows l' = 0.9 l gives 0.9^h l for as long as it is rolled out, and the tail goes on from there."""
    seen = Seen(
        rows_of([np.array([2.0, 1.8]), np.array([0.5])]), np.array([2.0, 0.0]), np.zeros((2, 4)), np.zeros(2, int)
    )
    steps = 0.9 ** np.arange(1, AHEAD + 1)

    def raw(now):
        change = now.loss[:, None] * (steps - 1.0)
        return Bands(change, change, change)

    mean = raw(seen).mean
    rolled = rolled_out(raw, seen, mean, 3)
    assert rolled_out(raw, seen, mean, 0) is None
    assert np.allclose(rolled, seen.loss[:, None] * 0.9 ** np.arange(AHEAD + 1, 4 * AHEAD + 1))
    found = paths(seen, raw(seen), 0.5, rolled).mean
    near = [h for h in HORIZONS if h <= 4 * AHEAD]
    assert np.allclose(found[:, : len(near)], seen.loss[:, None] * 0.9 ** np.array(near))
    assert (found[:, len(near)] < rolled[:, -1]).all() and (np.diff(found, axis=1) < 0).all()


def test_bands_widen_as_forecasts_of_runs_left_out_miss():
    """Misses that grow with the square root of the horizon, in logarithms, give the power one half."""
    rng, curves = np.random.default_rng(3), []
    for seed in range(400):
        walk = np.cumsum(0.05 * rng.standard_normal(40))
        curves.append(LegCurve(seed, 0, 0, "gold", 7, 100, 0.0, np.exp(walk)))
    still = growth_power(lambda seen: np.repeat(seen.loss[:, None], len(HORIZONS), axis=1), curves)
    assert still == pytest.approx(0.5, abs=0.05)
    assert growth_power(lambda seen: np.zeros((0, 0)), curves[:0]) == PLAIN_POWER
    assert (rounds_of(curves), rounds_of([])) == (3, 0)


@pytest.mark.train
@pytest.mark.slow
def test_forests_give_sklearns_numbers_missing_values_included(campaign):
    from sklearn.ensemble import HistGradientBoostingRegressor

    found = windows(campaign.curves, least=0, with_start=True)
    rows, target = tree_features(found.seen).reshape(-1, len(NAMES)), found.target.reshape(-1)
    assert np.isnan(rows).any()
    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.9, max_iter=25, early_stopping=False).fit(
        rows, target
    )
    assert np.abs(exported(model).walked(doubled(rows)) - model.predict(rows)).max() < 1e-9
    high = fit_forest(rows, target, 0.95, max_iter=25).walked(doubled(rows))
    assert (high >= target).mean() == pytest.approx(0.95, abs=0.03)


@pytest.mark.train
@pytest.mark.slow
def test_a_forest_that_would_never_end_is_refused(campaign):
    found = windows(campaign.curves)
    rows = tree_features(found.seen).reshape(-1, len(NAMES))
    arrays = fit_forest(rows, found.target.reshape(-1), None, max_iter=3).arrays()
    assert set(arrays) == {*ARRAYS, "baseline"}
    for name, bad in (("left", 0), ("right", 10**6), ("roots", 5)):
        broken = {**arrays, name: np.where(arrays["feature"] >= 0, bad, 0) if name != "roots" else np.array([bad])}
        with pytest.raises(Wrong, match=f"^{name}: "):
            forest_arrays(broken, "")


def test_linear_change_model_recovers_a_line_despite_outliers(campaign):
    rows = node_inputs(campaign.switches)
    rng = np.random.default_rng(6)
    truth = 0.5 + rows[:, 5] * 0.7 + 0.01 * rng.standard_normal(len(rows))
    truth[::11] += 5.0
    model = fit_linear(rows, truth, np.array([s.seed for s in campaign.switches]))
    clean = np.arange(len(rows)) % 11 != 0
    assert np.abs(model.bands(rows).mean - truth)[clean].max() < 0.1


def test_change_inputs_are_the_papers_and_targets_are_named(campaign):
    switch = campaign.switches[0]
    assert np.allclose(paper_inputs([switch])[0], [switch.ratio, *switch.history[-5:]])
    jump, first = targets([switch], "jump")[0], targets([switch], "first-epoch")[0]
    assert jump == pytest.approx(switch.probe_after - switch.history[-1])
    assert first == pytest.approx(switch.landed - switch.history[-1]) and first != jump


def test_parts_never_share_a_configuration_and_each_has_something(campaign):
    curves, switches = parts_of(campaign, 4)
    for groups in ([(c.group or f"seed {c.seed}", p) for c, p in zip(campaign.curves, curves, strict=True)],
                   [(s.group, p) for s, p in zip(campaign.switches, switches, strict=True)]):  # fmt: skip
        assert len(set(groups)) == len({group for group, _ in groups}) and {p for _, p in groups} == {0, 1, 2, 3}
    few = campaign.only([c.stage == 0 for c in campaign.curves], [False] * len(campaign.switches))
    assert set(parts_of(few, 4)[0]) == {0, 1, 2, 3}  # seeds
    assert len(parts_of(few.of_seeds((0,)), 4)[0]) == 1


def test_widths_by_category_are_raised_where_few_runs_are_independent():
    rng = np.random.default_rng(7)
    values, category = rng.standard_normal((1800, 2)), np.repeat([0, 1, 2], [890, 890, 20])
    runs = np.repeat(np.arange(180), 10)
    free, bound = category_factors(values, category, runs, runs), category_factors(values, category, runs, runs // 10)
    assert set(free) == set(bound) == {0, 1}  # the third has two runs
    for one in (0, 1):
        assert (
            bound[one]
            > free[one]
            > conformal_factor(values[category == one].reshape(-1), np.repeat(runs[category == one], 2))
        )


def test_of_few_runs_the_widest_score_does_not_rule():
    values, runs = np.arange(1.0, 101.0), np.arange(100) // 4  # 25 runs of four windows
    assert conformal_factor(values, runs) == pytest.approx(np.ceil(100 * 0.9 * 26 / 25))
    assert conformal_factor(values, runs, independent=1) == 95.0


def test_images_before_a_leg_are_those_of_the_legs_that_led_there():
    curves = bundle_of(bundled_traces()["digits"]).of_seeds((0,)).curves
    by_run = {c.run: c for c in curves}
    for curve in curves:
        leg, until, images = curve, curve.epoch, 0
        while leg.parent is not None:
            if "distill" in leg.configuration[-1]:  # its student knew nothing
                break
            leg = by_run[leg.parent]
            images, until = images + (until - leg.epoch) * leg.samples, leg.epoch
        assert curve.fixed == (curve.classes, curve.samples, curve.pruned, images)
    assert max(c.images for c in curves) > 30 * 800


@pytest.mark.train
@pytest.mark.slow
def test_joined_forests_are_the_mean_of_them(campaign):
    found = windows(campaign.curves)
    rows = tree_features(found.seen).reshape(-1, len(NAMES))
    table = doubled(rows)
    some = [fit_forest(rows[i::3], found.target.reshape(-1)[i::3], 0.5, max_iter=4 + i) for i in range(3)]
    assert np.allclose(joined(some).walked(table), np.mean([f.walked(table) for f in some], axis=0), atol=1e-12)


@pytest.mark.train
@pytest.mark.slow
def test_whole_curves_teach_what_their_windows_say(campaign):
    """The targets at every epoch of a piece are those of the windows that end there, long curves cut in pieces
    included."""
    from dataclasses import replace

    from relaytrain.estimators.learned.paper import _whole, run_scales

    long = replace(campaign.curves[0], losses=np.concatenate([c.losses for c in campaign.curves[:4]]))
    curves = (long, *campaign.curves[5:9])
    rows = windows(curves, least=0, with_start=True)
    scales = run_scales(rows, rows.target, relative=False)
    _, length, _, target, known = _whole(curves, scales, cumulative=True, with_start=True)
    whole = known.all(dim=2)
    taught = np.sort((target[whole].numpy() * np.array(scales.target_sd)).sum(axis=1))
    assert len(taught) == len(rows)  # every window once, at the seams of pieces too
    assert np.allclose(taught, np.sort(rows.target.sum(axis=1)), atol=1e-5)
    assert (known.any(dim=2).sum(dim=1) <= length).all()
    assert int(known[:, :, 0].sum()) == sum(len(c.losses) for c in curves)  # and one epoch ahead every loss of a leg
    just = replace(campaign.curves[0], losses=long.losses[:30])  # 31 with the start: its second piece has nothing new
    assert len(_whole((just,), scales, cumulative=True, with_start=True)[1]) == 1


def test_a_kept_fold_is_not_fitted_again_unless_something_changed(tmp_path, campaign):
    fold, other = list(by_configuration(campaign))[:2]
    made = []

    def make():
        made.append(1)
        return Bands(np.arange(3.0), np.arange(3.0) - 1, np.arange(3.0) + 1), 0.5

    first, again = kept(tmp_path, fold, ("auto", 1), make), kept(tmp_path, fold, ("auto", 1), make)
    assert len(made) == 1 and np.array_equal(first[0].low, again[0].low) and again[1] == 0.5
    (
        kept(tmp_path, fold, ("auto", 2), make),
        kept(tmp_path, other, ("auto", 1), make),
        kept(None, fold, ("auto", 1), make),
    )
    assert len(made) == 4
    for file in tmp_path.iterdir():
        file.write_bytes(b"torn")
    kept(tmp_path, fold, ("auto", 1), make)
    assert len(made) == 5

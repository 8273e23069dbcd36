"""What stands behind mcPipe's figures 2 to 4: update rules that meet where they must, a clock by hand arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from relaytrain.experiments.mcpipe import accuracy, comparison, figures
from relaytrain.experiments.mcpipe.accuracy import (
    FLOPS_PER_S,
    LINK_BITS_PER_S,
    AccuracyCurve,
    AccuracyScale,
    curves,
    steps,
)
from relaytrain.experiments.mcpipe.comparison import ComparisonTask, PipelineBench, accuracies
from relaytrain.experiments.over_seeds import Interval, all_of
from relaytrain.experiments.trainings import data_set

pytestmark = pytest.mark.train
TINY = AccuracyScale(updates=4, seeds=1, images=64, test_images=30, every=2)


@pytest.fixture(scope="module")
def bench():
    return PipelineBench.of(
        ComparisonTask("digits", family="vgg11", width=0.0625, shrink=1, images=80, test_images=40, batch=8, every=3)
    )


def test_rules_meet_where_they_must(bench):
    local = accuracies(bench, "local", 6)
    assert len(local) == 3 and all(0.0 <= value <= 1.0 for value in local)
    assert accuracies(bench, "delayed", 6) == accuracies(bench, "greedy", 6) == local  # one stage: nothing is delayed
    assert accuracies(bench, "data", 6, workers=1) == local
    assert accuracies(bench, "delayed", 6, cuts=(2, 5)) == accuracies(bench, "delayed", 6, cuts=(2, 5))


def test_the_clock_by_hand(bench):
    units = bench.units()
    flops, weights = sum(unit.train_flops for unit in units), sum(unit.weight_bytes for unit in units)
    for workers in (2, 3):
        clock = steps(units, workers)
        assert clock.seconds["Local"] == flops / 1e9
        ring = 2 * (workers - 1) / workers * weights * 8 / LINK_BITS_PER_S
        assert clock.seconds["data-distributed"] == pytest.approx(flops / FLOPS_PER_S[workers - 1] + ring)
        assert (
            clock.seconds["PipeDream"]
            == clock.seconds["GreedyUpdates"]
            <= clock.seconds["best-of"]
            <= clock.seconds["mcPipe"]
        )
        assert len(clock.cuts) == workers - 1 and clock.fill_s > clock.seconds["PipeDream"]


@pytest.mark.slow
def test_processes_are_no_faster_than_the_clock(bench, monkeypatch):
    from relaytrain.experiments.mcpipe import clock_check

    monkeypatch.setattr(clock_check, "COUNT", 3)
    monkeypatch.setattr(clock_check, "WARM", 1)
    clock = steps(bench.units(), 2)
    for method, found in (
        ("data-distributed", clock_check._ring(bench, clock)),
        ("mcPipe", clock_check._pipelined(bench, clock, "mcPipe")),
    ):
        assert (
            found >= 0.9 * clock.seconds[method]
        )  # devices and wires wait for their time; a busy machine takes longer


def test_finished_trainings_are_kept(tmp_path, monkeypatch):
    told: list[str] = []
    first, _ = curves(tmp_path, "digits", 2, TINY, told.append)
    assert len(told) == 4  # PipeDream, mcPipe and best-of are one training
    assert first["PipeDream"].accuracy == first["mcPipe"].accuracy == first["best-of"].accuracy
    more, _ = curves(tmp_path, "digits", 2, replace(TINY, seeds=2), told.append)  # the first one is there
    assert len(told) == 8 and all(", seed 1, " in line for line in told[4:])
    assert more["Local"].rows[0] == first["Local"].rows[0] and len(more["Local"].rows) == 2
    monkeypatch.setattr(comparison, "accuracies", None)
    again, _ = curves(tmp_path, "digits", 2, TINY, told.append)
    assert again == first and len(told) == 8
    shorter, _ = curves(tmp_path, "digits", 2, replace(TINY, updates=2), told.append)  # a prefix of what is kept
    assert shorter["PipeDream"].rows == (first["PipeDream"].rows[0][:2],) and len(told) == 8
    for path in (tmp_path / "mcpipe-trainings").iterdir():
        path.write_text("{}")  # what is not whole is trained again
    with pytest.raises(TypeError):
        curves(tmp_path, "digits", 2, TINY)


def test_curves_read_between_their_points():
    curve = AccuracyCurve("x", (0.0, 10.0, 20.0), ((0.0, 0.4, 0.5), (0.2, 0.6, 0.3)), 1.0)
    assert curve.accuracy == pytest.approx((0.1, 0.5, 0.4)) and curve.each((5.0,)) == pytest.approx((0.2, 0.4))
    assert (
        curve.at(5.0) == pytest.approx(0.3)
        and curve.reaches(0.3) == pytest.approx(5.0)
        and math.isinf(curve.reaches(0.6))
    )
    slow = AccuracyCurve("y", (0.0, 40.0), ((0.1, 0.5), (0.1, 0.5)), 1.0)
    words, faster = figures.times_to(curve, slow)
    assert faster == [True, True] and words[0].startswith("40%: 7.5 s against 30.0 s")


def test_a_gap_counts_beyond_its_scatter():
    base = AccuracyCurve("x", (0.0, 10.0), ((0.5, 0.5),) * 3, 1.0)
    apart = AccuracyCurve("y", (0.0, 10.0), ((0.51, 0.51), (0.53, 0.53), (0.52, 0.52)), 1.0)
    gap = accuracy.gap(apart, base, (2.0, 8.0))
    half = 4.302653 / math.sqrt(3)  # Student's t, two degrees of freedom; -1, 1, 0: a sample deviation of 1
    assert (gap.mean, gap.low, gap.high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))
    assert gap.verdict is None and str(gap).startswith("within scatter, +2.0 points")


def test_a_verdict_needs_an_interval_on_one_side():
    clear, other, open_ = Interval.of([3.0, 3.1, 2.9]), Interval.of([-3.0, -3.1, -2.9]), Interval.of([4.0, -3.0, 0.0])
    assert (clear.verdict, other.verdict, open_.verdict, Interval.of([9.0]).verdict) == (True, False, None, None)
    assert (clear.above(2.5), clear.above(3.0), clear.above(5.0)) == (True, None, False)
    assert (all_of([True, True]), all_of([True, None]), all_of([None, False])) == (True, None, False)


def test_a_missing_data_set_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("RELAYTRAIN_DATA", str(tmp_path))
    monkeypatch.setattr("relaytrain.data.source.places", lambda name: [tmp_path / name])
    name, why = data_set(("fashion-mnist", "digits"))
    assert name == "digits" and why is not None and "apt-get install dataset-fashion-mnist" in why

"""Figures with measured curves: the world is the traces where they were trained, benchmarks are what brute force
finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_prediction import write_campaign

from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.estimators.learned.bundle import bundle_of
from relaytrain.experiments import run
from relaytrain.experiments.expected import expected_of
from relaytrain.experiments.figure_traces import depl_campaign
from relaytrain.experiments.pact import measured, measured_factory
from relaytrain.experiments.result import WORDS
from relaytrain.traces.trace_files import bundled_traces, read_traces


@pytest.fixture(scope="module")
def bundle():
    return bundle_of(bundled_traces()["v16s"], "train")


@pytest.fixture(scope="module")
def world(bundle):
    return measured_factory.replay_of(bundle, 1)


def test_a_world_has_the_losses_that_were_trained(bundle, world):
    legs = {
        (c.stage, c.epoch, c.parent): c
        for c in bundle.curves
        if c.seed == 1 and c.node_set == "silver" and c.pruned == 0.5
    }
    for k1 in (5, 10, 20, 30):
        trained = legs[1, k1, 0]
        assert np.allclose(world.leg("M", k1)[1:21], trained.losses) and world.leg("M", k1)[0] == pytest.approx(
            trained.start
        )
    root = next(c for c in bundle.curves if c.seed == 1 and c.stage == 0)
    assert np.allclose(world.leg("L", 0)[1:31], root.losses)
    between = world.leg("M", 15)
    low, high = np.minimum(world.leg("M", 10), world.leg("M", 20)), np.maximum(world.leg("M", 10), world.leg("M", 20))
    assert ((between >= low - 1e-12) & (between <= high + 1e-12)).all()
    assert np.array_equal(world.leg("S", 40, 99), world.leg("S", 30, 15))
    assert all((np.diff(leg[-300:]) <= 0).all() and (leg > 0).all() for leg in (between, world.leg("S", 5), world.on_l))


def test_benchmarks_are_what_trying_everything_finds(world):
    """Every relay, epoch by epoch through `replayed`, on a coarser set of switches: none is cheaper than the
    optimum."""
    where = measured_factory.place(world, 0.3)
    found = measured_factory.benchmarks(world, 0.3)
    ends = {}
    for k1 in range(world.first, 25, 3):
        for k2 in (0, 1, 4, 9, 16, 25):
            for last in "LMS":
                versions = ["L"] * k1 + ["M"] * k2 + [last] * 60
                if last == "L" and k2:
                    continue
                trace = measured_factory.replayed("x", world, where, versions)
                if trace.reached:
                    ends[k1, k2, last] = trace
    assert min(trace.cost for trace in ends.values()) >= found["Optimum"].cost - 1e-9
    assert min(t.cost for t in ends.values() if len(t.switches) <= 1) >= found["OneSwitch"].cost - 1e-9
    assert {trace.versions[-1] for trace in ends.values()} == {"L", "M", "S"}
    for name, trace in found.items():
        again = measured_factory.replayed(name, world, where, trace.versions[1:])
        assert again == trace and trace.losses[-1] <= 0.3 < min(trace.losses[:-1])
    static = found["StaticLearn"]
    assert [static.epochs(v) > 0 for v in "LMS"] == [True] * 3


def test_a_history_is_what_a_run_would_have_recorded(world):
    where = measured_factory.place(world, 0.2)
    trace = measured_factory.replayed("x", world, where, ["L"] * 6 + ["M"] * 3 + ["S"] * 2)
    history = measured._history(world, trace, where.problem.pairs)
    assert [o.loss for o in history] == pytest.approx([loss * world.initial_loss for loss in trace.losses[1:]])
    assert [o.decision.epoch for o in history if o.handover_loss is not None] == [7, 10]
    assert history[6].handover_loss == pytest.approx(float(world.leg("M", 6)[0]))
    assert history[9].handover_loss == pytest.approx(float(world.leg("S", 6, 3)[0]))


@pytest.mark.train
def test_traces_without_such_legs_are_refused(tmp_path, monkeypatch):
    write_campaign(tmp_path / "traces", seeds=1)
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path / "traces"))
    with pytest.raises(ScenarioError, match="expected at least two"):
        run("pact-fig6", tmp_path / "out", curves="measured")
    bundle = bundle_of(read_traces(tmp_path / "traces"), "train")
    empty = bundle.only([c.node_set != "bronze" for c in bundle.curves], [True] * len(bundle.switches))
    with pytest.raises(ScenarioError, match="expected those of `relaytrain collect --preset v16s`"):
        measured_factory.replay_of(empty, 0)
    with pytest.raises(UsageError, match="collect --preset depl-small"):
        depl_campaign()


def test_curves_are_refused_where_a_figure_has_none(tmp_path):
    with pytest.raises(UsageError, match=r"got curves 'measured', expected none: those that have them are .*pact-fig6"):
        run("pact-fig5", tmp_path, curves="measured")
    with pytest.raises(UsageError, match="curves: got 'mesured', expected one of stand-in, measured"):
        run("pact-fig6", tmp_path, curves="mesured")


@pytest.mark.train
@pytest.mark.soak
@pytest.mark.parametrize("name", ["pact-fig6", "pact-fig7", "pact-fig8", "pact-fig9"])
def test_measured_figures_on_traces_of_ones_own(tmp_path, monkeypatch, name):
    write_campaign(tmp_path / "traces")
    monkeypatch.setenv("RELAYTRAIN_TRACES", str(tmp_path / "traces"))
    monkeypatch.setattr(measured, "EPOCHS", 2)
    made = run(name, tmp_path / "out", curves="measured", formats=("svg",))
    assert made.files[-1].name == f"{name}-measured.csv" and all(path.is_file() for path in made.files)
    assert {found.finding.rsplit(" ", 1)[1] for found in made.findings} == {"[paper]", "[auto]"}
    assert all(found.figure.startswith("Measured Fig. ") and found.why for found in made.findings)


@pytest.mark.parametrize("number", [6, 7, 8, 9])
def test_the_page_shows_the_shipped_verdicts_with_their_reasons(number: int) -> None:
    page = Path(__file__).parents[2] / "docs" / "reproduction.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith(f"| Measured Fig. {number} |")]
    stated = expected_of(str(Path(measured.__file__).with_name(f"fig{number}.py")))
    shipped = [e for which in measured.ESTIMATORS for e in measured.verdicts(stated, f"fig{number}", which).values()]
    assert [line.split(" | ")[2].strip("*") for line in lines] == [WORDS[entry.holds] for entry in shipped]
    for line, entry in zip(lines, shipped, strict=True):
        assert entry.finding in line and (not entry.why or line.endswith(f". {entry.why}. |")), line

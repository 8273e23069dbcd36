"""The closed loop's parts: what losses say of x, what staged data and shares of resources cost, conformal sets."""

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.core.dependence import Dependence, sure, to_normal
from relaytrain.core.outcome import EpochOutcome
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.estimators.choose import estimator_for
from relaytrain.estimators.depl.increments import Increments
from relaytrain.estimators.depl.widening import LEVEL, RATE, widening
from relaytrain.planners.depl.planner import Depl, current
from relaytrain.scenario import load_scenario

CHEAP = ("target.loss=15", "target.probability=0.9", "target.max_epochs=20")


@pytest.fixture(scope="module")
def alexnet():
    return load_scenario("depl_alexnet", overrides=CHEAP)


def done(k, version, loss, handover=None, **more):
    return EpochOutcome(Decision(k, version, "A", **more), loss, 0.1, 1.0, handover_loss=handover)


def test_x_is_read_off_losses_with_the_probed_loss_of_a_handover(alexnet):
    estimator = Increments.of(alexnet, 20.0)
    past = estimator.past([done(1, "intermediate", 18.9), done(2, "slow-steady", 18.5, handover=19.0)])
    middle, slow = alexnet.depl.instance.versions[1:]
    x = ((20.0 - 18.9) / 1.13, (19.0 - 18.5) / (1.085 / math.sqrt(6)))
    wanted = (float(to_normal(middle.noise, np.array(x[0]))), float(to_normal(slow.noise, np.array(x[1]))))
    assert past.epochs == (1, 2) and past.versions == (1, 2)
    assert past.z == pytest.approx(wanted)


def test_a_rise_of_the_loss_is_a_bad_epoch_not_the_end(alexnet):
    (z,) = Increments.of(alexnet, 20.0).past([done(1, "intermediate", 21.0)]).z
    assert z == -3.5


def test_a_slow_start_lowers_what_is_expected_next_when_epochs_hang_together(alexnet):
    tied = replace(alexnet, depl=replace(alexnet.depl, belief=sure(Dependence(0.0, 0.8))))
    laws = {}
    for name, scenario in (("free", alexnet), ("tied", tied)):
        law = Increments.of(scenario, 20.0).law([done(1, "intermediate", 19.1)], scenario.problem.pairs)
        at = scenario.problem.index(Pair("intermediate", "A"))
        laws[name] = float(law.next_loss(2, np.array(19.1), at, at))
    assert laws["tied"] > laws["free"] + 0.05


def test_the_scenario_names_its_estimator(alexnet):
    assert isinstance(estimator_for(alexnet), Increments)
    assert not isinstance(estimator_for(load_scenario("smart_factory")), Increments)


def test_session_follows_the_quantile_that_is_left(alexnet):
    """A run in which every epoch does what is expected needs no more epochs than were planned, mostly fewer."""
    planned = len(rt.plan(alexnet, planner=Depl(alexnet.depl, explained=False)).decisions)
    session = rt.Session(alexnet, planner=Depl(alexnet.depl, explained=False))
    versions = {m.name: m for m in alexnet.depl.instance.versions}
    while (decision := session.ask()) is not None:
        version = versions[decision.version]
        step = float(version.progress(decision.epoch)) * version.noise.mean
        session.tell(session.state.loss - step, elapsed_s=0.05, energy_j=1.0)
    assert session.verdict == "met"
    assert len(session.outcomes) <= planned


def test_level_reading_places_versions_where_the_loss_stands():
    loaded = load_scenario("depl_alexnet", overrides=(*CHEAP, "depl.reading=level"))
    settings = loaded.depl
    k = np.arange(1, 21)
    curve = 20 - np.cumsum(1.13 / np.sqrt(k))
    assert settings.position(1, float(curve[6])) == 7
    state = rt.State(3, float(curve[6]), 0.1, loaded.problem.index(Pair("intermediate", "A")))
    placed = current(settings, loaded.problem, loaded.costs, state)
    assert float(placed.versions[1].progress(4)) == pytest.approx(1.13 / math.sqrt(8))
    other = 20 - np.cumsum(1.085 * 0.98 / np.sqrt(k + 4))
    near = int(np.abs(np.concatenate([[20.0], other]) - (curve[6] + 0.055)).argmin())
    assert float(placed.versions[2].progress(4)) == pytest.approx(1.085 / math.sqrt(near + 1 + 4))


def test_gains_may_be_written_by_epoch():
    loaded = load_scenario("depl_alexnet", overrides=(*CHEAP, "depl.versions.intermediate.gain=[2.0, 1.0, 0.5]"))
    version = loaded.depl.instance.versions[1]
    assert [float(version.progress(k)) for k in (1, 2, 3, 9)] == [2.0, 1.0, 0.5, 0.5]
    assert rt.plan(loaded, planner="depl").met


def test_data_is_paid_for_once_and_a_share_of_resources_takes_longer():
    settings = load_scenario("depl_digits").depl
    first = Decision(1, "full", "A", ("day", "night"), 0.5)
    seconds, joules = settings.run(first, ())
    assert seconds == pytest.approx(213 * 2 / 100 + 0.044)
    assert joules == pytest.approx(0.010 * 213 * 2 + 0.5 * 0.044 + 2 * 2.0)
    outcome = EpochOutcome(first, 1.0, seconds, joules)
    again = settings.run(replace(first, epoch=2), [outcome])[1]
    assert again == pytest.approx(joules - 4.0)
    assert settings.run(replace(first, nodes="B"), [outcome])[1] > 4.0
    assert settings.run(replace(first, datasets=("rain",)), [outcome])[1] == pytest.approx(0.010 * 213 + 0.022 + 2.0)


def test_conformal_bands_cover_whatever_the_noise_is_like():
    """Misses exceed one in ten by at most log(widest) / (rate n), for any sequence; well stated noise stays."""
    random = np.random.default_rng(0)
    for z in (
        3.0 * random.standard_normal(400),
        random.standard_cauchy(400).clip(-50, 50),
        np.r_[np.zeros(200), np.full(200, -2.0)],
    ):
        factors = [widening(z[:n]) for n in range(len(z))]
        short = z < -NormalDist().inv_cdf(LEVEL) * np.array(factors)
        assert short.mean() <= 1 - LEVEL + (math.log(max(factors)) + RATE) / (RATE * len(z))
        assert min(factors) == 1.0
    assert np.median([widening(random.standard_normal(30)) for _ in range(100)]) < 1.5


def test_short_epochs_widen_what_is_promised_next():
    trusted, wary = (
        load_scenario("depl_alexnet", overrides=(*CHEAP, f"depl.bands={kind}")) for kind in ("given", "conformal")
    )
    history = [done(1, "intermediate", 19.6), done(2, "intermediate", 19.4)]
    state = rt.State(2, 19.4, 0.2, wary.problem.index(Pair("intermediate", "A")))
    plans = {}
    for name, loaded in (("given", trusted), ("conformal", wary)):
        law = Increments.of(loaded, 20.0).law(history, loaded.problem.pairs)
        plans[name] = Depl(loaded.depl, explained=False).plan(loaded.problem, loaded.costs, law, state), law
    (given, _), (conformal, law) = plans["given"], plans["conformal"]
    assert law.widening == pytest.approx(math.exp(2 * RATE * LEVEL))
    assert "times as wide" in conformal.warnings[0] and given.warnings == ()
    assert conformal.guaranteed[0] - conformal.losses[0] > 1.5 * (given.guaranteed[0] - given.losses[0])
    assert conformal.losses[0] == pytest.approx(given.losses[0], abs=0.2)


def test_normal_noise_is_the_same_given_or_conformal_until_an_epoch_falls_short():
    noise = [f"depl.versions.{m.name}.noise=normal" for m in load_scenario("depl_alexnet").depl.instance.versions]
    plans = [
        rt.plan(load_scenario("depl_alexnet", overrides=(*CHEAP, *noise, f"depl.bands={kind}")))
        for kind in ("given", "conformal")
    ]
    assert plans[0].to_dict() == plans[1].to_dict()


@pytest.mark.train
@pytest.mark.slow
def test_a_run_stages_data_caps_speed_and_ends_with_prediction_sets(tmp_path):
    pytest.importorskip("torch")
    from relaytrain.store import RunStore

    gains = [f"depl.versions.{name}.gain=[0.3]" for name in ("full", "half", "quarter")]
    spreads = [f"depl.versions.{name}.variance=0.01" for name in ("full", "half", "quarter")]
    loaded = load_scenario("depl_digits", overrides=["target.loss=1.9", "target.max_epochs=12", *gains, *spreads])
    store = RunStore.open(tmp_path / "store")
    ended = rt.run(loaded, store=store, seed=3)
    assert ended.verdict == "met"
    events = store.events(ended.run)
    epochs = [e.body for e in events if e.kind == "epoch_done"]
    history = []
    for body in epochs:
        outcome = EpochOutcome(
            Decision(**{**body["decision"], "datasets": tuple(body["decision"]["datasets"])}), body["loss"], 0.0, 0.0
        )
        assert (body["elapsed_s"], body["energy_j"]) == pytest.approx(loaded.depl.run(outcome.decision, history))
        assert sum(node["samples"] for node in body["nodes"]) == 400 * len(outcome.decision.datasets)
        history.append(outcome)
    said = next(e.body for e in events if e.kind == "planned")["predicted"]
    assert said["energy_j"] == pytest.approx(epochs[0]["energy_j"])
    sets = events[-1].body["prediction_sets"]
    assert dict(ended.prediction_sets) == sets
    assert sets["level"] == 0.9 and 1.0 <= sets["mean_size"] <= 10.0 and sets["coverage"] > 0.8


@pytest.mark.train
def test_nodes_train_on_what_was_chosen_and_refuse_what_is_not_there():
    pytest.importorskip("torch")
    from relaytrain.training.setup import TrainingSetup

    setup = TrainingSetup.from_scenario(load_scenario("depl_digits"))
    site = setup.site("a-1")
    assert len(site.held.labels) == 600 and len(site.only(("day",)).held.labels) == 200
    both = site.only(("day", "rain"))
    np.testing.assert_array_equal(both.held.labels[:200], site.held.labels[slice(*site.parts["day"])])
    np.testing.assert_array_equal(both.held.labels[200:], site.held.labels[slice(*site.parts["rain"])])
    with pytest.raises(KeyError, match="'noon' is not at this node"):
        site.only(("noon",))


@pytest.mark.train
def test_on_the_measured_clock_a_share_of_the_processor_is_left_idle():
    pytest.importorskip("torch")
    from relaytrain.training.local import capped
    from relaytrain.training.settings import TrainingSettings
    from relaytrain.training.task import NodeTask

    ticks, slept = iter([0.0, 1.0, 3.0]), []
    task = NodeTask("r", 1, 0, "a", b"", TrainingSettings(clock="measured"), resources=0.25)
    progress = capped(task, None, clock=lambda: next(ticks), sleep=slept.append)
    progress()
    progress()
    assert slept == [3.0, 6.0]
    assert capped(replace(task, resources=1.0), None) is None
    assert capped(replace(task, settings=TrainingSettings()), None) is None


@pytest.mark.train
def test_conformal_sets_cover_as_promised_and_shrink_with_knowledge():
    pytest.importorskip("torch")
    from relaytrain.training.conformal import conformal

    random = np.random.default_rng(5)
    labels = random.integers(0, 10, 4000)
    sizes = []
    for sharpness in (0.5, 2.0, 6.0):
        scores = random.standard_normal((4000, 10))
        scores[np.arange(4000), labels] += sharpness
        share = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        made = conformal(share, labels, seed=1)
        assert made.coverage == pytest.approx(0.9, abs=0.03)  # a binomial of 2000, and as many calibrating
        sizes.append(made.mean_size)
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 1.2
    assert conformal(share[:18], labels[:18]) is None

"""A relay between a federated and a pipeline node set: handed over, killed, resumed, the same to the last bit."""

from __future__ import annotations

import os
import signal

import pytest
from compare import trace
from run_faults import STRAIGHT, go_on
from store_faults import RUN, Child, scratch

pytestmark = pytest.mark.train
pytest.importorskip("torch").set_num_threads(1)

import relaytrain  # noqa: E402
from relaytrain.relay import assembly as launch  # noqa: E402
from relaytrain.scenario import load_scenario  # noqa: E402
from relaytrain.store import RunStore  # noqa: E402
from relaytrain.training.setup import TrainingSetup  # noqa: E402

QUICK = (
    "nodes.cloud.samples=60",
    "versions.full.width=0.5",
    "target.max_epochs=3",
    "devices.emulated-cloud.busy_w=0.01",
)
STALLS = {"nodes": "gold", "floor": 1.9, "drop": 0.4, "scale": 0.2, "power": 4.0}
LEARNS = {
    "nodes": "far-pipe",
    "floor": 0.2,
    "drop": 2.1,
    "scale": 1.0,
    "power": 4.0,
    "progress": [0.01, 1.0],
    "robust_progress": 0.9,
}


def _quick():
    """Three epochs: gold's curve stalls at once, so from the second on the far edge trains."""
    resolved = dict(load_scenario("far_pipeline", QUICK).resolved)
    others = [curve for curve in resolved["law"]["curves"] if curve["nodes"] == "far"]
    return load_scenario({**resolved, "law": {**resolved["law"], "curves": [STALLS, LEARNS, *others]}})


def test_the_plan_hands_over_to_the_pipeline() -> None:
    plan = relaytrain.plan("far_pipeline")
    assert plan.met and [leg.nodes for leg in plan.legs] == ["gold", "far-pipe"]
    assert [decision.mode for decision in plan.decisions] == [
        "federated" if decision.nodes == "gold" else "pipeline" for decision in plan.decisions
    ]
    assert not relaytrain.plan("far_pipeline", without=["far-pipe"]).feasible


@pytest.mark.slow
def test_a_relay_killed_in_a_pipeline_epoch_resumes_to_the_same_bits() -> None:
    scenario = _quick()
    setup = TrainingSetup.from_scenario(scenario)

    def job(die_in=None):
        made = launch.job_of(scenario, setup=setup)
        plain = made.runner.run_epoch

        def run_epoch(decision, checkpoint, **words):
            done = plain(decision, checkpoint, **words)
            if decision.epoch == die_in:
                os.kill(os.getpid(), signal.SIGKILL)  # trained, but nobody was told
            return done

        made.runner.run_epoch = run_epoch
        return made

    with scratch() as base:
        assert Child(lambda say: go_on(job(), base, STRAIGHT, say)).wait().code == 0
        straight = trace(RunStore.open(base), STRAIGHT)
    sets = [body["decision"]["nodes"] for body in straight["done"].values()]
    assert set(sets) == {"gold", "far-pipe"} and sets[0] == "gold"
    died = sets.index("far-pipe") + 1
    with scratch() as folder:
        assert Child(lambda say: go_on(job(died), folder, RUN, say)).wait().killed
        assert Child(lambda say: go_on(job(), folder, RUN, say)).wait().code == 0
        assert trace(RunStore.open(folder), RUN) == straight

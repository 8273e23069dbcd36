"""C5: nodes that die, hang, crawl or refuse while a whole relay trains: it goes on without them or ends with exit 7."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from run_faults import small_relay, trace
from store_faults import scratch, soak

from relaytrain.core.errors import WorkerLost
from relaytrain.relay import loop as orchestrator
from relaytrain.store import RunStore, check
from relaytrain.store.check import errors

pytestmark = [pytest.mark.slow, pytest.mark.train]
LIMIT_S = 240.0
"""Against a hang only: deadlines of epochs are a few seconds."""
STALL_S = 3.0
"""After so long without a sign of life a worker that was stopped is given up; a beat comes every fifth of a second."""


@pytest.fixture(scope="module")
def relay():
    pytest.importorskip("torch").set_num_threads(1)
    from relaytrain.relay import assembly as launch
    from relaytrain.scenario import load_scenario
    from relaytrain.training.setup import TrainingSetup

    scenario = load_scenario(small_relay())
    setup = TrainingSetup.from_scenario(scenario)
    with scratch() as base:
        store = RunStore.open(base)
        orchestrator.start(launch.job_of(scenario, setup=setup), store, run="undisturbed")
        yield scenario, setup, trace(store, "undisturbed")


def _times(factor: float) -> Any:
    def false(result: Any) -> Any:
        update = result.checkpoint
        return replace(
            result, checkpoint=replace(update, weights={name: factor * t for name, t in update.weights.items()})
        )

    return false


LIES = {
    "weights times 900": _times(900.0),
    "weights times 50": _times(50.0),
    "rot": lambda result: replace(result, checkpoint=b"rot"),
    "more samples": lambda result: replace(result, samples=result.samples + 1),
    "another's name": lambda result: replace(result, node="somebody"),
    "years": lambda result: replace(result, cpu_s=1e9),
}


class Faulty:
    """A transport that loses, refuses, delays or falsifies some answers of another one, by a seeded plan."""

    def __init__(self, inner: Any, chance: random.Random, share: float) -> None:
        self.inner, self.chance, self.share, self.faults = inner, chance, share, 0

    def send(self, tasks: Iterable[Any]) -> Iterator[Any]:
        from relaytrain.training.task import failed

        late = []
        for task in list(tasks):
            fault = self.chance.choice(["lost", "late", "refused", "gone", "twice", *LIES])
            if self.chance.random() >= self.share:
                yield from self.inner.send([task])
                continue
            self.faults += 1
            if fault in ("lost", "late", "refused"):
                yield failed(task, fault, f"as if {fault}")
            elif fault in LIES:
                (result,) = self.inner.send([task])
                yield result if result.error else LIES[fault](result)
            elif fault == "twice":
                (result,) = self.inner.send([task])
                late.append(result)
                yield result
        yield from late

    def close(self) -> None:
        self.inner.close()


def judge(run: str, store: RunStore, go: Any) -> str:
    """Run it; "met", "missed" or, with exit 7, "failed"; the store is sound either way."""
    began = time.monotonic()
    try:
        verdict = go().verdict
    except WorkerLost as error:
        assert error.exit_status == 7
        verdict = "failed"
    assert not soak() or time.monotonic() - began < LIMIT_S
    assert errors(check(store.folder)) == []
    assert store.summary(run).status == verdict
    return str(verdict)


def test_c5_faults_of_nodes_in_process(relay, record_property):
    from relaytrain.executors.inprocess import InProcess
    from relaytrain.relay import assembly as launch

    scenario, setup, straight = relay
    wanted = 80 if soak() else 8
    faults = case = same = 0
    while faults < wanted:
        chance = random.Random(case)
        with scratch() as base:
            store = RunStore.open(base)
            job = launch.job_of(scenario, setup=setup)
            job.runner.epochs.transport = transport = Faulty(InProcess(setup), chance, chance.choice([0.1, 0.3]))
            verdict = judge(
                f"faulty-{case:03d}",
                store,
                lambda j=job, s=store, c=case: orchestrator.start(j, s, run=f"faulty-{c:03d}"),
            )
            told = trace(store, f"faulty-{case:03d}")
            lost = [e for e in store.events(f"faulty-{case:03d}") if e.kind == "rolled_back"]
            if not lost and verdict != "failed":  # every failure was made good by trying again: nothing may differ
                for epochs in (told["done"], straight["done"]):
                    for body in epochs.values():
                        body.pop("failed_nodes", None)
                assert told == straight
                same += 1
            faults, case = faults + transport.faults, case + 1
    record_property("faults", faults)
    print(f"C5 (in-process): {faults} faults in {case} runs, {same} of them bit-equal to the undisturbed run, no hang")


def test_c5_workers_killed_and_stopped(relay, record_property, monkeypatch, tmp_path):
    """Real worker processes, a random one killed or stopped at a random moment after an epoch, twice a run."""
    from relaytrain.executors import processes
    from relaytrain.executors.processes import Processes
    from relaytrain.relay import assembly as launch
    from relaytrain.training.task import NodeTask

    monkeypatch.setattr(processes, "START_S", 30.0)  # how long one that is stopped while it starts is waited for
    scenario, setup, straight = relay
    wanted = 20 if soak() else 2
    chance = random.Random(5)
    faults = case = 0
    timed = setup.with_settings(epoch_timeout_s=6.0)
    with Processes(timed, workers=2, stall_s=STALL_S) as crew:
        while faults < wanted:
            store = RunStore.open(tmp_path / str(case))
            job = launch.job_of(scenario, setup=timed)
            job.runner.epochs.transport = crew
            start = setup.first_checkpoint().data
            list(
                crew.send([NodeTask("start", 1, 0, node, start, setup.settings) for node in setup.datasets])
            )  # all run now
            hit: list[int] = []
            over, trained = threading.Event(), threading.Semaphore(0)

            def strike(crew=crew, hit=hit, over=over, trained=trained) -> None:
                for _ in range(2):
                    for _ in range(chance.randrange(1, 4)):
                        trained.acquire()
                    if over.wait(chance.uniform(0.0, 0.2)):
                        return
                    hit.append(chance.choice(sorted(set(crew.pids().values()))))
                    os.kill(hit[-1], chance.choice([signal.SIGKILL, signal.SIGSTOP]))

            thread = threading.Thread(target=strike)
            thread.start()
            name = f"struck-{case:03d}"
            try:
                told = lambda line, t=trained: t.release()  # noqa: E731
                go = lambda j=job, s=store, n=name, t=told: orchestrator.start(j, s, run=n, told=t)  # noqa: E731
                verdict = judge(name, store, go)
            finally:
                over.set()
                trained.release(8)
                thread.join()
            if verdict != "failed" and not any(e.kind == "rolled_back" for e in store.events(name)):
                assert trace(store, name)["done"].keys() == straight["done"].keys()
                digests = [body["blob"] for body in trace(store, name)["done"].values()]
                assert digests == [body["blob"] for body in straight["done"].values()]
            faults, case = faults + len(hit), case + 1
    record_property("faults", faults)
    print(f"C5 (processes): {faults} workers killed or stopped in {case} runs, no hang")

"""A runner of numpy alone: 'trains' a vector in microseconds, its loss following a true law with seeded noise.

Every epoch is a pure function of (checkpoint, decision, seed), so weights after a resumed run can be compared bit for
bit with those of an undisturbed one. `Fault`s make it lose nodes, give NaN, raise, or be killed at a chosen moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import relaytrain as rt
from relaytrain.core.law import LevelLaw
from relaytrain.core.outcome import EpochOutcome, EpochResult, Evaluation, Handed, NodeReport
from relaytrain.core.plan import Decision
from relaytrain.core.problem import Pair
from relaytrain.core.protocols import Earlier
from relaytrain.costs.clock import EmulatedClock, MeasuredClock
from relaytrain.estimators import Prior
from relaytrain.planners.registry import planner_named
from relaytrain.relay.job import Job, Settings
from relaytrain.scenario import Scenario

SIZE = 64

TOML = {
    "schema": 1,
    "name": "stub",
    "target": {"loss": 0.45, "deadline": 35.0, "probability": 0.9},
    "start": {"loss": 2.0, "version": "L", "nodes": "gold"},
    "versions": [{"name": "L"}, {"name": "S"}],
    "node_sets": [{"name": "gold"}, {"name": "bronze"}],
    "pairs": [
        {"version": "L", "nodes": "gold", "seconds": 2.0, "energy": 50.0},
        {"version": "S", "nodes": "gold", "seconds": 1.5, "energy": 30.0},
        {"version": "S", "nodes": "bronze", "seconds": 3.0, "energy": 6.0},
    ],
    "changes": [
        {"seconds": 1.0, "energy": 4.0},
        {"from": "S", "to": "L", "seconds": None, "energy": None, "reason": "no way back"},
    ],
    "law": {
        "kind": "level",
        "robust_progress": 0.8,
        "robust_jump_factor": 1.3,
        "curves": [
            {"floor": 0.05, "drop": 2.0, "scale": 4.0, "power": 1.3},
            {"version": "L", "floor": 0.45, "scale": 1.5},
            {"nodes": "bronze", "scale": 6.0},
        ],
        "jumps": [{"jump": 0.05, "jump_per_loss": 0.02}],
    },
}


def scenario(**overrides: Any) -> Scenario:
    sets = [
        f"{key.replace('__', '.')}={'inf' if value is None else json.dumps(value)}" for key, value in overrides.items()
    ]
    return rt.load_scenario(TOML, overrides=sets)


@dataclass(frozen=True)
class Stub:
    """A checkpoint."""

    version: str
    loss: float
    weights: np.ndarray

    def pack(self) -> bytes:
        head = json.dumps({"version": self.version, "loss": self.loss}).encode()
        return len(head).to_bytes(4, "little") + head + self.weights.tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Stub:
        size = int.from_bytes(data[:4], "little")
        head = json.loads(data[4 : 4 + size])
        return cls(head["version"], head["loss"], np.frombuffer(data[4 + size :]).copy())


Fault = Callable[[str, Decision | None, int], Any]
"""Called with a moment ("epoch", "trained", "hand_over", "probe", "test"), the decision and the attempt; what it
returns replaces the outcome's loss (epoch, hand_over) when it is a number, its fields when it is a dict."""


@dataclass
class StubRunner:
    truth: LevelLaw
    pairs: tuple[Pair, ...]
    start: Pair
    initial_loss: float
    noise: float = 0.02
    seed: int = 0
    fault: Fault = lambda moment, decision, attempt: None
    last: Pair | None = None
    calls: list[tuple[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, loaded: Scenario, *, pace: float = 1.0, **options: Any) -> StubRunner:
        law = loaded.law
        truth = LevelLaw(law.curves * np.array([1.0, 1.0, 1.0 / pace, 1.0]), law.jump0, law.jump1, law.mult)
        problem = loaded.problem
        return cls(truth, problem.pairs, problem.pairs[problem.start], problem.initial_loss, **options)

    def first(self) -> Stub:
        weights = np.random.default_rng((self.seed, 7)).standard_normal(SIZE)
        return Stub(self.start.version, self.initial_loss, weights)

    def to_bytes(self, checkpoint: Stub) -> bytes:
        return checkpoint.pack()

    def from_bytes(self, data: bytes) -> Stub:
        return Stub.unpack(data)

    def probe(self, checkpoint: Stub) -> Evaluation:
        self.fault("probe", None, 0)
        return Evaluation(checkpoint.loss, 1.0 - checkpoint.loss / 4)

    def test(self, checkpoint: Stub) -> Evaluation:
        self.fault("test", None, 0)
        return Evaluation(checkpoint.loss * 1.1, 0.9)

    def hand_over(self, checkpoint: Stub, before: Pair, decision: Decision, earlier: Earlier) -> Handed:
        self.calls.append(("hand_over", decision.pair))
        odd = self.fault("hand_over", decision, 0)
        i, j = self.pairs.index(before), self.pairs.index(decision.pair)
        loss = checkpoint.loss + self.truth.jump0[i, j] + self.truth.jump1[i, j] * checkpoint.loss
        loss = loss if odd is None else odd
        kept = np.where(np.abs(checkpoint.weights) < 0.1, 0.0, checkpoint.weights)
        return Handed(Stub(decision.version, float(loss), kept), "prune", 0.5, elapsed_s=0.5, energy_j=1.0, cpu_s=0.5)

    def run_epoch(self, decision: Decision, checkpoint: Stub, *, run: str, attempt: int = 0) -> EpochResult:
        self.calls.append(("epoch", decision.epoch))
        odd = self.fault("epoch", decision, attempt)
        chance = np.random.default_rng((self.seed, decision.epoch))
        weights = 0.99 * checkpoint.weights + 0.01 * chance.standard_normal(SIZE)
        now = self.pairs.index(decision.pair)
        loss = float(self.truth.next_loss(decision.epoch, np.array(checkpoint.loss), now, now))
        loss *= float(np.exp(self.noise * chance.standard_normal()))
        outcome = EpochOutcome(decision, loss, 1.25, 10.0, "measured", cpu_s=1.0, wall_s=1.3)
        if isinstance(odd, dict):
            outcome = replace(outcome, **odd)
        elif odd is not None:
            outcome = replace(outcome, loss=odd)
        self.fault("trained", decision, attempt)
        node = NodeReport(decision.nodes, samples=10, train_loss=loss)
        after = Stub(decision.version, outcome.loss, weights)
        return EpochResult(outcome, after, Evaluation(outcome.loss), (node,), train_loss=loss)


def job(loaded: Scenario | None = None, *, planner: str = "pact", pace: float = 1.0, fault: Fault | None = None,
        noise: float = 0.02, estimator: Any = None, clock: str = "emulated", charge_lost_work: bool = False,
        **settings: Any) -> Job:  # fmt: skip
    loaded = loaded or scenario()
    options = {} if fault is None else {"fault": fault}
    runner = StubRunner.of(loaded, pace=pace, noise=noise, seed=settings.get("seed", 0), **options)
    return Job(
        loaded.problem,
        loaded.costs,
        loaded.law,
        (lambda problem: Prior.of(loaded, problem)) if estimator is None else estimator,
        planner_named(planner),
        runner,
        Settings(**settings),
        {"scenario": dict(loaded.resolved), "planner": planner},
        clock=MeasuredClock() if clock == "measured" else EmulatedClock(charge_lost_work=charge_lost_work),
    )

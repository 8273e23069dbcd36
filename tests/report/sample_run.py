"""Runs that never happened, written through the store as an orchestrator would: handovers, failures, roll-backs.

`write_run` plays a small relay with made-up curves. Every figure is a pure function of the arguments, so tests can
add them up again on their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relaytrain.store import Clock, RunStore, RunWriter

LEGS = (("full", "gold", 5), ("medium", "silver", 10), ("small", "bronze", 16))
FLOOR = {"full": 1.1, "medium": 0.62, "small": 0.30}
SECONDS = {"full": 9.6, "medium": 4.2, "small": 3.1}
JOULES = {"full": 57.0, "medium": 44.0, "small": 11.5}
CHANGE = (2.4, 21.0)  # seconds and joules of a handover
NODES = {"gold": ("cloud",), "silver": ("edge-1", "edge-2"), "bronze": ("far-1", "far-2", "far-3")}
LEVEL = 0.95
START_LOSS = 2.3
START_WALL_S = 1_767_225_600.0


@dataclass(frozen=True)
class Sample:
    """What to write. `noise` moves the losses off the plan; `stop_after` leaves the run without a verdict."""

    legs: tuple[tuple[str, str, int], ...] = LEGS
    target: float = 0.4
    deadline_s: float | None = 240.0
    seed: int = 7
    noise: float = 0.02
    clock: str = "emulated"
    planner: str = "pact"
    feasible: bool = True
    rung: float = LEVEL
    probability: float = 0.97
    energy_interval_j: tuple[float, float] | None = None
    fail_at: int | None = 8
    roll_back_at: int | None = 19
    stop_after: int | None = None
    verdict: str | None = None
    cost_factor: float = 1.0
    name: str = "quickstart"
    description: str = "Small CNN for 8x8 digits on emulated nodes"
    rename: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def call(self, word: str) -> str:
        return self.rename.get(word, word)


class Tick:
    """A clock that moves a second with every look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> Clock:
        def look() -> float:
            self.now_s += 1.0
            return self.now_s

        return Clock(lambda: START_WALL_S + look(), look)


def pairs_of(sample: Sample) -> list[tuple[str, str]]:
    return [(version, nodes) for version, nodes, count in sample.legs for _ in range(count)]


def step(loss: float, version: str, changed: bool) -> tuple[float, float]:
    """Expected and guaranteed loss after one epoch."""
    jump = 0.18 if changed else 0.0
    expected = loss + jump - 0.24 * (loss + jump - FLOOR[version])
    return expected, expected + 0.05 + jump / 3


def cost(version: str, changed: bool, factor: float = 1.0) -> tuple[float, float]:
    seconds, joules = SECONDS[version], JOULES[version] * factor
    return (seconds + CHANGE[0], joules + CHANGE[1]) if changed else (seconds, joules)


def plan_json(sample: Sample, epoch: int, before: str, loss: float, elapsed_s: float) -> dict[str, Any]:
    pairs = pairs_of(sample)[epoch - 1 :]
    legs: list[dict[str, Any]] = []
    handovers: list[dict[str, Any]] = []
    expected, guaranteed = [], []
    high, energy, start = loss, 0.0, loss
    for number, (version, nodes) in enumerate(pairs, epoch):
        seconds, joules = cost(version, version != before)
        high = step(high, version, version != before)[1] if not guaranteed else max(high * 0.9, 0.3)
        loss, _ = step(loss, version, version != before)
        elapsed_s, energy = elapsed_s + seconds, energy + joules
        if legs and legs[-1]["version"] == sample.call(version):
            legs[-1]["last_epoch"] = number
        else:
            names = {"version": sample.call(version), "nodes": sample.call(nodes)}
            legs.append({**names, "first_epoch": number, "last_epoch": number, "elapsed_s": 0.0, "energy_j": 0.0})
            if version != before:
                handovers.append({"epoch": number, "elapsed_s": CHANGE[0], "energy_j": CHANGE[1]})
        legs[-1]["elapsed_s"] += seconds
        legs[-1]["energy_j"] += joules
        expected.append(loss)
        guaranteed.append(max(high, loss + 0.04))
        before = version
    made = {
        "planner": f"{sample.planner}/adaptive", "feasible": sample.feasible, "asked": LEVEL, "rung": sample.rung,
        "probability": sample.probability, "start_loss": start, "energy_j": energy, "elapsed_s": elapsed_s,
        "legs": legs,
        "handovers": handovers,
    }  # fmt: skip
    if sample.energy_interval_j is not None:
        made["energy_interval_j"] = list(sample.energy_interval_j)
    return made | {"expected_loss": expected, "guaranteed_loss": guaranteed}


def started(sample: Sample) -> dict[str, Any]:
    scenario = {
        "schema": 1,
        "name": sample.name,
        "description": sample.description,
        "units": {"time": "s", "energy": "J"},
        "target": {
            "loss": sample.target,
            "deadline": sample.deadline_s,
            "probability": LEVEL,
            "metric": "loss",
            "on": "validation",
        },
        "planner": {"name": sample.planner, "rule": "adaptive"},
        "versions": [{"name": sample.call(v)} for v, _, _ in sample.legs],
        "nodes": [{"name": sample.call(n)} for _, s, _ in sample.legs for n in NODES[s]],
        "training": {"seed": sample.seed},
    }
    return {
        "scenario": scenario,
        "seed": sample.seed,
        "clock": sample.clock,
        "planner": sample.planner,
        "threads": 1,
        "packages": {"relaytrain": "0.1.0", "torch": "2.13.0", "numpy": "2.4.0"},
        "initial_loss": START_LOSS,
        "versions": {
            sample.call("full"): {"parameters": 14_000, "flops_per_sample": 1.9e6, "weight_bytes": 56_000},
            sample.call("small"): {"parameters": 2_000, "flops_per_sample": 2.8e5, "weight_bytes": 8_000},
        },
        **sample.extra,
    }


def write_run(store: RunStore, run: str, sample: Sample | None = None) -> None:
    """Play the whole relay into `store`."""
    sample = sample or Sample()
    with store.create_run(run, started(sample), start=b"start") as writer:
        _play(writer, sample)


def open_store(folder: Any) -> RunStore:
    return RunStore.open(folder, clock=Tick().clock())


def _play(writer: RunWriter, sample: Sample) -> None:
    pairs = pairs_of(sample)
    random = np.random.default_rng(sample.seed)
    loss, before, elapsed_s, rolled = START_LOSS, pairs[0][0], 0.0, False
    standing: list[tuple[float, str, float]] = [(loss, before, elapsed_s)]
    while writer.progress.epoch < len(pairs):
        epoch = writer.progress.epoch + 1
        if sample.stop_after is not None and epoch > sample.stop_after:
            return
        version, nodes = pairs[epoch - 1]
        changed = version != before
        expected, guaranteed = step(loss, version, changed)
        seconds, joules = cost(version, changed)
        decision = {"epoch": epoch, "version": sample.call(version), "nodes": sample.call(nodes), "mode": "federated"}
        writer.append(
            "planned",
            {
                "decision": decision,
                "state": {"epoch": epoch - 1, "loss": loss, "elapsed_s": elapsed_s},
                "plan": plan_json(_as_seen(sample, epoch), epoch, before, loss, elapsed_s),
                "law": {"kind": "made-up"},
                "predicted": {
                    "loss": expected,
                    "guaranteed": guaranteed,
                    "elapsed_s": seconds,
                    "energy_j": joules,
                    "level": LEVEL,
                },
            },
            epoch,
        )
        if changed:
            body = {
                "before": [sample.call(before), sample.call(pairs[epoch - 2][1])], "after": [decision["version"],
                decision["nodes"]],
                "kind": "prune", "loss_before": loss, "loss_after": loss + 0.2, "elapsed_s": CHANGE[0],
                "energy_j": CHANGE[1],
                "reached_ratio": 0.51, "blob": writer.put_blob(f"handover {epoch}".encode()),
            }  # fmt: skip
            writer.append("handover", body, epoch)
        if epoch == sample.fail_at:
            lost = {"wasted_s": 1.5, "wasted_j": 6.0}
            words = {"node": sample.call(NODES[nodes][-1]), "attempt": 0, "reason": sample.call("killed by signal 9")}
            writer.append("node_failed", {**words, **lost}, epoch)
        loss = max(0.0, expected + sample.noise * float(random.standard_normal()))
        seconds, joules = cost(version, changed, sample.cost_factor)
        elapsed_s += seconds
        writer.append("epoch_done", _done(writer, sample, decision, (loss, seconds, joules), nodes), epoch)
        standing.append((loss, version, elapsed_s))
        before = version
        if epoch == sample.roll_back_at and not rolled:
            rolled = True
            back = {
                "reason": sample.call("loss became non-finite"),
                "forbidden": [decision["version"], decision["nodes"]],
            }
            writer.append("rolled_back", {"to_epoch": epoch - 2, **back}, epoch - 2)
            standing = standing[: epoch - 1]
            loss, before, elapsed_s = standing[-1]
        if loss <= sample.target:
            break
    verdict = sample.verdict or ("met" if loss <= sample.target else "missed")
    if (
        sample.roll_back_at is None
        and sample.deadline_s is not None
        and elapsed_s > sample.deadline_s
        and not sample.verdict
    ):
        verdict = "missed"
    found = {
        "verdict": verdict,
        "loss": loss,
        "test_loss": loss + 0.03,
        "test_accuracy": 0.91,
        "notes": list(sample.notes),
    }
    writer.append("verdict", {**found, **writer.progress.totals.to_dict()})


def _as_seen(sample: Sample, epoch: int) -> Sample:
    """The first plans leave gold two epochs later than the run does in the end."""
    from dataclasses import replace

    if epoch >= 4 or len(sample.legs) < 2:
        return sample
    (version, nodes, count), second, *rest = sample.legs
    return replace(sample, legs=((version, nodes, count + 2), second, *rest))


def _done(
    writer: RunWriter, sample: Sample, decision: dict[str, Any], figures: tuple[float, float, float], nodes: str
) -> dict[str, Any]:
    loss, seconds, joules = figures
    names = NODES[nodes]
    share = 0.9 * joules / len(names)  # the rest is the exchange, which no node's meter sees
    return {
        "decision": decision,
        "loss": loss,
        "accuracy": 1.0 - math.tanh(loss / 2),
        "train_loss": loss * 0.95,
        "elapsed_s": seconds,
        "energy_j": joules,
        "provenance": "measured" if sample.clock == "measured" else "modelled",
        "cpu_s": 0.02 * seconds,
        "wall_s": 0.03 * seconds,
        "wasted_j": 0.0,
        "wasted_s": 0.0,
        "blob": writer.put_blob(f"epoch {decision['epoch']} {loss!r}".encode()),
        "nodes": [
            {
                "node": sample.call(n),
                "samples": 100,
                "train_loss": loss,
                "cpu_s": 0.01 * seconds,
                "energy_j": share,
                "elapsed_s": seconds,
            }
            for n in names
        ],
        "failed_nodes": [],
    }

"""A whole orchestrator in small: plans, 'trains' a vector for a millisecond, records and resumes through the store.

Every epoch is a pure function of (weights, epoch, seed), so the weights after a resumed run can be compared bit for
bit with those of an undisturbed one. `python stub_run.py STORE RUN EPOCHS` runs or resumes it and prints one line for
each epoch after it was acknowledged.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

import numpy as np

from relaytrain.core.errors import StoppedByUser
from relaytrain.store import Clock, RunStore, RunWriter

SIZE = 256  # numbers; a checkpoint is a little more than 2 kB
HANDOVER_EVERY = 4


def start_weights() -> np.ndarray:
    return np.random.default_rng(7).standard_normal(SIZE)


def train(weights: np.ndarray, epoch: int) -> np.ndarray:
    noise = np.random.default_rng((11, epoch)).standard_normal(SIZE)
    for _ in range(20):
        weights = weights - 0.01 * weights + 0.001 * noise
    return weights


def prune(weights: np.ndarray) -> np.ndarray:
    return np.where(np.abs(weights) < 0.01, 0.0, weights)


def pack(epoch: int, weights: np.ndarray) -> bytes:
    return struct.pack("<q", epoch) + weights.tobytes()


def unpack(data: bytes) -> tuple[int, np.ndarray]:
    return struct.unpack("<q", data[:8])[0], np.frombuffer(data[8:]).copy()


def expected_weights(epochs: int) -> np.ndarray:
    """What a run that nothing disturbs arrives at, without any store."""
    weights = start_weights()
    for epoch in range(1, epochs + 1):
        if epoch % HANDOVER_EVERY == 0:
            weights = prune(weights)
        weights = train(weights, epoch)
    return weights


def run(
    store: RunStore,
    name: str,
    epochs: int,
    *,
    told: Callable[[str, int], None] = lambda what, epoch: None,
    thin_every: int = 0,
) -> str:
    """Start the run or go on with it; the verdict. `told` hears when an epoch begins ("work") and is safe ("done")."""
    if store.events(name):
        writer = store.resume_run(name)  # first the lease, then the reading
        checkpoint = store.latest_checkpoint(name)
        assert checkpoint is not None
        _, weights = unpack(checkpoint.data)
        good = checkpoint.event.epoch or 0
        handed_over = checkpoint.event.kind == "handover"
        with writer:
            done = good - 1 if handed_over else good
            if done < writer.progress.epoch:  # damaged checkpoints were passed over
                writer.append("rolled_back", {"reason": "damaged", "tried": list(checkpoint.skipped)}, done)
            return _loop(store, writer, weights, epochs, handed_over, told, thin_every)
    weights = start_weights()
    with store.create_run(name, {"name": "stub", "epochs": epochs}, start=pack(0, weights)) as writer:
        return _loop(store, writer, weights, epochs, False, told, thin_every)


def _loop(
    store: RunStore,
    writer: RunWriter,
    weights: np.ndarray,
    epochs: int,
    handed_over: bool,
    told: Callable[[str, int], None],
    thin_every: int,
) -> str:
    clock = store._clock
    while writer.progress.epoch < epochs:
        epoch = writer.progress.epoch + 1
        decision = {"epoch": epoch, "version": "L" if epoch < HANDOVER_EVERY else "S", "nodes": "gold"}
        if writer.stop_requested():
            writer.append("verdict", {"verdict": "stopped", **writer.progress.totals.to_dict()})
            raise StoppedByUser(f"run {writer.run} was stopped; `relaytrain resume {writer.run}` goes on")
        if writer.planned is None:
            writer.append("planned", {"decision": decision, "law": [1.0 / epoch, float("inf")]}, epoch)
        told("work", epoch)
        began_s = clock.monotonic_s()
        if epoch % HANDOVER_EVERY == 0 and not handed_over:
            weights = prune(weights)
            writer.append("handover", {"blob": writer.put_blob(pack(epoch, weights))}, epoch)
        handed_over = False
        weights = train(weights, epoch)
        body = {
            "decision": decision,
            "loss": float(np.mean(weights**2)),
            "energy_j": 2.0 * epoch,
            "elapsed_s": float(epoch),
            "wall_s": clock.monotonic_s() - began_s,
            "blob": writer.put_blob(pack(epoch, weights)),
        }
        writer.append("epoch_done", body, epoch)
        told("done", epoch)
        if thin_every and epoch % thin_every == 0:
            writer.thin()
    writer.append("verdict", {"verdict": "met", **writer.progress.totals.to_dict()})
    return "met"


def main(folder: str, name: str, epochs: str) -> None:
    def told(what: str, epoch: int) -> None:
        if what == "done":
            print(epoch, flush=True)

    print(run(RunStore.open(folder, clock=Clock()), name, int(epochs), told=told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

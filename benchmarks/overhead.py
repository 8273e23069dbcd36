"""What orchestration costs: epochs of a real run against a bare PyTorch FedAvg loop that does the same work.

    python benchmarks/overhead.py [--repetitions 10] [--short] [--family resnet8] [--width 4]

The run is a whole one: it plans after every epoch, records decision, checkpoint and outcome durably, and checks every
update. The bare loop trains the same nodes from the same seeds, averages, and evaluates, and nothing else. They take
turns epoch by epoch; CPU and wall seconds of each are compared with its neighbours'. Wanted: at most 2 % more of both
in the median, with `--short` (epochs of about 0.2 s on an idle core) 5 %, and the same weights bit for bit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from machine import calibrated
from torch.nn import functional

from relaytrain.models import build
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.assembly import job_of
from relaytrain.scenario import load_scenario
from relaytrain.store import RunStore
from relaytrain.testing.small_training import tables
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.settings import seed_of
from relaytrain.training.setup import TrainingSetup


@dataclass(frozen=True)
class EpochSize:
    """How long an epoch lasts, by width and samples of the nodes, and how much more it may cost."""

    seconds: float
    width: float
    samples: tuple[int, int, int]
    wanted: float


LONG, SHORT = EpochSize(1.5, 4.0, (64, 640, 580), 0.02), EpochSize(0.2, 2.0, (64, 160, 144), 0.05)


@dataclass
class Taken:
    """CPU and wall seconds, epoch by epoch."""

    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    _mark: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        self._mark = time.process_time(), time.monotonic()

    def end(self) -> None:
        self.cpu_s.append(time.process_time() - self._mark[0])
        self.wall_s.append(time.monotonic() - self._mark[1])


class BareLoop:
    """FedAvg on the nodes of one set with PyTorch alone: no checkpoints, no store, no planner."""

    def __init__(self, setup: TrainingSetup, nodes: str) -> None:
        self.settings = setup.settings
        self.data = {
            node: (torch.from_numpy(setup.datasets[node].images), torch.from_numpy(setup.datasets[node].labels))
            for node in setup.nodes_of(nodes)
        }
        held_out = setup.validation
        self.held_out = torch.from_numpy(held_out.images), torch.from_numpy(held_out.labels)
        assert setup.full.spec is not None
        self.model = build(setup.full.spec, seed=setup.settings.seed)
        self.names = [name for name, _ in self.model.named_parameters()]
        self.weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.momentum: dict[str, torch.Tensor] = {}
        self.epoch = 0

    def run(self) -> float:
        """One epoch; the loss on the held-out set."""
        self.epoch += 1
        states, momenta, counts = [], [], []
        for node, (images, labels) in self.data.items():
            self.model.load_state_dict(self.weights)
            optimizer = torch.optim.SGD(self.model.parameters(), lr=self.settings.lr, momentum=self.settings.momentum)
            parameters = dict(self.model.named_parameters())
            for name, tensor in self.momentum.items():
                optimizer.state[parameters[name]]["momentum_buffer"] = tensor.clone()
            torch.manual_seed(seed_of(self.settings.seed, self.epoch, node))
            self.model.train()
            for chosen in torch.randperm(len(labels)).split(self.settings.batch):
                loss = functional.cross_entropy(self.model(images[chosen]), labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            states.append({name: tensor.clone() for name, tensor in self.model.state_dict().items()})
            momenta.append({name: optimizer.state[p]["momentum_buffer"] for name, p in parameters.items()})
            counts.append(len(labels))
        self.weights, self.momentum = mean(states, counts), mean(momenta, counts)
        return self.loss()

    def loss(self) -> float:
        self.model.load_state_dict(self.weights)
        self.model.eval()
        images, labels = self.held_out
        with torch.no_grad():
            return float(functional.cross_entropy(self.model(images), labels))


def mean(states: list[dict[str, torch.Tensor]], counts: list[int]) -> dict[str, torch.Tensor]:
    """The sample-weighted mean, summed in float64."""
    averaged = {}
    for name, first in states[0].items():
        if not first.is_floating_point():
            averaged[name] = torch.stack([state[name] for state in states]).amax(dim=0)
            continue
        total = torch.zeros(first.shape, dtype=torch.float64)
        for state, count in zip(states, counts, strict=True):
            total.add_(state[name], alpha=count / sum(counts))
        averaged[name] = total.to(first.dtype)
    return averaged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--family", default="resnet8")
    parser.add_argument("--width", type=float, help="instead of the size's own")
    parser.add_argument("--short", action="store_true", help="epochs of 0.2 s instead of 1.5")
    options = parser.parse_args()
    size = SHORT if options.short else LONG
    torch.set_num_threads(1)
    made = tables(family=options.family, width=options.width or size.width)
    made["nodes"] = [{**node, "samples": n} for node, n in zip(made["nodes"], size.samples, strict=True)]
    made["pairs"] = [{"version": "full", "nodes": "silver"}]
    made["start"] = {**made["start"], "nodes": "silver"}
    # A target out of reach: the run goes on until its epochs are used up, planning anew after each of them.
    made["target"] = {"loss": 1e-9, "max_epochs": options.repetitions + 1}
    made["law"]["curves"][0]["floor"] = 0.0
    scenario = load_scenario(made)
    setup = TrainingSetup.from_scenario(scenario)
    bare = BareLoop(setup, "silver")
    ours, theirs = Taken(), Taken()

    def between(_: Any) -> None:
        ours.end()
        theirs.begin()
        bare.run()
        theirs.end()
        ours.begin()

    job = job_of(scenario, setup=setup)
    with calibrated(), tempfile.TemporaryDirectory() as folder:
        store = RunStore.open(folder)
        ours.begin()
        ended = orchestrator.start(job, store, run="overhead", told=between)
        kept = store.latest_checkpoint("overhead")
        assert kept is not None
        last = Checkpoint.from_bytes(kept.data)
    print(
        f"the run: {ended.verdict} after {len(ended.outcomes)} epochs at loss {ended.loss:.3g}; "
        f"{'; '.join(ended.notes)}"
    )
    report(ours, theirs, last, bare, size)


def report(ours: Taken, theirs: Taken, last: Checkpoint, bare: BareLoop, asked: EpochSize) -> None:
    """Each orchestrated epoch against its two bare neighbours; the first one pays for imports and is left out."""
    equal = all(torch.equal(last.weights[name], tensor) for name, tensor in bare.weights.items())
    equal &= all(torch.equal(last.optimizer[f"momentum_buffer/{n}"], t) for n, t in bare.momentum.items())
    size = len(last.data) / 1e6
    print(f"{len(ours.cpu_s) - 1} repetitions; checkpoint {size:.1f} MB; weights and momentum equal: {equal}")
    epoch_s = float(np.median(theirs.cpu_s[1:]))
    print(f"bare epoch: {epoch_s:.2f} s CPU (about {asked.seconds:g} on an idle core)")
    for name in ("cpu_s", "wall_s"):
        one, bare_s = np.array(getattr(ours, name)[1:]), np.array(getattr(theirs, name))
        other = (bare_s[:-1] + bare_s[1:]) / 2.0  # the bare epochs before and after: slow drift cancels
        ratio = float(np.median(one / other)) - 1.0
        low, high = np.quantile(one / other - 1.0, [0.25, 0.75])
        verdict = "met" if ratio <= asked.wanted else "NOT met"
        print(
            f"{name[:-2]}: orchestrated {np.median(one):.3f} s, bare {np.median(other):.3f} s, "
            f"overhead {ratio:+.2%} (quartiles {low:+.2%} to {high:+.2%}), wanted <= {asked.wanted:.0%}: {verdict}"
        )
    if not equal:
        raise SystemExit("the weights differ")


if __name__ == "__main__":
    main()

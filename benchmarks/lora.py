"""Ranks of an adapter against full fine-tuning in bytes, and two ways to average factors, side by side.

    python benchmarks/lora.py                          # bytes, then averaging: rank 4, seeds 700 to 704
    python benchmarks/lora.py bytes
    python benchmarks/lora.py averaging --local-epochs 8 --epochs 2     # nodes go further apart between averages
    python benchmarks/lora.py averaging --first 950 --seeds 2      # development seeds: 950 and on

Both train `examples/text_lora` for real, from the base that `notices.py` makes by training on other texts.

bytes: two epochs of a node set of two nodes as full fine-tuning and at ranks 8 and 2: bytes of every task and answer as
they cross a process boundary, and of every checkpoint as the store keeps it, optimizer's state included.

averaging: three nodes, each with four fifths of one class. From the same weights, data and seeds one relay averages the
products of the factors (`low_rank.mean_of_products`, what runs do), the other the factors apart (`naive_mean`). Every
epoch: the loss on the held-out texts, and how far the averaged product is from the true mean of the nodes' products, as
a share of that mean (over all adapted weights). `on the same updates` holds both ways against the updates of the first
relay, so that only the averaging differs. Intervals are of 2,000 bootstrap samples of seeds (95 %).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from machine import calibrated

from relaytrain.compression.low_rank import Factors, mean_of_products
from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.scenario import load_scenario
from relaytrain.store import RunStore, blobs
from relaytrain.training import aggregate
from relaytrain.training.setup import TrainingSetup
from relaytrain.training.task import NodeResult, NodeTask

EXAMPLE = Path(__file__).parents[1] / "examples" / "text_lora"
Parts = Sequence[tuple[float, Factors]]
SKEWED = '''
"""The texts of `notices`, most of a class at one node."""
import torch
from notices import BATCH, Sentences

def loader(who):
    rows = Sentences()
    size = len(rows)
    apart = {"validation": range(0, size // 4), "test": range(size // 4, size // 2)}
    if who in apart:
        return torch.utils.data.DataLoader(torch.utils.data.Subset(rows, apart[who]), batch_size=BATCH)
    mine = int(who.removeprefix("node-"))
    held = []
    for at in range(size // 2, size):
        label = int(rows[at]["labels"])
        owner = label if at % 5 else (label + 1 + at // 5 % 2) % 3
        held += [at] if owner == mine else []
    return torch.utils.data.DataLoader(torch.utils.data.Subset(rows, held), batch_size=BATCH, shuffle=True)
'''


def tables(version: dict[str, Any], nodes: Sequence[str], data: str, seed: int, local_epochs: int = 1) -> Any:
    """One version of the example's network on one node set."""
    return {
        "schema": 1,
        "name": "lora",
        "target": {"loss": 1e-6},
        "versions": [{"name": "it", "factory": "notices:classifier", **version}],
        "nodes": [{"name": name} for name in nodes],
        "node_sets": [{"name": "all", "nodes": list(nodes)}],
        "pairs": [{"version": "it", "nodes": "all", "seconds": 1.0, "energy": 1.0}],
        "law": {"kind": "level", "curves": [{"floor": 0.1, "drop": 1.0, "scale": 3.0, "power": 1.0}]},
        "training": {"optimizer": "adamw", "lr": 0.002, "batch": 16, "seed": seed, "local_epochs": local_epochs},
        "data": {"source": data, "partition": "by-node"},
    }


def adapter(rank: int) -> dict[str, Any]:
    """As the example's scenario has it."""
    return {"rank": rank, "targets": ["word_embeddings", "query", "value"], "train": ["bert.pooler", "classifier"]}


def prepared(made: Any, folder: Path) -> TrainingSetup:
    """References are followed from `folder`."""
    return TrainingSetup.from_scenario(load_scenario(made), folder=folder)


class Counting:
    """A transport that weighs what would cross a process boundary."""

    def __init__(self, setup: TrainingSetup) -> None:
        self.inner, self.sent, self.answered = InProcess(setup), 0, 0

    def send(self, tasks: Iterable[NodeTask]) -> Iterator[NodeResult]:
        """Each task and each answer in the form that processes exchange."""
        asked = list(tasks)
        self.sent += sum(len(task.to_bytes()) for task in asked)
        for result in self.inner.send(asked):
            self.answered += len(result.to_bytes())
            yield result

    def close(self) -> None:
        """Of the inner one."""
        self.inner.close()


def bytes_of(folder: Path) -> None:
    """Full fine-tuning, rank 8, rank 2."""
    rows: dict[str, tuple[float, ...]] = {}
    for name, version in (("full", {}), ("rank 8", adapter(8)), ("rank 2", adapter(2))):
        setup = prepared(tables(version, ("desk-1", "desk-2"), "notices:loader", 0), folder)
        counting = Counting(setup)
        epochs, checkpoint = FederatedEpoch(setup, counting), setup.first_checkpoint()
        with tempfile.TemporaryDirectory() as place:
            RunStore.open(place)
            for epoch in (1, 2):
                checkpoint = epochs.run_epoch(Decision(epoch, "it", "all"), checkpoint).checkpoint
                blobs.put(Path(place), "lora", checkpoint.data)
            kept = sum(file.stat().st_size for file in blobs.folder_of(Path(place), "lora").iterdir())
        facts = setup.version_facts()["it"]
        rows[name] = (facts.parameters, facts.weight_bytes, counting.sent, counting.answered, kept)
        counting.close()
    print(f"{'':8s} {'trained':>9s} {'weights B':>10s} {'sent B':>10s} {'answered B':>10s} {'stored B':>10s}")
    for name, row in rows.items():
        shares = " ".join(f"{value / whole:6.3f}" for value, whole in zip(row, rows["full"], strict=True))
        print(f"{name:8s} {row[0]:9.0f} " + " ".join(f"{value:10.0f}" for value in row[1:]) + f"   of full: {shares}")


class Watched:
    """`way`, and how far it and the other one are from the true mean of the products."""

    def __init__(self, way: Callable[[Parts], Factors]) -> None:
        self.way = way
        self.off: dict[str, float] = {}
        self.whole = 0.0

    def __call__(self, parts: Parts) -> Factors:
        """One pair of factors; squared distances add up over pairs."""
        true = torch.stack([weight * b.double() @ a.double() for weight, (b, a) in parts]).sum(dim=0)
        self.whole += float(true.square().sum())
        for name, way in WAYS.items():
            b, a = way(parts)
            self.off[name] = self.off.get(name, 0.0) + float((b.double() @ a.double() - true).square().sum())
        return self.way(parts)

    def closed(self) -> dict[str, float]:
        """Distances as shares of the mean; begins anew."""
        shares = {name: (off / self.whole) ** 0.5 for name, off in self.off.items()}
        self.off, self.whole = {}, 0.0
        return shares


def naive_mean(parts: Parts) -> Factors:
    """Factors averaged apart, for comparison: their product is not the mean of the products."""
    b = torch.stack([weight * b.double() for weight, (b, _) in parts]).sum(dim=0)
    a = torch.stack([weight * a.double() for weight, (_, a) in parts]).sum(dim=0)
    return b.to(parts[0][1][0].dtype), a.to(parts[0][1][1].dtype)


WAYS: dict[str, Callable[[Parts], Factors]] = {"rank-aware": mean_of_products, "naive": naive_mean}


def relay(folder: Path, rank: int, local_epochs: int, epochs: int, seed: int, way: str) -> dict[str, Any]:
    """Losses and distances by epoch."""
    nodes = ("node-0", "node-1", "node-2")
    setup = prepared(tables(adapter(rank), nodes, "skewed:loader", seed, local_epochs), folder)
    runner, checkpoint = FederatedEpoch(setup, InProcess(setup)), setup.first_checkpoint()
    watched = Watched(WAYS[way])
    losses: list[float] = []
    shares: list[dict[str, float]] = []
    with patch.object(aggregate, "mean_of_products", watched):
        for epoch in range(1, epochs + 1):
            done = runner.run_epoch(Decision(epoch, "it", "all"), checkpoint)
            checkpoint = done.checkpoint
            losses.append(done.outcome.loss)
            shares.append(watched.closed())
    return {"losses": losses, "shares": shares}


def interval(values: Sequence[float]) -> str:
    """The mean, and of bootstrap samples."""
    held, rng = np.array(values), np.random.default_rng(0)
    drawn = np.sort(held[rng.integers(0, len(held), (2000, len(held)))].mean(axis=1))
    return f"{held.mean():.4f} [{drawn[50]:.4f}, {drawn[-51]:.4f}]"


def averaging(folder: Path, asked: argparse.Namespace) -> None:
    """Both ways by rank and local epochs."""
    for rank in asked.ranks:
        for local in asked.local_epochs:
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS}
            for seed in range(asked.first, asked.first + asked.seeds):
                for name in WAYS:
                    found[name].append(relay(folder, rank, local, asked.epochs, seed, name))
                last = {name: rows[-1] for name, rows in found.items()}
                figures = (f"{n} {r['losses'][-1]:.4f} off {r['shares'][-1][n]:.4f}" for n, r in last.items())
                print(f"rank {rank}, {local} local, seed {seed}: {'; '.join(figures)}", flush=True)
            print(f"\nrank {rank}, {local} local epochs, {asked.seeds} seeds, three nodes with a class each")
            for name, rows in found.items():
                losses = np.array([row["losses"] for row in rows])
                off = [float(np.mean([s[name] for s in row["shares"]])) for row in rows]
                last_off = [row["shares"][-1][name] for row in rows]
                ended, mean = interval(losses[:, -1]), interval(losses.mean(axis=1))
                print(f"  {name:11s} loss after {asked.epochs} {ended}, mean of epochs {mean}")
                print(f"  {'':11s} off the true mean {interval(off)}, in the last epoch {interval(last_off)}")
            gap = [b["losses"][-1] - a["losses"][-1] for a, b in zip(found["rank-aware"], found["naive"], strict=True)]
            same = [
                float(np.mean([s["naive"] / s["rank-aware"] for s in row["shares"] if s["rank-aware"] > 1e-9]))
                for row in found["rank-aware"]
            ]
            print(
                f"  naive minus rank-aware: loss {interval(gap)}; distances on the same updates: {interval(same)} times"
            )


def main() -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["bytes", "averaging", "all"], default="all")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4])
    parser.add_argument("--local-epochs", type=int, nargs="+", default=[2])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--first", type=int, default=700)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with calibrated(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(EXAMPLE / "notices.py", folder)
        (folder / "skewed.py").write_text(SKEWED)
        sys.path.insert(0, name)
        import notices

        notices.pretrain()
        if asked.what != "averaging":
            bytes_of(folder)
        if asked.what != "bytes":
            averaging(folder, asked)


if __name__ == "__main__":
    main()

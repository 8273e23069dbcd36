"""What data and step of one's own cost: the examples against plain PyTorch loops, and memory against data on disk.

    python benchmarks/own_data.py overhead [--repetitions 8] [--only tabular]
    python benchmarks/own_data.py memory [--images 20000]

overhead: whole runs (plans after every epoch, durable checkpoints, checked updates) of one node and one version, epoch
by epoch in turn with the loop that a user would write: same data, seeds, optimizer, and a look at the validation set.
Wanted: at most 2 % more CPU in the median at epochs of 1.5 s or more, and the same weights bit for bit.

memory: `examples/disk_images` with once to eight times as many images on disk, each in a process of its own; the
highest resident memory. Wanted: within 10 % of the first.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import calibrated
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

from relaytrain.data.own import OwnData
from relaytrain.relay import loop as orchestrator
from relaytrain.relay.assembly import job_of
from relaytrain.scenario import scenario_from
from relaytrain.store import RunStore
from relaytrain.training.checkpoint import Checkpoint
from relaytrain.training.settings import seed_of
from relaytrain.training.setup import TrainingSetup

EXAMPLES = Path(__file__).parents[1] / "examples"
WANTED, LEAST_S, FLAT = 0.02, 1.5, 0.10
TIMES = (1, 2, 4, 8)


class PlainLoop:
    """What a user writes: a loader, a step, an optimizer, and a look at the validation set after every epoch."""

    def __init__(self, node: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.node, self.model, self.optimizer, self.epoch = node, model, optimizer, 0

    def run(self, loader: Iterable[Any], held_out: Iterable[Any], step: Any, look: Any) -> None:
        """One epoch."""
        self.epoch += 1
        seed = seed_of(0, self.epoch, self.node)
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        self.model.train()
        total = 0.0
        for batch in loader:
            self.optimizer.zero_grad()
            loss = step(self.model, batch)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.model.eval()
        with torch.no_grad():
            for batch in held_out:
                look(self.model, batch)


def plain_step(function: Any) -> Any:
    """The step of whoever has (inputs, labels)."""
    return lambda model, batch: function(model(batch[0]), batch[1])


def squared(model: nn.Module, batch: Any) -> float:
    given = model(batch[0])
    return float(functional.mse_loss(given, batch[1])) + float((given - batch[1]).square().mean())


def right(model: nn.Module, batch: Any) -> float:
    given = model(batch[0])
    return float(functional.cross_entropy(given, batch[1])) + int((given.argmax(1) == batch[1]).sum())


def tabular(module: Any) -> None:
    module.SIZES["train"] = 60_000


def sequence(module: Any) -> None:
    module.COUNTS["library"] = 6_000


def disk_images(module: Any) -> None:
    module.COUNTS["train"] = 14_000


def keywords(model: nn.Module, batch: Any) -> Any:
    """The step of whoever has transformers."""
    return model(**batch).loss


def looked_at(model: nn.Module, batch: Any) -> float:
    given = model(**batch)
    return float(given.loss) + int((given.logits.argmax(1) == batch["labels"]).sum())


def vit(module: Any) -> None:
    module.COUNTS["studio"] = 4_000 if any(module.FOLDER.glob("train-images*")) else 1_000  # there are fewer digits


def text_lora(module: Any) -> None:
    module.MOST = 1_500


JOBS: dict[str, tuple[str, Any, str, str, list[str]]] = {
    "tabular": ("houses", tabular, "office", "server", ["nodes.server.samples=50000"]),
    "sequence": ("verses", sequence, "archive", "library", ["nodes.library.samples=6000"]),
    "disk_images": ("scans", disk_images, "hospital", "archive", ["data.partition=iid"]),
    "vit": ("garments", vit, "cloud", "studio", ["nodes.studio.samples=1000"]),
    "text_lora": ("notices", text_lora, "cloud", "library", ["start.version=rank8", "start.nodes=cloud"]),
}
OTHERS = {"office": "branches", "archive": "desks", "hospital": "vans"}
FULL = {"text_lora": "rank8"}
OUT_OF_REACH = ["target.loss=1e-9", "target.metric=loss", "target.deadline=inf"]
LAW = "law.curves=[{floor = 0.0, drop = 1.0, scale = 3, power = 1.5}]"


def overhead(name: str, repetitions: int) -> bool:
    """One example; whether it kept to what is wanted."""
    file, enlarge, nodes, node, sizes = JOBS[name]
    sys.path.insert(0, str(EXAMPLES / name))
    module = importlib.import_module(file)
    enlarge(module)
    others = OTHERS.get(nodes) or ("shops" if name == "vit" else "desks")
    changes = [*OUT_OF_REACH, f"target.max_epochs={repetitions + 1}", *sizes, LAW]
    if name != "sequence":
        changes.append(f'pairs=[{{version = "{FULL.get(name, "full")}", nodes = "{nodes}"}}]')
    scenario = scenario_from(EXAMPLES / name / f"{file}.toml", changes, [others])
    setup = TrainingSetup.from_scenario(scenario)
    held, validation = setup.datasets[node], setup.validation
    assert isinstance(held, OwnData) and isinstance(validation, OwnData) and setup.full.spec is not None
    model = setup.first_checkpoint().model(resolve=setup.resolve)
    settings = setup.settings
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer: torch.optim.Optimizer
    if settings.optimizer == "adamw":
        optimizer = torch.optim.AdamW(trained, lr=settings.lr, weight_decay=0.0)
    elif settings.optimizer == "adam":
        optimizer = torch.optim.Adam(trained, lr=settings.lr)
    else:
        optimizer = torch.optim.SGD(trained, lr=settings.lr, momentum=settings.momentum)
    plain = PlainLoop(node, model, optimizer)
    if name == "sequence":
        words: tuple[Any, ...] = (module.lines("library"), module.lines("validation"), module.step, module.evaluate)
    elif name in ("vit", "text_lora"):
        words = (module.loader(node), module.loader("validation"), keywords, looked_at)
    else:
        whole = held.value
        assert held.indexes is not None and validation.indexes is not None
        loader = DataLoader(Subset(whole, held.indexes.tolist()), batch_size=settings.batch, shuffle=True)
        look_at = DataLoader(Subset(whole, validation.indexes.tolist()), batch_size=settings.batch)
        kinds = (functional.mse_loss, squared) if name == "tabular" else (functional.cross_entropy, right)
        words = (loader, look_at, plain_step(kinds[0]), kinds[1])
    ours: list[float] = []
    theirs: list[float] = []
    mark = [0.0]

    def between(_: Any) -> None:
        ours.append(time.process_time() - mark[0])
        begin = time.process_time()
        with torch.random.fork_rng(devices=[]):
            plain.run(*words)
        theirs.append(time.process_time() - begin)
        mark[0] = time.process_time()

    with tempfile.TemporaryDirectory() as folder:
        store = RunStore.open(folder)
        job = job_of(scenario, setup=setup)
        mark[0] = time.process_time()
        orchestrator.start(job, store, run="own-data", told=between)
        kept = store.latest_checkpoint("own-data")
        assert kept is not None
        weights = Checkpoint.from_bytes(kept.data).weights
    state = model.state_dict()
    equal = all(torch.equal(state[key], tensor) for key, tensor in weights.items())
    one, bare = np.array(ours[1:]), np.array(theirs)
    ratios = one / ((bare[:-1] + bare[1:]) / 2.0) - 1.0  # the plain epochs before and after: slow drift cancels
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    long_enough = float(np.median(bare)) >= LEAST_S
    print(
        f"{name}: plain epoch {np.median(bare):.2f} s CPU{'' if long_enough else ' (too short)'}, "
        f"overhead {middle:+.2%} (quartiles {low:+.2%} to {high:+.2%}, {len(ratios)} epochs), wanted <= {WANTED:.0%}: "
        f"{'met' if middle <= WANTED else 'NOT met'}; weights equal: {equal}",
        flush=True,
    )
    return equal


MEASURED = """
import resource, sys
import relaytrain as rt
ended = rt.run(sys.argv[1], store=sys.argv[2], overrides=["target.loss=1e-9", "target.max_epochs=1", *sys.argv[3:]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, ended.outcomes[0].loss)
"""


def memory(images: int) -> None:
    """The highest resident memory of a run of one epoch, by the number of images on disk."""
    first = 0.0
    sys.path.insert(0, str(EXAMPLES / "disk_images"))
    with tempfile.TemporaryDirectory() as folder:
        for times in TIMES:
            count = times * images
            environment = {**os.environ, "SCANS_FOLDER": folder, "SCANS_COUNT": str(count)}
            scans = importlib.import_module("scans")
            file = scans.write(Path(folder), "train", count)
            words = [str(EXAMPLES / "disk_images" / "scans.toml"), f"{folder}/runs-{times}"]
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, *words], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            highest, loss = map(float, done.stdout.split())
            first = first or highest
            print(
                f"{times} x: {count} images, {file.stat().st_size / 1e6:.0f} MB on disk, "
                f"{count * scans.SIDE**2 * 4 / 1e6:.0f} MB as floats; highest resident {highest:.0f} MB "
                f"({highest / first:.3f} of the first), error {loss:.3f}: "
                f"{'flat' if abs(highest / first - 1.0) <= FLAT else 'NOT flat'}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "memory"])
    parser.add_argument("--repetitions", type=int, default=8)
    parser.add_argument("--only", choices=list(JOBS))
    parser.add_argument("--images", type=int, default=20_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "memory":
        memory(options.images)
        return
    with calibrated(), tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("SCANS_FOLDER", folder)
        equal = [overhead(name, options.repetitions) for name in ([options.only] if options.only else JOBS)]
    if not all(equal):
        raise SystemExit("the weights differ")


if __name__ == "__main__":
    main()

"""The user's data and step, unchanged: the examples with one node are a plain PyTorch loop, bit for bit."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

import relaytrain as rt
from relaytrain.core.plan import Decision
from relaytrain.executors.epoch import FederatedEpoch
from relaytrain.executors.inprocess import InProcess
from relaytrain.executors.processes import Processes
from relaytrain.scenario import load_scenario
from relaytrain.training.settings import seed_of
from relaytrain.training.setup import TrainingSetup

pytestmark = pytest.mark.train
EXAMPLES = Path(__file__).parents[2] / "examples"
EPOCHS = 2
AS_LOSS = ("target.metric=loss", "start.loss=1.1", "start.version=rank8")
Weights = dict[str, torch.Tensor]


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of an example, as if its folder were the user's."""
    folder, name = request.param
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES / folder))
    module = importlib.import_module(name)
    yield module
    sys.modules.pop(name)


def trained(
    folder: str,
    file: str,
    nodes: str,
    transport: Any = InProcess,
    changes: tuple[str, ...] = (),
    version: str = "full",
) -> tuple[Any, Weights, list[float]]:
    """Two epochs of one version on a node set."""
    setup = TrainingSetup.from_scenario(load_scenario(EXAMPLES / folder / file, changes))
    means = transport(setup)
    epochs = FederatedEpoch(setup, means)
    checkpoint, losses = setup.first_checkpoint(), []
    for epoch in range(1, EPOCHS + 1):
        done = epochs.run_epoch(Decision(epoch, version, nodes), checkpoint)
        checkpoint = done.checkpoint
        losses.append(done.outcome.loss)
    means.close()
    return setup, checkpoint.weights, losses


def seed_pass(epoch: int, node: str) -> None:
    seed = seed_of(0, epoch, node)
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def built(make: Any) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = make()
    return model


def same(weights: Weights, model: nn.Module) -> bool:
    return all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())


def share(setup: TrainingSetup, node: str) -> list[int]:
    """Which rows of the whole table the scenario gives to a node."""
    indexes: list[int] = setup.datasets[node].indexes.tolist()
    return indexes


@pytest.mark.parametrize("example", [("tabular", "houses")], indirect=True)
def test_a_table_with_float_targets_is_plain_pytorch(example: ModuleType) -> None:
    setup, weights, losses = trained("tabular", "houses.toml", "office")
    model, wanted = built(example.network), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    whole = example.houses("train")
    table, held_out = Subset(whole, share(setup, "server")), Subset(whole, setup.validation.indexes.tolist())
    for epoch in range(1, EPOCHS + 1):
        seed_pass(epoch, "server")
        model.train()
        for rows, prices in DataLoader(table, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            functional.mse_loss(model(rows), prices).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            squared = 0.0
            for rows, prices in DataLoader(held_out, batch_size=32):
                squared += float((model(rows) - prices).square().mean()) * len(rows)
        wanted.append((squared / len(held_out)) ** 0.5)
    assert same(weights, model)
    assert losses == wanted


@pytest.mark.parametrize("example", [("tabular", "houses")], indirect=True)
def test_ways_of_training_hold_for_data_of_ones_own(example: ModuleType) -> None:
    ways = {"precision": "bf16", "accumulate": 2, "clip_norm": 0.5, "warmup_epochs": 1}
    changes = tuple(f"training.{key}={value}" for key, value in ways.items())
    setup, weights, _ = trained("tabular", "houses.toml", "office", changes=changes)
    model = built(example.network).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(Subset(example.houses("train"), share(setup, "server")), batch_size=32, shuffle=True)
    steps = -(-len(loader) // 2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / steps))
    for epoch in range(1, EPOCHS + 1):
        seed_pass(epoch, "server")
        batches = list(loader)
        for first in range(0, len(batches), 2):
            group = batches[first : first + 2]
            optimizer.zero_grad()
            for rows, prices in group:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = functional.mse_loss(model(rows), prices)
                (loss / (2 * len(group[0][1]) / len(prices))).backward()
            seen, whole = sum(len(prices) for _, prices in group), 2 * len(group[0][1])
            if seen != whole:
                for parameter in model.parameters():
                    assert parameter.grad is not None
                    parameter.grad.mul_(whole / seen)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
    assert same(weights, model)


@pytest.mark.parametrize("example", [("sequence", "verses")], indirect=True)
def test_a_sequence_model_with_its_own_step_is_plain_pytorch(example: ModuleType) -> None:
    _, weights, losses = trained("sequence", "verses.toml", "archive")
    model, wanted = built(example.reader), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader, held_out = example.lines("library"), example.lines("validation")
    for epoch in range(1, EPOCHS + 1):
        seed_pass(epoch, "library")
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            example.step(model, batch).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            sums = [example.evaluate(model, batch) for batch in held_out]
        mean = sum(s["loss"] for s in sums) / sum(s["count"] for s in sums)
        wanted.append(float(np.exp(mean)))
    assert same(weights, model)
    assert losses == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("example", [("disk_images", "scans")], indirect=True)
def test_augmented_images_from_disk_are_plain_pytorch(example: ModuleType) -> None:
    setup, weights, losses = trained("disk_images", "scans.toml", "hospital")
    model, wanted = built(example.network), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    whole = example.scans("train")
    images, held_out = Subset(whole, share(setup, "archive")), Subset(whole, setup.validation.indexes.tolist())
    for epoch in range(1, EPOCHS + 1):
        seed_pass(epoch, "archive")
        model.train()
        for pictures, kinds in DataLoader(images, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            functional.cross_entropy(model(pictures), kinds).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            torch.manual_seed(0)
            np.random.seed(0)
            right = [int((model(x).argmax(1) == y).sum()) for x, y in DataLoader(held_out, batch_size=32)]
        wanted.append(1.0 - sum(right) / len(held_out))
    assert same(weights, model)
    assert losses == wanted


def looped(model: nn.Module, loaders: tuple[Any, Any], lr: float, node: str) -> list[float]:
    """What a user of transformers writes: batches are keywords, the outputs have a loss. Losses on the held-out set."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr, weight_decay=0.0)
    seen = []
    for epoch in range(1, EPOCHS + 1):
        seed_pass(epoch, node)
        model.train()
        for batch in loaders[0]:
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            sums = [(float(model(**batch).loss) * len(batch["labels"]), len(batch["labels"])) for batch in loaders[1]]
        seen.append(sum(loss for loss, _ in sums) / sum(count for _, count in sums))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("example", [("vit", "garments")], indirect=True)
def test_a_vision_transformer_with_augmentation_is_plain_pytorch(example: ModuleType) -> None:
    pytest.importorskip("transformers")
    _, weights, losses = trained("vit", "garments.toml", "cloud")
    model = built(example.vit)
    wanted = looped(model, (example.loader("studio"), example.loader("validation")), 0.003, "studio")
    assert same(weights, model)
    assert losses == wanted


@pytest.mark.slow
@pytest.mark.parametrize("example", [("text_lora", "notices")], indirect=True)
def test_an_adapter_of_a_text_classifier_is_peft_and_plain_pytorch(example: ModuleType) -> None:
    peft = pytest.importorskip("peft")
    setup, weights, losses = trained("text_lora", "notices.toml", "cloud", changes=AS_LOSS, version="rank8")
    base = built(example.classifier)
    torch.manual_seed(0)
    config = peft.LoraConfig(r=8, lora_alpha=8, target_modules=["word_embeddings", "query", "value"])
    model = peft.inject_adapter_in_model(config, base)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name or name.startswith(("bert.pooler", "classifier")))
    settings = setup.settings
    wanted = looped(model, (example.loader("library"), example.loader("validation")), settings.lr, "library")
    state = model.state_dict()
    assert len(weights) == sum(p.requires_grad for p in model.parameters())
    assert all(torch.equal(tensor, state[name]) for name, tensor in weights.items())
    assert losses == wanted


@pytest.mark.soak
@pytest.mark.parametrize("example", [("text_lora", "notices")], indirect=True)
def test_ranks_are_averaged_alike_in_worker_processes(example: ModuleType) -> None:
    pytest.importorskip("peft")
    words = {"folder": "text_lora", "file": "notices.toml", "nodes": "desks", "version": "rank2"}
    (_, here, losses), (_, there, others) = (
        trained(**words, transport=means) for means in (InProcess, partial(Processes, workers=1))
    )
    assert losses == others
    assert all(torch.equal(here[name], there[name]) for name in here)


@pytest.mark.slow
@pytest.mark.parametrize("example", [("sequence", "verses")], indirect=True)
def test_worker_processes_fetch_the_data_and_give_the_same_bits(example: ModuleType) -> None:
    _, here, losses = trained("sequence", "verses.toml", "desks")
    _, there, others = trained("sequence", "verses.toml", "desks", Processes)
    assert losses == others
    assert all(torch.equal(here[name], there[name]) for name in here)


@pytest.mark.slow
@pytest.mark.parametrize("example", [("sequence", "verses")], indirect=True)
def test_objects_of_this_process_train_as_the_scenario_does(example: ModuleType, tmp_path: Path) -> None:
    file = EXAMPLES / "sequence" / "verses.toml"
    by_name = rt.run(file, store=tmp_path / "named", overrides=["target.max_epochs=1"])
    torch.manual_seed(0)
    data = {name: example.lines(name) for name in example.COUNTS}
    own = {"step": example.step, "evaluate": example.evaluate, "overrides": ["target.max_epochs=1"]}
    given = rt.train(example.reader(), data, file, store=tmp_path / "own", **own)
    assert [o.loss for o in given.outcomes] == [o.loss for o in by_name.outcomes]

"""From a scenario's tables to data, versions and settings; and everything that is refused on the way."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import nn

from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.models import save_version
from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import small_setup, tables
from relaytrain.training.checkpoint import METADATA_KEY, Checkpoint
from relaytrain.training.datasets import Sets
from relaytrain.training.settings import TrainingSettings, seed_of
from relaytrain.training.setup import TrainingSetup

pytestmark = pytest.mark.train


def built(**changes: Any) -> TrainingSetup:
    made = tables()
    for path, value in changes.items():
        table, _, key = path.partition("__")
        made[table] = {**made[table], key: value} if key else value
    return TrainingSetup.from_scenario(load_scenario(made))


def test_defaults_are_the_papers() -> None:
    made = tables()
    made["training"] = {}
    settings = TrainingSetup.from_scenario(load_scenario(made)).settings
    assert (settings.loss, settings.batch, settings.optimizer) == ("cross-entropy", 64, "sgd")
    assert (settings.lr, settings.momentum, settings.local_epochs) == (1e-3, 0.9, 1)
    del made["training"]
    assert TrainingSetup.from_scenario(load_scenario(made)).settings == settings
    assert settings == TrainingSettings()


def test_the_clock_is_emulated_once_a_node_has_a_profile() -> None:
    assert built().settings.clock == "emulated"
    made = tables()
    made["nodes"] = [{k: v for k, v in node.items() if k != "device"} for node in made["nodes"]]
    made["pairs"] = [{"version": "full", "nodes": "gold", "seconds": 1.0, "energy": 1.0}]
    del made["devices"]
    assert TrainingSetup.from_scenario(load_scenario(made)).settings.clock == "measured"
    made["training"]["clock"] = "emulated"
    assert TrainingSetup.from_scenario(load_scenario(made)).settings.clock == "emulated"


def test_what_is_counted_once_a_process_is_what_each_setup_would_count() -> None:
    setups = [small_setup(), small_setup(seed=7), small_setup(importance="l2"), small_setup(width=0.5)]
    told = [setup.version_facts() for setup in setups]
    for setup, facts in zip(setups, told, strict=True):
        assert facts == {name: setup._facts(plan) for name, plan in setup.versions.items()}


def test_partitions() -> None:
    sized = built()
    assert {n: len(d) for n, d in sized.datasets.items()} == {"cloud": 128, "edge-1": 64, "edge-2": 48}
    iid = built(data__partition="iid")
    assert len(iid.validation) == pytest.approx(0.1 * 1438, abs=10)
    assert sum(len(d) for d in iid.datasets.values()) + len(iid.validation) + len(iid.test) == 1797
    owners = {"cloud": [0, 1, 2], "edge-1": [3, 4], "edge-2": [5]}
    by_class = built(data={"source": "digits", "partition": "by-class", "classes": owners})
    assert {n: sorted(set(d.labels.tolist())) for n, d in by_class.datasets.items()} == owners
    assert by_class.datasets["cloud"].classes == 10
    uneven = built(data={"source": "digits", "partition": "dirichlet", "alpha": 0.1})
    assert max(uneven.datasets["cloud"].histogram()) > 2 * np.mean(uneven.datasets["cloud"].histogram())


def test_data_is_deterministic_by_seed() -> None:
    one, same, other = built(), built(), built(data__seed=1)
    assert one.datasets["cloud"].digest() == same.datasets["cloud"].digest() != other.datasets["cloud"].digest()
    seen = [row.tobytes() for data in (*one.datasets.values(), one.validation, one.test) for row in data.images]
    assert len(set(seen)) == len(seen), "an image is in two sets"


def test_the_quick_parts_go_to_their_nodes() -> None:
    data = {"source": "quick", "nodes": {"cloud": "gold", "edge-1": "bronze", "edge-2": "bronze"}}
    setup = built(data=data)
    assert {n: len(d) for n, d in setup.datasets.items()} == {"cloud": 128, "edge-1": 64, "edge-2": 48}
    assert (len(setup.validation), len(setup.test)) == (500, 157)
    with pytest.raises(ScenarioError, match=r"data.nodes.edge-2: got 'edge-2', expected one of.*gold, silver, bronze"):
        built(data={**data, "nodes": {"cloud": "gold", "edge-1": "bronze"}})


def test_images_can_be_smaller_and_standardised() -> None:
    setup = built(data={"source": "digits", "shrink": 2, "standardise": True})
    assert setup.validation.input == (1, 4, 4)
    images = np.concatenate([d.images for d in setup.datasets.values()])
    assert abs(images.mean()) < 1e-5 and images.std() == pytest.approx(1.0, abs=1e-4)


def test_a_users_function_gives_the_data(tmp_path: Path) -> None:
    (tmp_path / "users_data.py").write_text(
        "import numpy as np\n"
        "def images(split):\n"
        "    rng = np.random.default_rng(len(split))\n"
        "    return rng.random((400, 1, 8, 8)), rng.integers(0, 4, 400)\n"
        "def parts():\n"
        "    return {n: images(n) for n in ('a', 'b', 'validation', 'test')}\n"
    )
    made = tables()
    made["data"] = {"source": "users_data:images"}
    setup = TrainingSetup.from_scenario(load_scenario(made), folder=tmp_path)
    assert setup.validation.classes == 4 and setup.first_checkpoint().weights["classifier.3.bias"].shape == (4,)
    made["data"] = {"source": "users_data:parts", "nodes": {"cloud": "a", "edge-1": "b", "edge-2": "b"}}
    setup = TrainingSetup.from_scenario(load_scenario(made), folder=tmp_path)
    assert len(setup.datasets["edge-1"]) == 64 and len(setup.test) == 400


def test_versions_and_their_facts() -> None:
    setup = small_setup()
    facts = setup.version_facts()
    assert facts["full"].parameters == 13_706
    assert facts["half"].reached_ratio == pytest.approx(0.5, abs=0.03)
    assert facts["small"].reached_ratio == pytest.approx(0.75, abs=0.03), "0.5 of half is 0.75 of full"
    assert facts["full"].flops_per_sample > facts["half"].flops_per_sample > facts["small"].flops_per_sample
    assert facts["half"].to_dict()["spec"]["family"] == "cnn"
    assert setup.initial("small").spec == facts["small"].spec


def test_start_from_a_file(tmp_path: Path) -> None:
    wanted = small_setup(seed=9).first_checkpoint()
    (tmp_path / "start.safetensors").write_bytes(wanted.data)
    made = tables(start="start.safetensors")
    setup = TrainingSetup.from_scenario(load_scenario(made), folder=tmp_path)
    assert setup.first_checkpoint().digest == wanted.digest
    (tmp_path / "start.safetensors").write_bytes(b"not one")
    with pytest.raises(ScenarioError, match=r"training.start: start.safetensors"):
        setup.first_checkpoint()
    (tmp_path / "start.safetensors").write_bytes(save_version(wanted.model(), wanted.spec))
    with pytest.raises(ScenarioError, match=r"in its header; expected a checkpoint that relaytrain saved"):
        setup.first_checkpoint()
    (tmp_path / "start.safetensors").write_bytes(save({}, metadata={METADATA_KEY: "{}"}))
    with pytest.raises(ScenarioError, match=r"is no JSON table of spec and version; expected a checkpoint"):
        setup.first_checkpoint()
    with pytest.raises(ScenarioError, match="cannot read gone"):
        small_setup().with_settings(start="gone").first_checkpoint()


@pytest.mark.parametrize("thing", ["fifo", "device", "link", "sparse"])
def test_a_start_file_is_a_file(tmp_path: Path, thing: str) -> None:
    """A pipe would be waited for, a device has no end, a link may lead anywhere."""
    start = tmp_path / "start"
    if thing == "fifo":
        os.mkfifo(start)
    elif thing == "sparse":
        start.write_bytes(b"")
        os.truncate(start, 1 << 40)
    else:
        (tmp_path / "real").write_bytes(small_setup(seed=9).first_checkpoint().data)
        start.symlink_to(tmp_path / "real") if thing == "link" else None
    place = "/dev/zero" if thing == "device" else str(start)
    with pytest.raises(ScenarioError, match=r"training\.start: cannot read .*; expected a checkpoint"):
        small_setup().with_settings(start=place).first_checkpoint()


def test_a_module_at_hand() -> None:
    base = small_setup()
    sets = Sets(base.datasets, base.validation, base.test)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))
    setup = TrainingSetup.from_model(model, base.problem, sets, ratios={"half": 0.5, "small": 0.75})
    first = setup.first_checkpoint()
    assert all(torch.equal(first.weights[name], tensor) for name, tensor in model.state_dict().items())
    assert setup.version_facts()["half"].parameters < 0.55 * setup.version_facts()["full"].parameters
    assert Checkpoint.from_bytes(first.data).model(resolve=setup.resolve) is not model
    with pytest.raises(UsageError, match="nothing for 'small'"):
        TrainingSetup.from_model(model, base.problem, sets, ratios={"half": 0.5})


def test_learning_rates_depend_on_the_epoch_alone() -> None:
    step = TrainingSettings(lr=1.0, lr_schedule="step", lr_epochs=10, lr_factor=0.1)
    assert [step.lr_at(k) for k in (1, 10, 11, 21)] == pytest.approx([1.0, 1.0, 0.1, 0.01])
    cosine = TrainingSettings(lr=1.0, lr_schedule="cosine", lr_epochs=10, lr_factor=0.0)
    assert [cosine.lr_at(k) for k in (1, 6, 11, 50)] == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=1e-12)
    assert cosine.lr_at(4) == pytest.approx(0.5 * (1 + math.cos(0.3 * math.pi)))


def test_seeds_differ_by_run_epoch_and_node() -> None:
    seeds = {seed_of(run, epoch, node) for run in range(5) for epoch in range(5) for node in ("a", "b", "1/a")}
    assert len(seeds) == 75 and all(0 <= seed < 2**63 for seed in seeds)
    assert TrainingSettings.from_dict(TrainingSettings(lr=0.5).to_dict()) == TrainingSettings(lr=0.5)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two networks": ({"versions": [{"name": "full", "family": "cnn", "factory": "a:b"}]}, "one of family, factory"),
    "no network": ({"versions": [{"name": "full"}]}, "no network for full"),
    "first is pruned": ({"versions": [{"name": "full", "ratio": 0.5}]}, "family or factory"),
    "of without ratio": ({"versions": [{"name": "full", "family": "cnn", "of": "x"}]}, "of without ratio"),
    "width alone": ({"versions": [{"name": "full", "factory": "a:b", "width": 2.0}]}, "width without family"),
    "unknown of": (
        {"versions": [{"name": "full", "family": "cnn"}, {"name": "b", "ratio": 0.5, "of": "c"}]},
        "a version declared before: full",
    ),
    "ratio of one": ({"versions": [{"name": "full", "family": "cnn"}, {"name": "b", "ratio": 1.0}]}, "versions"),
    "node nobody declared": ({"data": {"source": "digits", "nodes": {"clout": "gold"}}}, "did you mean 'cloud'"),
    "device of nobody": ({"training": {"devices": {"x": "cpu"}}}, "training.devices.x"),
    "device that is none": ({"training": {"devices": {"cloud": "tpu"}}}, "cuda"),
    "source that is none": ({"data": {"source": "imagenet"}}, "fashion-mnist"),
    "by class without classes": ({"data": {"source": "digits", "partition": "by-class"}}, "data.classes"),
    "unknown optimizer": ({"training": {"optimizer": "sdg"}}, "did you mean 'sgd'"),
    "unknown key": ({"training": {"learning_rate": 0.1}}, "training.learning_rate"),
    "both ways of clipping": ({"training": {"clip_norm": 1.0, "clip_value": 1.0}}, "training.clip_value"),
    "two warm-ups": ({"training": {"warmup_epochs": 1.0, "lr_schedule": "mine:cycle"}}, "warms up itself"),
    "steps of our schedules": ({"training": {"lr_schedule": "cosine", "lr_every": "step"}}, "go by the epoch"),
    "a server's rate without one": ({"training": {"server_lr": 0.1}}, 'strategy = "fedavgm" or "fedadam"'),
    "unknown schedule": ({"training": {"lr_schedule": "cosin"}}, "did you mean 'cosine'"),
    "unknown precision": ({"training": {"precision": "fp8"}}, "training.precision"),
    "no share": ({"node_sets": [{"name": "gold", "nodes": ["cloud"], "sample_share": 0.0}]}, "sample_share"),
    "a share of a pipeline": (
        {"node_sets": [{"name": "gold", "nodes": ["cloud"], "mode": "pipeline", "sample_share": 0.5}]},
        "each holds a part of the network",
    ),
    "clipping in a pipeline": (
        {
            "node_sets": [{"name": "gold", "nodes": ["cloud"], "mode": "pipeline"}],
            "training": {"clip_norm": 1.0},
        },
        "training.clip_norm: got clip_norm with the pipeline 'gold'",
    ),
    "batch of one": ({"training": {"batch": 1}}, "from 2"),
    "a code reference that is none": ({"data": {"source": "os.system('x'):y"}}, "data.source"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_when_loading(name: str) -> None:
    changes, words = REFUSED[name]
    with pytest.raises(ScenarioError) as caught:
        load_scenario({**tables(), **changes})
    assert words in str(caught.value)


def test_what_is_refused_when_building() -> None:
    made = tables()
    del made["data"]
    with pytest.raises(ScenarioError, match=r"no table \[data\]"):
        TrainingSetup.from_scenario(load_scenario(made))
    with pytest.raises(ScenarioError, match=r"family: got 'nope', expected one of.*vgg11"):
        built(versions=[{**tables()["versions"][0], "family": "nope"}])
    with pytest.raises(ScenarioError, match="a module of Python itself"):
        versions = [{k: v for k, v in tables()["versions"][0].items() if k not in {"family", "width"}}]
        built(versions=[{**versions[0], "factory": "os:getcwd"}])

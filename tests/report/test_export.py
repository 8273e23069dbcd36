"""Exports read back with nothing but torch and safetensors: the run's weights, bit for bit."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch") is None:
    pytest.skip("needs torch", allow_module_level=True)

import torch
from safetensors.torch import load_file
from torch import nn

from relaytrain.compression.prune import prune
from relaytrain.core.errors import RelayTrainError, StoreDamaged, UsageError
from relaytrain.export import network_formats as formats
from relaytrain.export.exported_network import export_run
from relaytrain.models import build, family_spec, load_version, save_version, spec_of
from relaytrain.models.rebuild import from_scenario, of_module
from relaytrain.store import RunStore
from relaytrain.store.files import FileOps, using
from relaytrain.training.checkpoint import Checkpoint

pytestmark = pytest.mark.train
RUN = "exported-1"


def pruned(seed: int) -> Checkpoint:
    """A small CNN that lost half its parameters, with momentum beside its weights."""
    spec = family_spec("cnn", input=(1, 8, 8), classes=10)
    model = prune(build(spec, seed=seed), torch.zeros((2, 1, 8, 8)), 0.5).model
    momentum = {f"momentum_buffer/{name}": torch.ones_like(p) for name, p in model.named_parameters()}
    return Checkpoint.of_model(model, spec_of(model, spec), "half", momentum)


def write(store: RunStore, checkpoints: list[Checkpoint], losses: list[float]) -> None:
    decision = {"version": "half", "nodes": "gold"}
    body = {"scenario": {"name": "small", "target": {"loss": 0.5}}}
    with store.create_run(RUN, body, start=checkpoints[0].to_bytes()) as writer:
        for epoch, (checkpoint, loss) in enumerate(zip(checkpoints, losses, strict=True), 1):
            writer.append("planned", {"decision": decision}, epoch)
            done = {"decision": decision, "loss": loss, "energy_j": 1.0, "elapsed_s": 1.0}
            writer.append("epoch_done", {**done, "blob": writer.put_blob(checkpoint.to_bytes())}, epoch)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Three epochs, the second the best; both versions exported."""
    folder = tmp_path_factory.mktemp("export")
    store = RunStore.open(folder / "runs")
    checkpoints = [pruned(seed) for seed in (1, 2, 3)]
    write(store, checkpoints, [0.9, 0.3, 0.4])
    final = export_run(store, RUN, folder / "final")
    best = export_run(store, RUN, folder / "best", which="best")
    return store, checkpoints, final, best


def bits(state):
    return {name: (tensor.dtype, tensor.shape, tensor.numpy().tobytes()) for name, tensor in state.items()}


@pytest.mark.parametrize(("which", "index"), [("final", 2), ("best", 1)])
@pytest.mark.slow
def test_every_file_holds_the_runs_weights(exported, which, index):
    _, checkpoints, final, best = exported
    exported = final if which == "final" else best
    checkpoint, folder = checkpoints[index], exported.folder
    wanted = bits(checkpoint.weights)
    assert (exported.epoch, exported.loss, exported.version) == (index + 1, (0.9, 0.3, 0.4)[index], "half")
    assert bits(load_file(folder / "state_dict.safetensors")) == wanted
    assert bits(torch.load(folder / "state_dict.pt", weights_only=True)) == wanted
    spec, model = load_version((folder / "model.safetensors").read_bytes())
    assert spec == checkpoint.spec and bits(model.state_dict()) == wanted
    assert json.loads((folder / "spec.json").read_text()) == spec.to_dict()
    plain = build(spec)
    plain.load_state_dict(torch.load(folder / "state_dict.pt", weights_only=True))
    inputs = torch.randn((5, 1, 8, 8), generator=torch.Generator().manual_seed(3))
    program = torch.export.load(folder / "model.pt2").module()
    with torch.no_grad():
        assert torch.equal(program(inputs), plain.eval()(inputs)), "and for another batch size than it was traced with"
    assert exported.rebuilt and json.loads((folder / "scenario.json").read_text())["name"] == "small"


@pytest.mark.slow
def test_the_manifest_names_every_file(exported):
    _, checkpoints, final, _ = exported
    manifest = json.loads((final.folder / "export.json").read_text())
    assert set(manifest["sha256"]) | {"export.json"} == set(final.files) == {p.name for p in final.folder.iterdir()}
    for name, digest in manifest["sha256"].items():
        assert hashlib.sha256((final.folder / name).read_bytes()).hexdigest() == digest
    assert manifest["checkpoint"].startswith(checkpoints[2].digest)
    if formats.onnx_missing():
        assert any("model.onnx" in words and "not installed" in words for words in final.skipped)


def test_a_version_from_weights_is_the_one_from_a_module():
    checkpoint = pruned(1)
    assert formats.version_bytes(checkpoint.weights, checkpoint.spec) == save_version(
        checkpoint.model(), checkpoint.spec
    )


@pytest.mark.slow
def test_what_cannot_be_exported_is_refused_in_words(exported, tmp_path):
    store, checkpoints, final, _ = exported
    with pytest.raises(UsageError, match="not empty"):
        export_run(store, RUN, final.folder)
    with pytest.raises(UsageError, match="no run"):
        export_run(store, "another-run", tmp_path / "out")
    other = RunStore.open(tmp_path / "runs")
    other.create_run(RUN, {}, start=checkpoints[0].to_bytes()).close()
    with pytest.raises(UsageError, match="nothing to export"):
        export_run(other, RUN, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_checkpoint_is_not_exported(tmp_path):
    store = RunStore.open(tmp_path / "runs")
    write(store, [pruned(1)], [0.5])
    blob = next((tmp_path / "runs" / "blobs" / RUN).glob(f"{pruned(1).digest}*"))
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    with pytest.raises(StoreDamaged):
        export_run(store, RUN, tmp_path / "out")


@pytest.mark.slow
def test_a_file_that_reads_back_otherwise_is_noticed(tmp_path, monkeypatch):
    """A disk that writes other bytes than it was given: the verb itself says so."""

    class Liar(FileOps):
        def write(self, fd, data):
            flipped = bytearray(data)
            flipped[-1] ^= 1
            super().write(fd, memoryview(flipped))

    store = RunStore.open(tmp_path / "runs")
    write(store, [pruned(1)], [0.5])
    monkeypatch.setattr(formats, "exported_program", lambda model, shape: b"x")
    with using(Liar()), pytest.raises(RelayTrainError, match="do not use it"):
        export_run(store, RUN, tmp_path / "out")


def test_bits_count_not_values():
    assert not formats.same({"a": torch.tensor([0.0])}, {"a": torch.tensor([-0.0])})
    assert formats.same({"a": torch.tensor([float("nan")])}, {"a": torch.tensor([float("nan")])})
    assert not formats.same({"a": torch.zeros(2)}, {"a": torch.zeros((2, 1))})
    assert not formats.same({"a": torch.zeros(2)}, {"b": torch.zeros(2)})
    assert formats.same({"a": torch.zeros(0)}, {"a": torch.zeros(0)})


OWN = """
from pathlib import Path
from torch import nn

def net():
    Path(__file__).with_name("called").write_text("yes")
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
"""


def test_a_users_own_network_is_built_only_when_named(tmp_path, monkeypatch):
    package = "own_network_for_export"
    (tmp_path / f"{package}.py").write_text(OWN)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    spec, _ = of_module(model, f"{package}:net")
    store = RunStore.open(tmp_path / "runs")
    write(store, [Checkpoint.of_model(model, spec, "full")], [0.5])
    exported = export_run(store, RUN, tmp_path / "weights")
    assert not exported.rebuilt and f"--model {package}:net" in exported.skipped[0]
    assert bits(load_file(tmp_path / "weights" / "state_dict.safetensors")) == bits(model.state_dict())
    assert not (tmp_path / "called").exists(), "a reference out of a store is not followed"
    resolve = from_scenario(f"{package}:net", tmp_path)
    half = export_run(store, RUN, tmp_path / "half", resolve=resolve)
    assert not half.rebuilt and "--input" in half.skipped[0]
    monkeypatch.setattr(formats, "exported_program", _archive)
    monkeypatch.setattr(formats, "read_program", lambda data: torch.load(io.BytesIO(data), weights_only=False))
    whole = export_run(store, RUN, tmp_path / "whole", resolve=resolve, shape=(1, 8, 8))
    assert whole.rebuilt and (tmp_path / "called").exists()
    sys.modules.pop(package, None)


def _archive(model: nn.Module, shape: tuple[int, ...]) -> bytes:
    """Stands in for torch.export, which takes seconds and is tested above."""
    buffer = io.BytesIO()
    torch.save(model, buffer)
    return buffer.getvalue()


def test_a_network_that_cannot_be_traced_is_left_out_with_a_sentence(tmp_path):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return self.layer(x) if float(x.sum()) > 0 else -self.layer(x)

    model = Odd()
    spec, resolve = of_module(model)
    store = RunStore.open(tmp_path / "runs")
    write(store, [Checkpoint.of_model(model, spec, "full")], [0.5])
    exported = export_run(store, RUN, tmp_path / "out", resolve=resolve, shape=(4,))
    assert exported.rebuilt and any(
        words.startswith("model.pt2: torch.export cannot trace") for words in exported.skipped
    )
    assert not (Path(exported.folder) / "model.pt2").exists()


@pytest.mark.slow
def test_onnx_takes_raw_inputs():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    from onnx.reference import ReferenceEvaluator

    from relaytrain.data.domain import Preprocessing
    from relaytrain.training.preprocessing import with_preprocessing

    network = with_preprocessing(pruned(1).model(), Preprocessing(2, (40.0,), (300.0,)))
    proto = onnx.load_from_string(formats.onnx_model(network, (1, 16, 16)))
    raw = 300.0 * torch.randn((5, 1, 16, 16), generator=torch.Generator().manual_seed(3))
    (outputs,) = ReferenceEvaluator(proto).run(None, {proto.graph.input[0].name: raw.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(outputs), network(raw))

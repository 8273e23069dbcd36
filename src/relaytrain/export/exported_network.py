"""A trained version out of the store, in files that others can use, each read back and compared bit for bit.

| file | what |
|---|---|
| `model.safetensors`, `spec.json` | the version: weights with its spec; `relaytrain.models.load_version` rebuilds it |
| `state_dict.safetensors`, `state_dict.pt` | plain state_dicts; the second for `torch.load(..., weights_only=True)` |
| `model.pt2` | `torch.export` archive, when the network can be built here and traced |
| `model.onnx` | when onnx and onnxscript are installed |
| `scenario.json` | the scenario of the run, every default written out |
| `export.json` | where it came from, and the SHA-256 of every file |

A version of a user's own factory is written without calling the factory; only who names it (`factory`) has it called.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.errors import RelayTrainError, ScenarioError, UsageError
from ..report.run_parts import EpochView
from ..report.run_view import RunView
from ..store import RunStore
from ..store.files import make_dir, write_atomic
from . import empty_folder

if TYPE_CHECKING:
    from torch import nn

    from ..models.rebuild import Resolve
    from ..training.checkpoint import Checkpoint

Which = Literal["final", "best"]
SCHEMA = "relaytrain.export/1"


@dataclass(frozen=True)
class Exported:
    """What was written. `skipped` says in a sentence each what was not; `rebuilt`: the network was built, compared."""

    run: str
    which: Which
    epoch: int
    version: str
    loss: float
    folder: Path
    files: tuple[str, ...]
    skipped: tuple[str, ...]
    rebuilt: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {**vars(self), "folder": str(self.folder), "files": list(self.files), "skipped": list(self.skipped)}
        return {"schema": SCHEMA, **plain}


def export_run(
    store: RunStore,
    run: str,
    folder: str | Path,
    *,
    which: Which = "final",
    resolve: Resolve | None = None,
    shape: tuple[int, ...] | None = None,
    force: bool = False,
) -> Exported:
    """Write the final or the best version of a run to `folder`.

    Args:
        store: where the run is.
        run: its name.
        folder: made when missing; must be empty unless `force`.
        which: `final`, after the last epoch, or `best`, the lowest loss.
        resolve: follows the version's factory, if it has one; without it the network itself is not built.
        shape: channels, height and width of an input, for a factory's network; families know theirs.
        force: write into a folder that holds other files.
    """
    from ..training.checkpoint import Checkpoint

    place = empty_folder(folder, force=force)
    store.summary(run)  # refuses a run that is not there
    view = RunView.of(store.events(run))
    epoch = chosen(view, which)
    checkpoint = Checkpoint.from_bytes(store.get_blob(run, epoch.blob or ""), where=f"run {run}, epoch {epoch.epoch}")
    texts, skipped = _contents(checkpoint, resolve, shape)
    if view.scenario:
        texts["scenario.json"] = _json(view.scenario)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in texts.items()}
    origin = {"schema": SCHEMA, "run": run, "which": which, "epoch": epoch.epoch, "loss": epoch.loss}
    origin |= {"version": checkpoint.version, "pair": list(epoch.pair), "checkpoint": epoch.blob, "sha256": digests}
    texts["export.json"] = _json(origin)
    make_dir(place)
    for name, data in texts.items():
        write_atomic(place / name, data)
    rebuilt = _check(place, checkpoint, resolve, shape)
    told = run, which, epoch.epoch, checkpoint.version, epoch.loss
    return Exported(*told, place, tuple(texts), tuple(skipped), rebuilt)


def chosen(view: RunView, which: Which) -> EpochView:
    """The epoch whose version is meant."""
    epoch = view.best if which == "best" else (view.epochs[-1] if view.epochs else None)
    if epoch is None or epoch.blob is None:
        raise UsageError(f"run {view.run} has no epoch done yet; there is nothing to export")
    return epoch


def _contents(
    checkpoint: Checkpoint, resolve: Resolve | None, shape: tuple[int, ...] | None
) -> tuple[dict[str, bytes], list[str]]:
    from ..models.spec import spec_json
    from . import network_formats as formats

    weights = checkpoint.weights
    texts = {
        "model.safetensors": formats.version_bytes(weights, checkpoint.spec),
        "spec.json": (spec_json(checkpoint.spec) + "\n").encode(),
        "state_dict.safetensors": formats.state_safetensors(weights),
        "state_dict.pt": formats.state_pt(weights),
    }
    skipped: list[str] = []
    model, shape, why = _network(checkpoint, resolve, shape)
    if model is None or shape is None:
        return texts, [f"model.pt2, model.onnx: {why}"]
    try:
        texts["model.pt2"] = formats.exported_program(model, shape)
    except ScenarioError as error:
        skipped.append(f"model.pt2: {error}")
    missing = formats.onnx_missing()
    if missing is not None:
        return texts, [*skipped, f"model.onnx: the package {missing} is not installed (pip install onnx onnxscript)"]
    try:
        texts["model.onnx"] = formats.onnx_model(model, shape)
    except ScenarioError as error:
        skipped.append(f"model.onnx: {error}")
    return texts, skipped


def _network(
    checkpoint: Checkpoint, resolve: Resolve | None, shape: tuple[int, ...] | None
) -> tuple[nn.Module | None, tuple[int, ...] | None, str]:
    """The network, the shape of its input, and why one of them is missing."""
    from ..models import FamilySpec

    spec = checkpoint.spec
    if isinstance(spec, FamilySpec):
        return checkpoint.model(), spec.input, ""
    if resolve is None:
        return None, None, f"built by {spec.factory}, which is only called when you name it (--model {spec.factory})"
    if shape is None:
        return None, None, "the shape of an input is not known; give it (--input CHANNELS,HEIGHT,WIDTH)"
    return checkpoint.model(resolve=resolve), shape, ""


def _check(place: Path, checkpoint: Checkpoint, resolve: Resolve | None, shape: tuple[int, ...] | None) -> bool:
    """Read every file back and compare it with the checkpoint, bit for bit; whether the network was built again too."""
    from ..models import load_version
    from ..models.travel import read_version_spec
    from . import network_formats as formats

    version = (place / "model.safetensors").read_bytes()
    plain = (place / "state_dict.safetensors").read_bytes()
    read = {
        "model.safetensors": formats.read_safetensors(version),
        "state_dict.safetensors": formats.read_safetensors(plain),
        "state_dict.pt": formats.read_state_pt((place / "state_dict.pt").read_bytes()),
    }
    for name, tensors in read.items():
        if not formats.same(tensors, checkpoint.weights):
            raise RelayTrainError(f"{place / name}: read back, it is not what the run holds; do not use it")
    if read_version_spec(version, where="model.safetensors") != checkpoint.spec:
        raise RelayTrainError(f"{place / 'model.safetensors'}: read back, its spec is not the run's; do not use it")
    model, shape, _ = _network(checkpoint, resolve, shape)
    if model is None or shape is None:
        return False
    _, rebuilt = load_version(version, resolve=resolve, where="model.safetensors")
    if not formats.same(rebuilt.state_dict(), checkpoint.weights) or not formats.same_outputs(
        model, rebuilt.eval(), shape
    ):
        raise RelayTrainError(
            f"{place / 'model.safetensors'}: the rebuilt network differs from the run's; do not use it"
        )
    archive = place / "model.pt2"
    if archive.is_file() and not formats.same_outputs(model, formats.read_program(archive.read_bytes()), shape):
        raise RelayTrainError(f"{archive}: its outputs are not the run's; do not use it")
    return True


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()

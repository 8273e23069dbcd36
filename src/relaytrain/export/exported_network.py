"""A trained version out of the store, in files that others can use, each read back and compared bit for bit.

| file | what |
|---|---|
| `README.md` | what it is, what inputs it takes, how to load it |
| `model.safetensors`, `spec.json` | the version: weights with its spec; `relaytrain.models.load_version` rebuilds it |
| `state_dict.safetensors`, `state_dict.pt` | plain state_dicts; the second for `torch.load(..., weights_only=True)` |
| `model.pt2` | `torch.export` archive, when the network can be built here and traced; takes raw inputs |
| `model.onnx` | the same as ONNX, when onnx and onnxscript are installed (they come with the extra `train`) |
| `scenario.json` | the scenario of the run, every default written out |
| `export.json` | where it came from, and the SHA-256 of every file |

A version of a user's own factory is written without calling the factory; only who gives `resolve` has it called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..core.errors import RelayTrainError, ScenarioError, UsageError
from ..data.domain import Preprocessing
from ..report.event_fields import table
from ..report.run_parts import EpochView
from ..report.run_view import RunView
from ..store import RunStore
from ..store.files import make_dir, write_atomic
from . import empty_folder
from .export_readme import readme

if TYPE_CHECKING:
    from torch import nn

    from ..models.rebuild import Resolve
    from ..training.checkpoint import Checkpoint

Which = Literal["final", "best"]
SCHEMA = "relaytrain.export/1"
LARGEST = 4096
"""Channels or pixels of an input that is believed without asking."""


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
        shape: channels, height and width of the network's input, where neither the run nor a family says it.
        force: write into a folder that holds other files.
    """
    from ..training.checkpoint import Checkpoint

    place = empty_folder(folder, force=force)
    store.summary(run)  # refuses a run that is not there
    view = RunView.of(store.events(run))
    epoch = chosen(view, which)
    checkpoint = Checkpoint.from_bytes(store.get_blob(run, epoch.blob or ""), where=f"run {run}, epoch {epoch.epoch}")
    steps, lost = _steps(view)
    built, why = _build(checkpoint, resolve, shape or _kept_shape(view), steps)
    texts, skipped = _contents(checkpoint, built, why)
    if steps is not None:
        texts["spec.json"] = _json({**checkpoint.spec.to_dict(), "preprocessing": steps.to_dict()})
    if view.scenario:
        texts["scenario.json"] = _json(view.scenario)
    raw_shape = None if built is None else built.raw_shape
    texts["README.md"] = readme(view, epoch, which, steps, raw_shape, tuple(texts)).encode()
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in texts.items()}
    origin = {"schema": SCHEMA, "run": run, "which": which, "epoch": epoch.epoch, "loss": epoch.loss}
    origin |= {"version": checkpoint.version, "pair": list(epoch.pair), "checkpoint": epoch.blob, "sha256": digests}
    texts["export.json"] = _json(origin)
    make_dir(place)
    for name, data in texts.items():
        write_atomic(place / name, data)
    _check(place, checkpoint, built, resolve)
    told = run, which, epoch.epoch, checkpoint.version, epoch.loss
    return Exported(*told, place, tuple(texts), (*skipped, *lost), built is not None)


def chosen(view: RunView, which: Which) -> EpochView:
    """The epoch whose version is meant."""
    epoch = view.best if which == "best" else (view.epochs[-1] if view.epochs else None)
    if epoch is None or epoch.blob is None:
        raise UsageError(f"run {view.run} has no epoch done yet; there is nothing to export")
    return epoch


class _Built(NamedTuple):
    """A network that could be built here: as trained, for inputs of `shape`, and for raw inputs of `raw_shape`."""

    network: nn.Module
    shape: tuple[int, ...]
    for_raw: nn.Module
    raw_shape: tuple[int, ...]


def _steps(view: RunView) -> tuple[Preprocessing | None, list[str]]:
    """What was done to raw inputs; None and a sentence, if it matters, for runs that did not keep it."""
    kept, data = view.started.get("preprocessing"), table(view.scenario.get("data"))
    if isinstance(kept, Mapping):
        return Preprocessing.from_dict(kept), []
    if data.get("standardise") or data.get("shrink", 1) != 1:
        return None, ["preprocessing: made by a release that did not keep its constants; no file takes raw inputs"]
    return None, []


def _kept_shape(view: RunView) -> tuple[int, ...] | None:
    kept = view.started.get("input")
    sizes = kept if isinstance(kept, list) else []
    return tuple(sizes) if sizes and all(isinstance(size, int) and 0 < size <= LARGEST for size in sizes) else None


def _contents(checkpoint: Checkpoint, built: _Built | None, why: str) -> tuple[dict[str, bytes], list[str]]:
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
    if built is None:
        return texts, [f"model.pt2, model.onnx: {why}"]
    try:
        texts["model.pt2"] = formats.exported_program(built.for_raw, built.raw_shape)
    except ScenarioError as error:
        skipped.append(f"model.pt2: {error}")
    missing = formats.onnx_missing()
    if missing is not None:
        words = f"the package {missing} is not installed; it comes with pip install 'relaytrain[train]'"
        return texts, [*skipped, f"model.onnx: {words}"]
    try:
        texts["model.onnx"] = formats.onnx_model(built.for_raw, built.raw_shape)
    except ScenarioError as error:
        skipped.append(f"model.onnx: {error}")
    return texts, skipped


def _build(
    checkpoint: Checkpoint, resolve: Resolve | None, shape: tuple[int, ...] | None, steps: Preprocessing | None
) -> tuple[_Built | None, str]:
    """The network, if it can be built here, else why not."""
    from ..models import FamilySpec
    from ..training.preprocessing import with_preprocessing

    spec = checkpoint.spec
    if isinstance(spec, FamilySpec):
        shape = spec.input
    elif resolve is None:
        return None, f"built by {spec.factory}, which is only called when you name it (--model {spec.factory})"
    if shape is None:
        return None, "the shape of an input is not known; give it (--input CHANNELS,HEIGHT,WIDTH)"
    network, known = checkpoint.model(resolve=resolve), steps or Preprocessing()
    return _Built(network, shape, with_preprocessing(network, known), known.raw_shape(shape)), ""


def _check(place: Path, checkpoint: Checkpoint, built: _Built | None, resolve: Resolve | None) -> None:
    """Read every file back and compare it with the checkpoint, bit for bit, and the network if it was built."""
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
    if built is None:
        return
    _, rebuilt = load_version(version, resolve=resolve, where="model.safetensors")
    alike = formats.same_outputs(built.network, rebuilt.eval(), built.shape)
    if not alike or not formats.same(rebuilt.state_dict(), checkpoint.weights):
        raise RelayTrainError(
            f"{place / 'model.safetensors'}: the rebuilt network differs from the run's; do not use it"
        )
    archive = place / "model.pt2"
    if archive.is_file():
        program = formats.read_program(archive.read_bytes())
        if not formats.same_outputs(built.for_raw, program, built.raw_shape):
            raise RelayTrainError(f"{archive}: its outputs are not the run's; do not use it")


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()

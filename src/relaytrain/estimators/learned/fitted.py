"""Fitted estimators as one file: arrays in an npz, everything else as JSON inside it; read with numpy alone.

Nothing in such a file is code. What does not form trees, networks and scales is refused with the remedy.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ScenarioError
from ...core.problem import Target as RunTarget
from ...store.files import write_atomic
from .auto import RunModel
from .bundle import Metric
from .change_model import ChangeModel, Linear
from .change_net import ChangeNet
from .lstm import WEIGHTS, Recurrent, Scales
from .trees import Forest

SCHEMA = "relaytrain.fitted/3"
MOST_BYTES = 64 << 20
Name = Literal["auto", "paper", "zero-trace"]
Arrays = dict[str, NDArray[Any]]
_RUN_FIELDS = (
    "tree_share",
    "calibrated",
    "tail_power",
    "rounds",
    "cumulative",
    "with_start",
    "bound_offset",
    "unknown",
)


@dataclass(frozen=True)
class Fitted:
    """What `relaytrain fit` makes. `about`: traces, counts, seeds, seconds; shown, never read.

    `change` predicts handovers that nobody has made. Of one that was made, the forward loss after it is known: where
    the jump was learned, it stands before the new leg's losses and lambda_run goes on from it (`RunModel.with_start`).
    """

    name: Name
    metric: Metric
    run: RunModel
    change: ChangeModel | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def check_target(self, target: RunTarget) -> None:
        """Refuse a run whose target is on another loss than the fit's."""
        on = "train" if target.on == "train" else "test"
        if target.metric != "loss":
            raise ScenarioError(
                f"target.metric: got {target.metric}, expected loss: learned estimators predict losses; use "
                "--estimator prior"
            )
        if on != self.metric and self.name != "zero-trace":
            raise ScenarioError(
                f"target.on: got {target.on}, expected {'train' if self.metric == 'train' else 'validation or test'}: "
                "the "
                f"estimator was fitted to {self.metric} losses; fit again with `relaytrain fit --metric {on}`"
            )

    def save(self, path: str | Path) -> Path:
        """Write the file; the same fit gives the same bytes."""
        arrays, body = _packed(self)
        body["schema"] = SCHEMA
        text = json.dumps(body, sort_keys=True, allow_nan=False)
        arrays["json"] = np.frombuffer(text.encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_atomic(path, buffer.getvalue())
        return Path(path)


def load_fitted(path: str | Path) -> Fitted:
    """The estimator in a file that `relaytrain fit` wrote.

    Raises:
        ScenarioError: no such file, or not one of ours.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ScenarioError(
                f"{path}: got more than {MOST_BYTES >> 20} MiB, expected a file that `relaytrain fit` wrote"
            )
        raw = path.read_bytes()
    except OSError as error:
        raise ScenarioError(
            f"{path}: got '{error.strerror}', expected a fitted estimator; make one: relaytrain fit TRACES {path.name}"
        ) from None
    return read_fitted(raw, str(path))


def read_fitted(raw: bytes, where: str) -> Fitted:
    """The estimator in the bytes of a file."""
    wanted = "expected a file that `relaytrain fit` wrote; fit again"
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            if sum(info.file_size for info in archive.infolist()) > MOST_BYTES:
                raise ScenarioError(f"{where}: unpacks to more than {MOST_BYTES >> 20} MiB, {wanted}")
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        body = json.loads(bytes(arrays.pop("json")).decode())
        if body.get("schema") != SCHEMA:
            raise ScenarioError(f"{where}: schema {body.get('schema')!r}, expected {SCHEMA}; fit again")
        return _unpacked(body, arrays, hashlib.sha256(raw).hexdigest())
    except (
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        TypeError,
        IndexError,
        AttributeError,
        EOFError,
        OSError,
    ) as error:
        raise ScenarioError(f"{where}: got something unreadable ({type(error).__name__}), {wanted}") from None


def _packed(fit: Fitted) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {"warm": fit.run.warm, "factors": fit.run.factors}
    nets = []
    for i, forest in enumerate(fit.run.forests):
        arrays |= {f"forest{i}.{name}": value for name, value in forest.arrays().items()}
    for i, net in enumerate(fit.run.nets):
        arrays |= {f"net{i}.{name}": net.weights[name] for name in WEIGHTS}
        nets.append({"scales": asdict(net.scales), "cumulative": net.cumulative})
    body: dict[str, Any] = {
        "name": fit.name,
        "metric": fit.metric,
        "about": dict(fit.about),
        "run": {name: getattr(fit.run, name) for name in _RUN_FIELDS} | {"forests": len(fit.run.forests), "nets": nets},
    }
    if (model := fit.change) is not None:
        body["change"] = {
            "inputs": model.inputs, "target": model.target, "weights": list(model.weights), "factor": model.factor,
            "parts": [_pack_part(part, f"change{i}", arrays) for i, part in enumerate(model.parts)],
        }  # fmt: skip
    return arrays, body


def _pack_part(part: ChangeNet | Linear, prefix: str, arrays: Arrays) -> dict[str, Any]:
    arrays |= {f"{prefix}.input_mean": part.input_mean, f"{prefix}.input_sd": part.input_sd}
    if isinstance(part, Linear):
        arrays[f"{prefix}.weights"] = part.weights
        return {"kind": "linear", "intercept": part.intercept, "low": part.low, "high": part.high}
    for i, (weight, bias) in enumerate(zip(part.weights, part.biases, strict=True)):
        arrays |= {f"{prefix}.weight{i}": weight, f"{prefix}.bias{i}": bias}
    return {"kind": "net", "layers": len(part.weights), "mean": part.target_mean, "sd": part.target_sd}


def _unpacked(body: Mapping[str, Any], arrays: Arrays, digest: str) -> Fitted:
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub" or (array.dtype.kind == "f" and not _numbers(name, array)):
            raise ValueError(name)
    run = body["run"]
    forests = tuple(Forest.of_arrays(_under(arrays, f"forest{i}.")) for i in range(int(run["forests"])))
    nets = tuple(_net(_under(arrays, f"net{i}."), entry) for i, entry in enumerate(run["nets"]))
    if not forests and not nets:
        raise ValueError("nothing that predicts")
    factors = arrays["factors"].astype(np.float64).reshape(-1, 2)
    if not len(factors):
        raise ValueError("no widths")
    rest = {name: run.get(name) if name == "bound_offset" else run[name] for name in _RUN_FIELDS}
    rest["unknown"] = tuple(int(stage) for stage in run["unknown"])
    model = RunModel(forests, nets, **rest, factors=factors, warm=arrays["warm"].astype(np.float64))
    change = _change(body["change"], arrays) if "change" in body else None
    if body["metric"] not in ("train", "test") or body["name"] not in ("auto", "paper", "zero-trace"):
        raise ValueError("metric or name")
    return Fitted(body["name"], body["metric"], model, change, body["about"], digest)


def _numbers(name: str, array: NDArray[Any]) -> bool:
    return name.endswith(".threshold") or bool(np.isfinite(array).all())


def _under(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _net(arrays: Arrays, entry: Mapping[str, Any]) -> Recurrent:
    known = {f.name for f in fields(Scales)}
    scales: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in entry["scales"].items() if k in known
    }
    return Recurrent(
        {name: arrays[name].astype(np.float64) for name in WEIGHTS}, Scales(**scales), bool(entry["cumulative"])
    )


def _change(entry: Mapping[str, Any], arrays: Arrays) -> ChangeModel:
    parts: list[ChangeNet | Linear] = []
    for i, one in enumerate(entry["parts"]):
        own = _under(arrays, f"change{i}.")
        if one["kind"] == "linear":
            parts.append(
                Linear(own["weights"], one["intercept"], own["input_mean"], own["input_sd"], one["low"], one["high"])
            )
            continue
        layers = range(int(one["layers"]))
        weights, biases = (tuple(own[f"{name}{j}"] for j in layers) for name in ("weight", "bias"))
        parts.append(ChangeNet(weights, biases, own["input_mean"], own["input_sd"], one["mean"], one["sd"]))
    if entry["inputs"] not in ("paper", "nodes", "probe") or entry["target"] not in ("jump", "first-epoch"):
        raise ValueError("inputs or target")
    return ChangeModel(entry["inputs"], entry["target"], tuple(parts), tuple(entry["weights"]), float(entry["factor"]))

"""Fitted estimators as one file: arrays in an npz, everything else as JSON inside it; read with numpy alone.

Nothing in such a file is code, and nothing in it is believed (`fitted_parts`): what does not form trees, networks and
scales is refused with its key and the remedy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ...core import npz
from ...core.errors import ScenarioError
from ...core.npz import Arrays, Wrong
from ...core.problem import Target as RunTarget
from ...scenario.fields import shown
from ...scenario.read import read_whole
from ...store.files import write_atomic
from . import fitted_parts as parts
from .auto import RunModel
from .bundle import Metric
from .change_model import ChangeModel, Linear
from .change_model import Target as ChangeTarget
from .change_net import ChangeNet
from .features import AHEAD
from .lstm import WEIGHTS, Recurrent, Scales
from .misses import COMMON, Misses
from .trees import Forest

SCHEMA = "relaytrain.fitted/3"
LEVELS = 3
"""Forests: middle, low and high."""
MOST_LAYERS = 8
MOST_POWER = 3.0
Name = Literal["auto", "paper", "zero-trace"]
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
    misses: Misses = field(default_factory=Misses)
    """How it misses the traces it was fitted to; files of before that was asked say nothing of it."""

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
        write_atomic(path, npz.write_arrays({**body, "schema": SCHEMA}, arrays))
        return Path(path)


def load_fitted(path: str | Path) -> Fitted:
    """The estimator in a file that `relaytrain fit` wrote.

    Raises:
        ScenarioError: no such file, or not one of ours.
    """
    remedy = f"make one: relaytrain fit TRACES {Path(path).name}"
    raw = read_whole(path, npz.MOST_BYTES, f"a fitted estimator; {remedy}")
    try:
        body, arrays = npz.read(raw)
        if body.get("schema") != SCHEMA:
            raise ScenarioError(f"{path}: schema {shown(body.get('schema'))}, expected {SCHEMA}; fit again")
        return _unpacked(body, arrays, hashlib.sha256(raw).hexdigest())
    except Wrong as error:
        raise ScenarioError(f"{path}: {error}; `relaytrain fit` writes no such file: fit again") from None


def _packed(fit: Fitted) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {"warm": fit.run.warm, "factors": fit.run.factors}
    arrays |= {f"misses.{name}": kept for name in parts.MISSES if (kept := getattr(fit.misses, name)).size}
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
        "misses": {"common": fit.misses.common},
    }
    if (model := fit.change) is not None:
        body["change"] = {
            "inputs": model.inputs,
            "target": model.target,
            "weights": list(model.weights),
            "factor": model.factor,
            "parts": [_pack_part(part, f"change{i}", arrays) for i, part in enumerate(model.parts)],
        }
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
    name = parts.word(body.get("name"), "name", get_args(Name))
    metric = parts.word(body.get("metric"), "metric", get_args(Metric))
    run = _run(parts.table(body.get("run"), "run"), arrays)
    change = _change(parts.table(body["change"], "change"), arrays) if "change" in body else None
    known = parts.table(body.get("misses", {}), "misses")
    common = parts.number(known.get("common", COMMON), "misses.common", 0.0, 1.0)
    misses = Misses(*parts.misses(arrays, "misses."), common)
    return Fitted(name, metric, run, change, parts.table(body.get("about"), "about"), digest, misses)


def _run(entry: Mapping[str, Any], arrays: Arrays) -> RunModel:
    given = {name: parts.entry(entry, name, "run") for name in (*_RUN_FIELDS, "forests", "nets")}
    forests = parts.count(given["forests"], "run.forests", 0, LEVELS)
    nets = parts.some(given["nets"], "run.nets", parts.MOST_PARTS)
    if forests not in (0, LEVELS) or not (forests or nets):
        raise Wrong("run.forests", f"{forests} and {len(nets)} networks", f"{LEVELS} or none, and something to predict")
    factors, warm = parts.widths(arrays)
    offset = given["bound_offset"]
    return RunModel(
        tuple(Forest.of_arrays(parts.forest_arrays(arrays, f"forest{i}.")) for i in range(forests)),
        tuple(_net(arrays, i, parts.table(net, f"run.nets[{i}]")) for i, net in enumerate(nets)),
        tree_share=parts.number(given["tree_share"], "run.tree_share", 0.0, 1.0),
        factors=factors,
        calibrated=parts.truth(given["calibrated"], "run.calibrated"),
        warm=warm,
        tail_power=parts.number(given["tail_power"], "run.tail_power", 0.0, MOST_POWER),
        rounds=parts.rounds(given["rounds"]),
        cumulative=parts.truth(given["cumulative"], "run.cumulative"),
        with_start=parts.truth(given["with_start"], "run.with_start"),
        bound_offset=None if offset is None else parts.number(offset, "run.bound_offset"),
        unknown=parts.stages(given["unknown"], "run.unknown"),
    )


def _net(arrays: Arrays, number: int, entry: Mapping[str, Any]) -> Recurrent:
    where = f"run.nets[{number}]"
    given = parts.table(entry.get("scales"), f"{where}.scales")
    relative = parts.truth(given.get("relative", False), f"{where}.scales.relative")
    scales = Scales(
        parts.number(given.get("loss_mean"), f"{where}.scales.loss_mean"),
        parts.number(given.get("loss_sd"), f"{where}.scales.loss_sd", 1e-9),
        parts.numbers(given.get("fixed_mean"), f"{where}.scales.fixed_mean", parts.FIXED_INPUTS),
        parts.numbers(given.get("fixed_sd"), f"{where}.scales.fixed_sd", parts.FIXED_INPUTS, 1e-9),
        parts.numbers(given.get("target_sd"), f"{where}.scales.target_sd", AHEAD),
        relative,
    )
    cumulative = parts.truth(entry.get("cumulative"), f"{where}.cumulative")
    return Recurrent(parts.recurrent_weights(arrays, f"net{number}.", 2 if relative else 1), scales, cumulative)


def _change(entry: Mapping[str, Any], arrays: Arrays) -> ChangeModel:
    inputs = parts.word(entry.get("inputs"), "change.inputs", parts.CHANGE_INPUTS)
    target = parts.word(entry.get("target"), "change.target", get_args(ChangeTarget))
    given = parts.some(entry.get("parts"), "change.parts", parts.MOST_PARTS, 1)
    shares = parts.some(entry.get("weights"), "change.weights", len(given))
    return ChangeModel(
        inputs,
        target,
        tuple(_change_part(arrays, i, parts.table(one, f"change.parts[{i}]"), inputs) for i, one in enumerate(given)),
        parts.numbers(shares, "change.weights", len(given), 0.0) if shares else (),
        parts.number(entry.get("factor"), "change.factor"),
    )


def _change_part(arrays: Arrays, number: int, entry: Mapping[str, Any], inputs: str) -> ChangeNet | Linear:
    where, prefix, wide = f"change.parts[{number}]", f"change{number}.", parts.CHANGE_INPUTS[inputs]
    mean = parts.figures(arrays, f"{prefix}input_mean", (wide,))
    sd = parts.scale(arrays, f"{prefix}input_sd", wide)

    def figure(key: str) -> float:
        return parts.number(entry.get(key), f"{where}.{key}")

    if parts.word(entry.get("kind"), f"{where}.kind", ("linear", "net")) == "linear":
        weights = parts.figures(arrays, f"{prefix}weights", (wide,))
        return Linear(weights, figure("intercept"), mean, sd, figure("low"), figure("high"))
    layers = parts.count(entry.get("layers"), f"{where}.layers", 1, MOST_LAYERS)
    return ChangeNet(*parts.layered_weights(arrays, prefix, layers, wide), mean, sd, figure("mean"), figure("sd"))

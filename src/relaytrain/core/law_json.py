"""Loss laws and cost tables as JSON, and back, figure for figure: what every `planned` event holds.

Infinity is null, as everywhere in our JSON. An array whose figures are all the same is written once with its shape:
tables of jumps over pairs are often such. Floats travel as Python writes them, so the way back is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from .cost import CostTable, FirstUses, Provenance
from .curve import Array
from .errors import ScenarioError
from .law import EpochLaw, LevelLaw, LossLaw, TableLaw, tabulate

LAW_SCHEMA = "relaytrain.law/1"
COSTS_SCHEMA = "relaytrain.costs/1"
FROZEN_LEVELS = ("expected", 0.95)
"""A foreign law is frozen as tables at these two levels."""

Json = dict[str, Any]
MOST_CELLS = 20_000_000

_LEVEL_ARRAYS = ("curves", "jump0", "jump1", "mult")
_LEVEL_TWINS = ("mult_robust", "jump0_robust", "jump1_robust", "curves_robust")
_LEVEL_SCATTER = ("scatter", "standing")
"""Written only where there is any."""


def array_to_json(values: Array | None) -> Any:
    """Nested lists, or `{"shape", "all"}` when one figure fills the array; None for no array."""
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if np.isnan(array).any() or (array == -np.inf).any():
        raise ScenarioError("law: holds NaN or minus infinity; only numbers and infinity can be kept")
    signs = np.signbit(array)
    if array.size and (array == array.flat[0]).all() and (signs == signs.flat[0]).all():
        return {"shape": list(array.shape), "all": _number(float(array.flat[0]))}
    if array.size == 0:
        return {"shape": list(array.shape), "all": 0.0}
    return _nested(array.tolist())


def array_from_json(value: Any) -> Array | None:
    """The array that was written; ScenarioError when it is none of ours."""
    if value is None:
        return None
    try:
        if isinstance(value, Mapping):
            shape = tuple(int(size) for size in value["shape"])
            if math.prod(shape) > MOST_CELLS or any(size < 0 for size in shape):
                raise ValueError(f"shape {shape}")
            return np.full(shape, math.inf if value["all"] is None else float(value["all"]))
        return np.array(_filled(value), dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise ScenarioError(
            f"law: got an array that cannot be read ({error}), expected nested lists of numbers"
        ) from None


def law_to_json(law: LossLaw, *, pairs: int | None = None, top: float = 1.0) -> Json:
    """`law` as JSON. A law of an unknown kind is tabulated at its two levels over `pairs`, for losses up to `top`."""
    head: Json = {"schema": LAW_SCHEMA}
    if isinstance(law, EpochLaw):
        names = ("run", "change", "run_robust", "change_robust")
        return {**head, "kind": "epoch", **{name: array_to_json(getattr(law, name)) for name in names}}
    if isinstance(law, LevelLaw):
        arrays = {name: array_to_json(getattr(law, name)) for name in (*_LEVEL_ARRAYS, *_LEVEL_TWINS)}
        kept = {name: array_to_json(value) for name in _LEVEL_SCATTER if (value := getattr(law, name)) is not None}
        return {**head, "kind": "level", **arrays, "loss_top": _number(law.loss_top), **kept}
    if isinstance(law, TableLaw):
        return {**head, "kind": "table", "table": array_to_json(law.table), "step": law.step, "integer": law.integer}
    if pairs is None:
        raise ScenarioError(f"law: a {type(law).__name__} can be kept only with the number of its pairs")
    levels = {}
    for level in FROZEN_LEVELS:
        frozen = tabulate(law, cast(Any, level), pairs=pairs, top=top, cells=256)
        levels[str(level)] = law_to_json(frozen)
    return {**head, "kind": "levels", "levels": levels}


def law_from_json(value: Mapping[str, Any], *, level: str = "expected") -> EpochLaw | LevelLaw | TableLaw:
    """The law that was written; of a foreign one the table at `level`."""
    if value.get("schema") != LAW_SCHEMA:
        raise ScenarioError(f"law: schema {value.get('schema')!r}, expected {LAW_SCHEMA}")
    kind = value.get("kind")
    if kind == "epoch":
        return EpochLaw(
            _array(value, "run"),
            _array(value, "change"),
            array_from_json(value.get("run_robust")),
            array_from_json(value.get("change_robust")),
        )
    if kind == "level":
        top = value.get("loss_top")
        curves0, first, second, progress = (_array(value, name) for name in _LEVEL_ARRAYS)
        plain = LevelLaw(curves0, first, second, progress, loss_top=math.inf if top is None else float(top))
        mult, jump0, jump1, curves = (array_from_json(value.get(name)) for name in _LEVEL_TWINS)
        scatter, standing = (array_from_json(value.get(name)) for name in _LEVEL_SCATTER)
        twins = replace(plain, mult_robust=mult, jump0_robust=jump0, jump1_robust=jump1, curves_robust=curves)
        return replace(twins, scatter=scatter, standing=standing)
    if kind == "table":
        return TableLaw(_array(value, "table"), float(value["step"]), bool(value["integer"]))
    if kind == "levels" and level in value["levels"]:
        return law_from_json(value["levels"][level])
    raise ScenarioError(f"law: kind {kind!r} at level {level}, expected epoch, level or table")


def costs_to_json(costs: CostTable) -> Json:
    """A cost table as JSON; the keys of `reasons` are written as "now" and "before,now"."""
    names = ("run_s", "change_s", "run_j", "change_j", "spread")
    return {
        "schema": COSTS_SCHEMA,
        **{name: array_to_json(getattr(costs, name)) for name in names},
        "reasons": {",".join(map(str, key)): text for key, text in costs.reasons.items()},
        "provenance": costs.provenance,
        **({} if costs.first is None else {"first": _first_to_json(costs.first)}),
    }


def costs_from_json(value: Mapping[str, Any]) -> CostTable:
    """The cost table that was written."""
    if value.get("schema") != COSTS_SCHEMA:
        raise ScenarioError(f"costs: schema {value.get('schema')!r}, expected {COSTS_SCHEMA}")
    reasons = {tuple(int(part) for part in key.split(",")): str(text) for key, text in value["reasons"].items()}
    return CostTable(
        _array(value, "run_s"),
        _array(value, "change_s"),
        _array(value, "run_j"),
        _array(value, "change_j"),
        array_from_json(value.get("spread")),
        reasons,
        cast(Provenance, value["provenance"]),
        _first_from_json(value["first"]) if value.get("first") is not None else None,
    )


def _first_to_json(first: FirstUses) -> Json:
    figures = {name: array_to_json(getattr(first, name)) for name in ("seconds", "joules")}
    return {**figures, "group": first.group.tolist()}


def _first_from_json(value: Mapping[str, Any]) -> FirstUses:
    return FirstUses(_array(value, "seconds"), _array(value, "joules"), np.array(value["group"], np.int64))


def _array(value: Mapping[str, Any], name: str) -> Array:
    array = array_from_json(value.get(name))
    if array is None:
        raise ScenarioError(f"law: no '{name}', expected an array")
    return array


def _number(value: float) -> float | None:
    return None if value == math.inf else value


def _nested(value: Any) -> Any:
    return [_nested(item) for item in value] if isinstance(value, list) else _number(value)


def _filled(value: Any) -> Any:
    if isinstance(value, list):
        return [_filled(item) for item in value]
    return math.inf if value is None else float(value)

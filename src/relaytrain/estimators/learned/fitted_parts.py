"""The parts of a fitted file, looked at before anything computes with them: arrays out of an npz, figures out of JSON.

Compiled code follows the indices of trees without looking, and networks multiply whatever shapes meet. So a file of any
origin is believed in nothing: what an array claims to be is compared with the bytes that are there before memory is
taken (`core.npz`), and every index, shape, count and figure has its bounds. `Wrong` names the key, what was got and
what is expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.npz import Arrays, Wrong
from .calibration import BUFFER
from .change_model import KINDS, LAST
from .features import AHEAD, NAMES
from .lstm import WEIGHTS
from .misses import ENTERED
from .tail import HORIZONS, MOST_ROUNDS

MOST_PARTS = 64
"""Networks, or models of handovers; a fit has five at most."""
MOST_STAGES = 1000
MOST_WIDTH = 512
"""Neurons of a layer; a fit has 32."""
MOST_NODES, MOST_TREES, MOST_DEPTH = 1 << 16, 2000, 32
"""Of a forest; a fit has 3,600 nodes in 240 trees of depth 7."""
LARGEST = 1e9
"""No weight, mean or leaf of a fit is near it, and no product of a few of them overflows."""
MOST_DEVIATION = 10.0
"""Of a logarithm."""
MISSES = ("scatter", "entered", "stayed", "bias", "inputs")
LEG_INPUTS = 4
FIXED_INPUTS = 3
CHANGE_INPUTS = {"paper": 1 + LAST, "nodes": 9 + LAST + len(KINDS), "probe": 12 + LAST + len(KINDS)}

# --- figures


def table(value: Any, key: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise Wrong(key, _said(value), "a table")
    return value


def entry(values: Mapping[str, Any], key: str, where: str) -> Any:
    """What a table must have."""
    if key not in values:
        raise Wrong(f"{where}.{key}", "nothing", "it to be there")
    return values[key]


def number(value: Any, key: str, low: float = -LARGEST, high: float = LARGEST) -> float:
    """A finite number between two."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Wrong(key, _said(value), f"a number from {low:g} to {high:g}")
    return float(value)


def count(value: Any, key: str, low: int, high: int) -> int:
    """A whole number between two."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Wrong(key, _said(value), f"a whole number from {low} to {high}")
    return value


def truth(value: Any, key: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Wrong(key, _said(value), "true or false")
    return value


def word(value: Any, key: str, known: Iterable[str]) -> Any:
    """One of some words."""
    if not isinstance(value, str) or value not in known:
        raise Wrong(key, _said(value), f"one of {', '.join(known)}")
    return value


def some(value: Any, key: str, most: int, least: int = 0) -> list[Any]:
    """A list of so many."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise Wrong(key, _said(value), f"a list of {least} to {most}" if least < most else f"a list of {most}")
    return value


def numbers(value: Any, key: str, length: int, low: float = -LARGEST) -> tuple[float, ...]:
    """A list of so many finite numbers."""
    return tuple(number(one, f"{key}[{i}]", low) for i, one in enumerate(some(value, key, length, length)))


def _said(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else repr(value)[:60]


# --- arrays


def figures(arrays: Mapping[str, NDArray[Any]], key: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An array of finite numbers of this shape; -1: any length from 1 on."""
    array = _held(arrays, key, shape).astype(np.float64)
    if not (np.abs(array) <= LARGEST).all():
        raise Wrong(key, "a number that is none, or vast", f"numbers within {LARGEST:g}")
    return array


def _held(arrays: Mapping[str, NDArray[Any]], key: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if key not in arrays:
        raise Wrong(key, "no such array", "it to be there")
    array = arrays[key]
    fits = array.ndim == len(shape) and all(
        have == want or (want < 0 and have > 0) for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = "x".join("n" if want < 0 else str(want) for want in shape) or "one number"
        raise Wrong(key, f"shape {'x'.join(map(str, array.shape)) or '()'}", wanted)
    return array


def _indices(arrays: Mapping[str, NDArray[Any]], key: str, length: int, low: int, high: int) -> NDArray[np.int32]:
    array = _held(arrays, key, (length,))
    if array.dtype.kind not in "iu" or not ((array >= low) & (array <= high)).all():
        raise Wrong(key, "an index out of bounds", f"whole numbers from {low} to {high}")
    return array.astype(np.int32)


def forest_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    """The arrays of a forest in which every walk ends, inside the arrays and the columns of a row."""
    nodes = len(_held(arrays, f"{prefix}feature", (-1,)))
    trees = len(_held(arrays, f"{prefix}roots", (-1,)))
    if nodes > MOST_NODES or trees > MOST_TREES:
        raise Wrong(f"{prefix}feature", f"{trees} trees of {nodes} nodes", f"at most {MOST_TREES} and {MOST_NODES}")
    feature = _indices(arrays, f"{prefix}feature", nodes, -1, len(NAMES) - 1)
    roots = _indices(arrays, f"{prefix}roots", trees, 0, nodes - 1)
    left, right = (_indices(arrays, f"{prefix}{side}", nodes, 0, nodes - 1) for side in ("left", "right"))
    threshold = _held(arrays, f"{prefix}threshold", (nodes,)).astype(np.float64)
    if np.isnan(threshold).any():
        raise Wrong(f"{prefix}threshold", "a number that is none", "numbers")
    _check_trees(prefix, feature, left, right, roots)
    return {
        "feature": feature,
        "threshold": threshold,
        "left": left,
        "right": right,
        "roots": roots,
        "missing_left": _held(arrays, f"{prefix}missing_left", (nodes,)).astype(np.bool_),
        "value": figures(arrays, f"{prefix}value", (nodes,)),
        "baseline": figures(arrays, f"{prefix}baseline", ()),
    }


def _check_trees(
    prefix: str,
    feature: NDArray[np.int32],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    roots: NDArray[np.int32],
) -> None:
    """Every node but the roots has one parent, before it in the same tree, and no tree is deep."""
    nodes, inner = np.arange(len(feature)), feature >= 0
    if roots[0] != 0 or (np.diff(roots) <= 0).any():
        raise Wrong(f"{prefix}roots", "roots out of order", "the first node of each tree, ascending from 0")
    ends = np.append(roots[1:], len(nodes))
    last = ends[np.searchsorted(roots, nodes, side="right") - 1]
    for side, child in (("left", left), ("right", right)):
        if not ((child > nodes) & (child < last))[inner].all():
            raise Wrong(f"{prefix}{side}", "a child outside its tree or before its parent", "children behind parents")
    children = np.concatenate([left[inner], right[inner]])
    if len(np.unique(children)) < len(children):
        raise Wrong(f"{prefix}left", "a node of two parents", "trees")
    at = roots
    for _ in range(MOST_DEPTH):
        at = at[feature[at] >= 0]
        if not len(at):
            return
        at = np.concatenate([left[at], right[at]])
    if (feature[at] >= 0).any():
        raise Wrong(f"{prefix}feature", "a tree too deep", f"at most {MOST_DEPTH} steps from root to leaf")


def recurrent_weights(arrays: Mapping[str, NDArray[Any]], prefix: str, inputs: int) -> dict[str, NDArray[np.float64]]:
    """The weights of a network whose layers fit together."""
    hidden = _width(arrays, f"{prefix}lstm.weight_hh_l0", 1)
    fixed, head = (_width(arrays, f"{prefix}{layer}.weight", 0) for layer in ("fixed", "head"))
    outputs, gates = 3 * AHEAD, 4 * hidden
    shapes = {
        "fixed.weight": (fixed, FIXED_INPUTS), "fixed.bias": (fixed,),
        "lstm.weight_ih_l0": (gates, inputs), "lstm.weight_hh_l0": (gates, hidden),
        "lstm.bias_ih_l0": (gates,), "lstm.bias_hh_l0": (gates,),
        "head.weight": (head, fixed + hidden), "head.bias": (head,),
        "out.weight": (outputs, head), "out.bias": (outputs,),
    }  # fmt: skip
    return {name: figures(arrays, prefix + name, shapes[name]) for name in WEIGHTS}


def layered_weights(
    arrays: Mapping[str, NDArray[Any]], prefix: str, layers: int, inputs: int
) -> tuple[tuple[NDArray[np.float64], ...], tuple[NDArray[np.float64], ...]]:
    """Weights and biases of layers that fit together, from `inputs` figures to three."""
    weights, biases, width = [], [], inputs
    for i in range(layers):
        key = f"{prefix}weight{i}"
        wide = 3 if i == layers - 1 else _width(arrays, key, 0)
        weights.append(figures(arrays, key, (wide, width)))
        biases.append(figures(arrays, f"{prefix}bias{i}", (wide,)))
        width = wide
    return tuple(weights), tuple(biases)


def scale(arrays: Mapping[str, NDArray[Any]], key: str, length: int) -> NDArray[np.float64]:
    """Figures to divide by."""
    array = figures(arrays, key, (length,))
    if not (array >= 1e-9).all():
        raise Wrong(key, "a scale that is not above zero", "numbers from 1e-9 on")
    return array


def _width(arrays: Mapping[str, NDArray[Any]], key: str, axis: int) -> int:
    width = int(_held(arrays, key, (-1, -1)).shape[axis])
    if width > MOST_WIDTH:
        raise Wrong(key, f"a layer of {width}", f"at most {MOST_WIDTH}")
    return width


def stages(values: Any, key: str) -> tuple[int, ...]:
    """Numbers of stages."""
    return tuple(count(one, f"{key}[{i}]", 0, MOST_STAGES) for i, one in enumerate(some(values, key, MOST_STAGES)))


def widths(arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The conformal step by stage (S, 2), and the scores that inference starts from."""
    factors = figures(arrays, "factors", (-1, 2))
    if len(factors) > MOST_STAGES:
        raise Wrong("factors", f"{len(factors)} stages", f"at most {MOST_STAGES}")
    warm = arrays.get("warm", np.zeros(0))
    if warm.size == 0 and warm.ndim == 1 and "warm" in arrays:
        return factors, np.zeros(0)
    scores = figures(arrays, "warm", (-1,))
    if len(scores) > BUFFER:
        raise Wrong("warm", f"{len(scores)} scores", f"at most {BUFFER}")
    return factors, scores


Figures = NDArray[np.float64]


def misses(arrays: Mapping[str, NDArray[Any]], prefix: str) -> tuple[Figures, Figures, Figures, Figures, Figures]:
    """How a fit misses its traces: deviations by stage, then a bias and the inputs that it hangs on; none of those
    that the file does not have, and a bias only with its inputs."""
    wide = {"scatter": -1, "entered": len(ENTERED), "stayed": len(HORIZONS)}
    scatter, entered, stayed = (_deviations(arrays, prefix + name, columns) for name, columns in wide.items())
    if f"{prefix}bias" not in arrays:
        return scatter, entered, stayed, np.zeros((0, 0)), np.zeros((0, 0))
    inputs = figures(arrays, f"{prefix}inputs", (4, LEG_INPUTS))
    if not (inputs[1] >= 1e-9).all():
        raise Wrong(f"{prefix}inputs", "a scale that is not above zero", "numbers from 1e-9 on")
    bias = figures(arrays, f"{prefix}bias", (len(ENTERED), 1 + LEG_INPUTS))
    if not (np.abs(bias) <= MOST_DEVIATION).all():
        raise Wrong(f"{prefix}bias", "a figure out of bounds", f"figures within {MOST_DEVIATION:g}")
    return scatter, entered, stayed, bias, inputs


def _deviations(arrays: Mapping[str, NDArray[Any]], key: str, columns: int) -> NDArray[np.float64]:
    """Standard deviations of logarithms, a row a stage."""
    if key not in arrays:
        return np.zeros((0, 0))
    deviations = figures(arrays, key, (-1, columns))
    if max(deviations.shape) > MOST_STAGES or not ((deviations >= 0.0) & (deviations <= MOST_DEVIATION)).all():
        raise Wrong(key, "too many rows, or a figure out of bounds", f"deviations from 0 to {MOST_DEVIATION:g}")
    return deviations


def rounds(value: Any) -> int:
    """How often a model is applied to its own forecast."""
    return count(value, "run.rounds", 0, MOST_ROUNDS)

"""Gradient-boosted quantile trees: trained by scikit-learn, kept as flat arrays, predicted without it.

All trees of a forest lie one after another in the arrays; an inner node sends a row left when its figure is at most the
threshold (or is missing and the node says so), a leaf adds its value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.curve import Array

ARRAYS = ("feature", "threshold", "missing_left", "left", "right", "value", "roots")


@dataclass(frozen=True)
class Forest:
    """Trees as arrays over nodes: `feature` -1 marks a leaf; `roots` is the first node of each tree."""

    feature: NDArray[np.int32]
    threshold: Array
    missing_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array
    roots: NDArray[np.int32]
    baseline: float

    def walked(self, table: Array) -> Array:
        """The forest's value (N,) of `doubled` rows (N, 2 F)."""
        values = np.full(len(table), self.baseline)
        column = np.where((self.feature >= 0) & ~self.missing_left, self.feature + table.shape[1] // 2, self.feature)
        _walk()(table, column.astype(np.int32), self.threshold, self.left, self.right, self.value, self.roots, values)
        return values

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is kept of it, by name."""
        return {name: getattr(self, name) for name in ARRAYS} | {"baseline": np.array(self.baseline)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Forest:
        """The forest of arrays that `arrays` gave; those of a file are looked at first, by `fitted_parts`."""
        return cls(
            arrays["feature"].astype(np.int32),
            arrays["threshold"].astype(np.float64),
            arrays["missing_left"].astype(np.bool_),
            arrays["left"].astype(np.int32),
            arrays["right"].astype(np.int32),
            arrays["value"].astype(np.float64),
            arrays["roots"].astype(np.int32),
            float(arrays["baseline"]),
        )


def doubled(rows: Array) -> Array:
    """Every figure twice, so that one comparison tells the way in a tree: what is missing is below all, or above."""
    return np.concatenate([np.where(np.isnan(rows), -np.inf, rows), rows], axis=1)


def fit_forest(rows: Array, target: Array, quantile: float | None, *, seed: int = 0, **options: Any) -> Forest:
    """A forest for a quantile of `target`, or for its mean (absolute error) when `quantile` is None.

    `options` go to scikit-learn's `HistGradientBoostingRegressor`.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    loss = {"loss": "absolute_error"} if quantile is None else {"loss": "quantile", "quantile": quantile}
    model = HistGradientBoostingRegressor(**loss, random_state=seed, early_stopping=False, **options)
    model.fit(rows, target)
    return exported(model)


def exported(model: Any) -> Forest:
    """A fitted `HistGradientBoostingRegressor` as a `Forest`."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in ARRAYS}
    start = 0
    for (tree,) in model._predictors:
        nodes = tree.nodes
        leaf = nodes["is_leaf"].astype(bool)
        if nodes["is_categorical"].any():
            raise ValueError("trees with categorical splits cannot be exported")
        parts["feature"].append(np.where(leaf, -1, nodes["feature_idx"]))
        parts["threshold"].append(np.where(leaf, 0.0, nodes["num_threshold"]))
        parts["missing_left"].append(nodes["missing_go_to_left"].astype(bool))
        parts["left"].append(np.where(leaf, 0, nodes["left"] + start))
        parts["right"].append(np.where(leaf, 0, nodes["right"] + start))
        parts["value"].append(np.where(leaf, nodes["value"], 0.0))
        parts["roots"].append(np.array([start]))
        start += len(nodes)
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Forest.of_arrays(joined | {"baseline": np.asarray(model._baseline_prediction).reshape(-1)[0]})


def joined(forests: Sequence[Forest]) -> Forest:
    """The mean of forests as one forest."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in ARRAYS}
    start = 0
    for forest in forests:
        inner = forest.feature >= 0
        for name, array in forest.arrays().items():
            if name in ("left", "right"):
                array = np.where(inner, array + start, 0)
            if name == "roots":
                array = array + start
            if name == "value":
                array = array / len(forests)
            if name != "baseline":
                parts[name].append(array)
        start += len(forest.feature)
    baseline = np.array(float(np.mean([forest.baseline for forest in forests])))
    return Forest.of_arrays({name: np.concatenate(arrays) for name, arrays in parts.items()} | {"baseline": baseline})


def _compiled(function: Callable[..., None]) -> Any:
    import numba

    try:
        return numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # nowhere to keep compiled code
        return numba.njit(error_model="numpy")(function)


_walker: list[Callable[..., None]] = []


def _walk() -> Callable[..., None]:
    """The compiled walk; numba is loaded when a forest is first asked."""
    if not _walker:
        _walker.append(_compiled(_walk_all))
    return _walker[0]


def _walk_all(
    rows: Array,
    feature: NDArray[np.int32],
    threshold: Array,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    value: Array,
    roots: NDArray[np.int32],
    total: Array,
) -> None:
    # blocks of rows, and all of a block through one tree after another: both stay in the cache
    for first in range(0, len(rows), 64):
        last = min(first + 64, len(rows))
        for root in roots:
            for i in range(first, last):
                node = root
                column = feature[node]
                while column >= 0:
                    node = left[node] if rows[i, column] <= threshold[node] else right[node]
                    column = feature[node]
                total[i] += value[node]

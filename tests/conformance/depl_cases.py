"""DepL problems with known answers, from JSON files of kind `full`, `quantile`, `allocation` and `datasets`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from relaytrain.core.depl import DeplData, DeplNodeSet, DeplProblem, DeplVersion
from relaytrain.core.distribution import InverseGamma, StudentT, Term
from relaytrain.core.errors import ScenarioError
from relaytrain.core.problem import Target

KINDS = ("full", "quantile", "allocation", "datasets")


def read_depl(path: Path) -> dict[str, Any]:
    """The file's object, its kind one of KINDS."""
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if raw.get("kind") not in KINDS:
        raise ScenarioError(f"{path}: kind: got {raw.get('kind')!r}, expected one of {', '.join(KINDS)}")
    return raw


def parts(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """The single cases of a file: those under `cases`, or the file itself."""
    cases: list[dict[str, Any]] = raw.get("cases", [raw])
    return cases


def instance_from(raw: dict[str, Any]) -> DeplProblem:
    """The planning problem under `instance` of a file of kind `full`; null is infinity or an impossible switch."""
    try:
        return _instance(raw["instance"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ScenarioError(f"instance: {type(error).__name__} {error}; expected the fields of a full case") from None


def _instance(at: dict[str, Any]) -> DeplProblem:
    gain = at.get("data_gain", {"g0": 1.0, "g1": 0.0})
    return DeplProblem(
        versions=tuple(
            DeplVersion(m["name"], m["s"], m["c"], m["A"], m["B"], InverseGamma(m["x_mean"], m["x_var"]))
            for m in at["models"]
        ),
        switches=tuple(tuple(_switch(cell) for cell in row) for row in at["switch"]),
        node_sets=node_sets_from(at["clusters"]),
        datasets=tuple(DeplData(d["name"], d["q"]) for d in at["datasets"]),
        charges=np.array([charges_from(row) for row in at["beta"]], np.float64),
        initial_loss=at["l0"],
        target=Target(at["lmax"], at["Tmax"], at["omega"]),
        max_epochs=at["Kmax"],
        gain_base=gain["g0"],
        gain_slope=gain["g1"],
    )


def _switch(cell: dict[str, float] | None) -> StudentT | None:
    return None if cell is None else StudentT(cell["loc"], cell["scale"], cell["nu"])


def node_sets_from(rows: list[dict[str, Any]]) -> tuple[DeplNodeSet, ...]:
    """Node sets from rows of r, b (null: no link to wait for) and kappa."""
    return tuple(
        DeplNodeSet(str(row.get("name", i)), row["r"], math.inf if row["b"] is None else row["b"], row["kappa"])
        for i, row in enumerate(rows)
    )


def charges_from(row: list[float | None]) -> list[float]:
    """Data charges of a row; null where the data cannot be brought."""
    return [math.inf if charge is None else charge for charge in row]


def terms_from(case: dict[str, Any]) -> list[Term]:
    """The variables of a quantile case: `run` rows are gain, mean, variance; `switch` rows location, scale, nu."""
    run: list[Term] = [(-gain, InverseGamma(mean, variance)) for gain, mean, variance in case["run"]]
    return run + [(1.0, StudentT(location, scale, nu)) for location, scale, nu in case["switch"]]

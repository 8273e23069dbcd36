"""Planning problems with known answers, from JSON files: reading them, and replaying a list of actions by hand.

A file without a `kind` is a PACT problem: pairs of version and node set, tables tau and epsilon (null is infinity), a
loss law for each of three estimates (`true`, `exp`, `rob`), a grid, and under `expect` the optimum un-quantised
(`optimum_true`) and on the paper's grid (`quantised_true`, `quantised_exp`, `quantised_rob`).

`replay` walks an action list with the formulas of the file alone. It shares no code with the planners or with
`core.law`, so that a mistake there cannot agree with itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from depl_cases import KINDS
from numpy.typing import NDArray

from relaytrain.core.cost import CostTable
from relaytrain.core.curve import Array
from relaytrain.core.errors import ScenarioError
from relaytrain.core.law import EpochLaw, LevelLaw, LossLaw
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.core.state import TOLERANCE, Grid

Estimate = Literal["true", "exp", "rob"]
ESTIMATES: tuple[Estimate, ...] = ("true", "exp", "rob")
PACT = "pact"
"""The kind of a file that names none."""
KNOWN = (PACT, *KINDS)
"""Kinds that have a runner; those of DepL are read by `depl_cases`."""


@dataclass(frozen=True)
class Answer:
    """What a file expects of one search; `without_deadline_j` is None where the file does not say."""

    feasible: bool
    energy_j: float
    actions: tuple[int, ...] | None
    without_deadline_j: float | None


@dataclass(frozen=True)
class Case:
    """One file: the problem, its costs, a law for each estimate, the grid, and the answers by their names."""

    name: str
    problem: Problem
    costs: CostTable
    laws: dict[Estimate, LossLaw]
    grid: Grid
    expected: dict[str, Answer]
    raw: dict[str, Any]


@dataclass(frozen=True)
class Replayed:
    """Where an action list ends: loss and time (in steps when quantised), joules; possible is False at an infinity."""

    loss: float
    time: float
    energy_j: float
    possible: bool


def kind_of(path: Path) -> str:
    """The kind a file declares; when it declares none, `pact` if it is a case at all (it has a law), else `no case`."""
    try:
        case = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ScenarioError(f"{path}: not JSON ({error}); a case is one JSON object") from None
    if not isinstance(case, dict):
        raise ScenarioError(f"{path}: got a {type(case).__name__}, expected one JSON object")
    return str(case.get("kind", PACT if "law" in case else "no case"))


def case_files(folder: Path) -> tuple[list[tuple[Path, str]], list[tuple[Path, str]]]:
    """All files below `folder` of a kind in KNOWN, and those of other kinds; each with its kind.

    Raises:
        ScenarioError: the folder holds no case of a known kind at all.
    """
    files = [(path, kind_of(path)) for path in sorted(folder.rglob("*.json"))]
    known = [(path, kind) for path, kind in files if kind in KNOWN]
    others = [(path, kind) for path, kind in files if kind not in KNOWN]
    if not known:
        seen = ", ".join(sorted({kind for _, kind in others})) or "no JSON file"
        raise ScenarioError(f"{folder}: got {seen}, expected at least one case of kind {', '.join(KNOWN)}")
    return known, others


def read_case(path: Path) -> Case:
    """The case in a file of kind `pact`."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    try:
        return _case(raw)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ScenarioError(f"{path}: {type(error).__name__} {error}; expected the fields of a pact case") from None


def _case(raw: dict[str, Any]) -> Case:
    costs = CostTable(
        _array(raw["tau_run"]), _array(raw["tau_change"]), _array(raw["eps_run"]), _array(raw["eps_change"])
    )
    cap = None
    if raw["law"]["kind"] == "epoch":  # the tables end there: an un-quantised search has no other limit
        cap = math.ceil(raw["T_max"] / raw["gamma_T"])
    problem = Problem(
        raw["name"],
        tuple(Pair(str(raw["models"][m]), str(raw["nodes"][n])) for m, n in raw["pairs"]),
        raw["start"],
        raw["l0"],
        Target(raw["l_max"], raw["T_max"]),
        max_epochs=cap,
    )
    return Case(
        raw["name"],
        problem,
        costs,
        {estimate: _law(raw, estimate) for estimate in ESTIMATES},
        Grid(raw["gamma_l"], raw["gamma_T"], raw["l_hi"]),
        {name: _answer(value) for name, value in raw["expect"].items() if isinstance(value, dict)},
        raw,
    )


def _array(values: Any) -> NDArray[np.float64]:
    """Numbers of any depth; null is infinity."""
    return np.asarray(_numbers(values), dtype=np.float64)


def _numbers(values: Any) -> Any:
    if isinstance(values, list):
        return [_numbers(value) for value in values]
    return math.inf if values is None else float(values)


def _law(raw: dict[str, Any], estimate: Estimate) -> LossLaw:
    law = raw["law"]
    versions = [model for model, _ in raw["pairs"]]
    if law["kind"] == "epoch":
        tables = _array(law["change"][estimate])
        tables = tables[None] if tables.ndim == 2 else tables
        change = np.stack([pair_jumps(table, versions) for table in tables])
        return EpochLaw(_array(law["run"][estimate]), change)
    if law["kind"] == "level":
        at = law["est"][estimate]
        curves = np.array([[curve[key] for key in ("a", "b", "s", "alpha")] for curve in at["curves"]], np.float64)
        jumps = pair_jumps(_array(at["c0"]), versions), pair_jumps(_array(at["c1"]), versions)
        return LevelLaw(curves, *jumps, _array(at["mult"])[None], loss_top=raw["l_hi"])
    raise ScenarioError(f"{raw['name']}: law.kind is {law['kind']!r}, expected 'epoch' or 'level'")


def _answer(value: dict[str, Any]) -> Answer:
    energy, actions, free = value["energy"], value.get("actions"), value.get("energy_without_deadline")
    return Answer(
        bool(value["feasible"]),
        math.inf if energy is None else float(energy),
        None if actions is None else tuple(actions),
        None if free is None else float(free),
    )


def replay(raw: dict[str, Any], estimate: Estimate, actions: Sequence[int], *, quantised: bool) -> Replayed:
    """Follows `actions` from the file's start with its own numbers; quantised: in whole steps, as Alg. 1 rounds."""
    loss_step, time_step = raw["gamma_l"], raw["gamma_T"]
    pair, energy, time = raw["start"], 0.0, 0.0
    top = math.ceil(raw["l_hi"] / loss_step - TOLERANCE)
    loss = _round_up(raw["l0"], loss_step) if quantised else raw["l0"]
    for epoch, now in enumerate(actions, start=1):
        tau, eps, change = raw["tau_change"][pair][now], raw["eps_change"][pair][now], _next(raw, estimate)
        if None in (tau, eps, raw["tau_run"][now], raw["eps_run"][now]):
            return Replayed(loss, time, energy, False)
        energy += eps + raw["eps_run"][now]
        seconds = tau + raw["tau_run"][now]
        time += math.ceil(seconds / time_step - TOLERANCE) if quantised else seconds
        landed = change(epoch, loss * loss_step if quantised else loss, pair, now)
        if landed is None:
            return Replayed(loss, time, energy, False)
        loss = _round_up(landed, loss_step) if quantised else max(0.0, landed)
        if quantised and loss > top:
            return Replayed(loss, time, energy, False)
        pair = now
    return Replayed(loss, time, energy, True)


def reaches_goal(raw: dict[str, Any], end: Replayed, *, quantised: bool, deadline: bool = True) -> bool:
    """The replayed path was possible, met the loss and (with `deadline`) the time of its file."""
    if quantised:
        loss_limit: float = math.floor(raw["l_max"] / raw["gamma_l"] + TOLERANCE)
        time_limit: float = math.floor(raw["T_max"] / raw["gamma_T"] + TOLERANCE)
    else:
        loss_limit, time_limit = raw["l_max"], raw["T_max"]
    return end.possible and end.loss <= loss_limit + TOLERANCE and (not deadline or end.time <= time_limit + TOLERANCE)


def _round_up(loss: float, step: float) -> int:
    return max(0, math.ceil(loss / step - TOLERANCE))


def _next(raw: dict[str, Any], estimate: Estimate) -> Any:
    """next_loss(k, l, p, q) of the file's law; None where a change is impossible."""
    law, model = raw["law"], [m for m, _ in raw["pairs"]]

    def by_epoch(epoch: int, loss: float, before: int, now: int) -> float | None:
        run = law["run"][estimate]
        gain = run[min(epoch, len(run)) - 1][now]
        change = law["change"][estimate]
        if isinstance(change[0][0], list):
            change = change[min(epoch, len(change)) - 1]
        jump = 0.0 if model[before] == model[now] else change[model[before]][model[now]]
        return None if gain is None or jump is None else loss + jump + gain

    def by_level(epoch: int, loss: float, before: int, now: int) -> float | None:
        at = law["est"][estimate]
        mid = loss
        if model[before] != model[now]:
            c0, c1 = at["c0"][model[before]][model[now]], at["c1"][model[before]][model[now]]
            if c0 is None or c1 is None:
                return None
            mid = loss + c0 + c1 * loss
        curve = at["curves"][now]
        if mid <= curve["a"]:
            return mid
        position = ((mid - curve["a"]) / curve["b"]) ** (-1 / curve["alpha"])
        onward = curve["a"] + curve["b"] * (position + 1 / curve["s"]) ** -curve["alpha"]
        return float(mid + at["mult"][now] * (onward - mid))

    return by_epoch if law["kind"] == "epoch" else by_level


def pair_jumps(by_version: Array, versions: list[int]) -> Array:
    """Jumps given between versions (M, M) spread over pairs (P, P): pairs of one version have none between them."""
    index = np.asarray(versions)
    jumps = np.asarray(by_version, dtype=np.float64)[np.ix_(index, index)]
    return np.where(index[:, None] == index[None, :], 0.0, jumps)

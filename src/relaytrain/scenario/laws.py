"""`[law]` -> arrays: curves or tables of every pair, jumps of every change, expected and robust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.curve import Array
from ..core.law import EpochLaw, LevelLaw
from ..core.problem import Pair, Problem
from .build import ChangeRules, Mask
from .faults import Fault
from .schema import CurveTable, LawTable, StepsTable
from .wide import wide_law

if TYPE_CHECKING:
    from ..core.depl_settings import DeplSettings

_CURVE = ("floor", "drop", "scale", "power")


def build_law(
    law: LawTable, problem: Problem, depl: DeplSettings | None = None
) -> tuple[EpochLaw | LevelLaw, list[Fault], list[str]]:
    """The law, what it lacks, and what is odd about it."""
    if law.kind == "depl":
        from .depl_build import depl_law

        assert depl is not None, "checked before"
        return depl_law(depl, problem.pairs), [], []
    if law.kind == "wide":
        return wide_law(problem), [], []
    stated, faults = _level(law, problem) if law.kind == "level" else _epoch(law, problem)
    warnings = []
    if not faults:
        if not stated.monotone:
            warnings.append("law: not monotone, a higher loss may end lower (progress > 1?); plans may miss the best")
        if _robust_is_better(stated):
            warnings.append("law: a robust figure promises more than the expected one; robust means the worse side")
    return stated, faults, warnings


def _covers(row: CurveTable | StepsTable, pair: Pair) -> bool:
    return row.version in ("*", pair.version) and row.nodes in ("*", pair.nodes)


def _stack(columns: list[Any]) -> Array:
    """Figures or lists by epoch, one for each pair -> (K, P); shorter lists hold their last figure."""
    rows = [column if isinstance(column, list) else [column] for column in columns]
    longest = max(len(row) for row in rows)
    return np.array([row + [row[-1]] * (longest - len(row)) for row in rows], dtype=np.float64).T


def _level(law: LawTable, problem: Problem) -> tuple[LevelLaw, list[Fault]]:
    faults: list[Fault] = []
    curves, robust_curves, progress, robust_progress = [], [], [], []
    entries = [(e, e.model_dump(exclude_none=True, exclude={"version", "nodes"})) for e in law.curves]
    for pair in problem.pairs:
        row: dict[str, Any] = {}
        for entry, figures in entries:
            if _covers(entry, pair):
                row.update(figures)
        lacking = [key for key in _CURVE if key not in row]
        if lacking:
            wanted = "floor, drop, scale and power for every pair"
            faults.append(Fault(("law", "curves"), f"no {lacking[0]} for {pair}", wanted))
            row = {**dict.fromkeys(_CURVE, 1.0), **row}
        curves.append([row[key] for key in _CURVE])
        robust_curves.append([row.get(f"robust_{key}", row[key]) for key in _CURVE])
        expected = row.get("progress", law.progress)
        progress.append(expected)
        robust_progress.append(row.get("robust_progress", _scaled(expected, law.robust_progress)))
    mult, mult_robust = _matched(_stack(progress), _stack(robust_progress))
    jumps = [j[0] for j in _jumps(law, problem, epochs=False)]
    plain, robust = np.array(curves), np.array(robust_curves)
    stated = LevelLaw(
        curves=plain,
        jump0=jumps[0],
        jump1=jumps[2],
        mult=mult,
        mult_robust=mult_robust,
        jump0_robust=jumps[1],
        jump1_robust=jumps[3],
        curves_robust=None if (plain == robust).all() else robust,
    )
    return stated.topped(problem.initial_loss), faults


def _scaled(figures: Any, factor: float) -> Any:
    return [f * factor for f in figures] if isinstance(figures, list) else figures * factor


def _matched(one: Array, other: Array) -> tuple[Array, Array]:
    longest = max(len(one), len(other))
    return (
        np.concatenate([one, np.repeat(one[-1:], longest - len(one), axis=0)]),
        np.concatenate([other, np.repeat(other[-1:], longest - len(other), axis=0)]),
    )


def _epoch(law: LawTable, problem: Problem) -> tuple[EpochLaw, list[Fault]]:
    faults: list[Fault] = []
    run: list[Any] = []
    robust: list[Any] = []
    for pair in problem.pairs:
        entry = next((e for e in reversed(law.steps) if _covers(e, pair)), None)
        if entry is None:
            faults.append(Fault(("law", "steps"), f"no loss change by epoch for {pair}", "an entry for every pair"))
            run.append(0.0)
            robust.append(0.0)
            continue
        expected = entry.change if isinstance(entry.change, list) else [entry.change]
        expected = [law.progress * c if c < 0 else c for c in expected]
        run.append(expected)
        # Only gains shrink: a rise of the loss is not made smaller by being pessimistic about progress.
        robust.append(
            entry.robust_change
            if entry.robust_change is not None
            else [law.robust_progress * c if c < 0 else c for c in expected]
        )
    plain_run, robust_run = _matched(_stack(run), _stack(robust))
    jump, jump_robust, slope, _ = _jumps(law, problem, epochs=True)
    if slope.any():
        wanted = "jump alone: an epoch law ignores the loss"
        faults.append(Fault(("law", "jumps"), "jump_per_loss with kind = 'epoch'", wanted))
    same = np.array_equal(plain_run, robust_run)  # then between levels there is nothing to work out
    return EpochLaw(plain_run, jump, plain_run if same else robust_run, jump_robust), faults


def _jumps(law: LawTable, problem: Problem, *, epochs: bool) -> tuple[Array, Array, Array, Array]:
    """jump, robust jump, jump per loss and its robust twin: (K, P, P), the last two (1, P, P)."""
    pairs = problem.pairs
    lists = [j for rule in law.jumps for j in (rule.jump, rule.robust_jump) if isinstance(j, list)]
    length = max([1, *(len(j) for j in lists)]) if epochs else 1
    shape = (length, len(pairs), len(pairs))
    jump, slope = np.zeros(shape), np.zeros((1, *shape[1:]))
    robust = np.full(shape, np.nan)
    robust_slope = np.full((1, *shape[1:]), np.nan)
    rules = ChangeRules(pairs, problem.versions)
    for rule in law.jumps:
        mask = rules.mask(rule.from_, rule.to, rule.kind)
        _assign(jump, mask, rule.jump)
        _assign(robust, mask, rule.robust_jump)
        _assign(slope, mask, rule.jump_per_loss)
        _assign(robust_slope, mask, rule.robust_jump_per_loss)
        if rule.jump is not None and rule.robust_jump is None:
            robust[:, mask] = np.nan  # a new expected figure brings its own robust one, by the factor
        if rule.jump_per_loss is not None and rule.robust_jump_per_loss is None:
            robust_slope[:, mask] = np.nan
    factor = law.robust_jump_factor
    return jump, _worse(robust, jump, factor), slope, _worse(robust_slope, slope, factor)


def _worse(robust: Array, expected: Array, factor: float) -> Array:
    """Robust figures as given, else the expected ones x factor; a fall of the loss is not made deeper."""
    scaled = expected.copy()
    rises = np.isfinite(expected) & (expected > 0)
    scaled[rises] *= factor
    return np.where(np.isnan(robust), scaled, robust)


def _assign(target: Array, mask: Mask, value: float | list[float] | None) -> None:
    if value is None:
        return
    column = np.array(value if isinstance(value, list) else [value], dtype=np.float64)
    padded = np.concatenate([column, np.repeat(column[-1:], len(target) - len(column))])
    target[:, mask] = padded[:, None]


def _robust_is_better(law: EpochLaw | LevelLaw) -> bool:
    if isinstance(law, EpochLaw):
        twins = [(law.run, law.run_robust), (law.change, law.change_robust)]
    else:
        twins = [
            (-law.mult, None if law.mult_robust is None else -law.mult_robust),
            (law.jump0, law.jump0_robust),
            (law.jump1, law.jump1_robust),
        ]
    return any(r is not None and bool((r < e - 1e-12).any()) for e, r in twins)

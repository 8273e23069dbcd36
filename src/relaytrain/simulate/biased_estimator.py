"""What an estimator believes about a world: the true law with errors in it, and robust figures on the worse side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.curve import Array
from ..core.law import EpochLaw, LevelLaw
from ..core.world_settings import WorldSettings


def believed(
    settings: WorldSettings, truth: LevelLaw | EpochLaw, stated: LevelLaw | EpochLaw, rng: np.random.Generator
) -> LevelLaw | EpochLaw:
    """The estimator's law about `truth`: one bias for each pair's progress, one for each jump, robust figures beside.

    `stated` is the scenario's law: its distance between robust and expected is kept where `settings` gives none.
    """
    pairs = len(truth.curves) if isinstance(truth, LevelLaw) else truth.run.shape[1]
    bias = np.clip(1.0 + settings.bias_sd * rng.standard_normal(pairs), settings.bias_low, settings.bias_high)
    jump_bias = np.maximum(1.0 + settings.jump_bias_sd * rng.standard_normal((pairs, pairs)), 0.0)
    shade = None if settings.robust_shading is None else rng.uniform(*settings.robust_shading, size=pairs)
    if isinstance(truth, LevelLaw):
        assert isinstance(stated, LevelLaw)
        return _level(settings, truth, stated, (bias, jump_bias, shade))
    assert isinstance(stated, EpochLaw)
    run, change = truth.run * bias, truth.change * jump_bias
    robust = at_distance(run, stated.run, stated.run_robust)
    if shade is not None:  # only gains shrink
        robust = np.where(run < 0.0, run * (1.0 - shade), run)
    return EpochLaw(run, change, robust, _raised(settings, change, stated.change, stated.change_robust))


def _level(
    settings: WorldSettings, truth: LevelLaw, stated: LevelLaw, errors: tuple[Array, Array, Array | None]
) -> LevelLaw:
    bias, jump_bias, shade = errors
    mult = truth.mult * bias
    jump0, jump1 = truth.jump0 * jump_bias, truth.jump1 * jump_bias
    return replace(
        truth,
        mult=mult,
        mult_robust=at_distance(mult, stated.mult, stated.mult_robust) if shade is None else mult * (1.0 - shade),
        jump0=jump0,
        jump1=jump1,
        jump0_robust=_raised(settings, jump0, stated.jump0, stated.jump0_robust),
        jump1_robust=_raised(settings, jump1, stated.jump1, stated.jump1_robust),
        curves_robust=None if shade is not None else at_distance(truth.curves, stated.curves, stated.curves_robust),
    )


def at_distance(figures: Array, stated: Array, robust: Array | None) -> Array:
    """`figures` moved by the factor between `stated` and its robust twin (zeros move by the difference)."""
    if robust is None:
        return figures
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(stated == 0.0, figures + robust, figures * (robust / stated))
    return np.where(np.isfinite(figures) & np.isfinite(stated) & np.isfinite(robust), moved, figures)


def _raised(settings: WorldSettings, jumps: Array, stated: Array, robust: Array | None) -> Array:
    """Robust jumps: higher by the factor given, also where a jump lowers the loss."""
    if settings.robust_jump_factor is None:
        return at_distance(jumps, stated, robust)
    return np.asarray(jumps + np.abs(jumps) * (settings.robust_jump_factor - 1.0))

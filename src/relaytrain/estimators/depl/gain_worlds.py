"""Worlds of DepL's increments: x of every epoch to come and the t of every switch, drawn given what a run has shown.

In a world nothing is left to luck: its x say by how much each epoch lowers the loss. With the level reading the gain is
that of where the world's own loss stands, epoch by epoch, so a version that is entered high goes through all of its
way down; a plan's law, whose gains are placed once, does not know that. All data, full resources.

Paper: DepL equation (8).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.curve import Array
from ...core.dependence import NoisePast, draw_latent, from_normal
from ...core.depl import DeplProblem
from ...core.depl_settings import DeplSettings
from ...core.problem import Pair
from ...core.worlds import GainTable, Worlds


def gain_worlds(
    settings: DeplSettings, past: NoisePast, pairs: Sequence[Pair], loss: float, count: int, seed: int
) -> Worlds:
    """`count` worlds after the epochs of `past`, at `loss`."""
    instance, done = settings.instance, len(past.z)
    index = [settings.version(pair.version) for pair in pairs]
    random = np.random.default_rng([seed, 0xDE91])
    ahead = tuple(range(done + 1, max(instance.max_epochs, done + 1) + 1))
    z = draw_latent(settings.belief, past, ahead, len(instance.versions), samples=count, seed=seed)
    z = z[random.permutation(count)]  # samples come by the dependence that they were drawn under
    factors = np.stack([from_normal(instance.versions[m].noise, z[:, m]) for m in index], axis=2)
    k = np.arange(1, instance.max_epochs + 1)
    gain = instance.data_gain(instance.all_data)
    gains = np.stack([gain * instance.versions[m].progress(k) for m in index], axis=1)
    levels = np.empty((0, len(pairs)))
    if settings.reading == "level":
        lowered = np.cumsum(gains * [instance.versions[m].noise.mean for m in index], axis=0)
        levels = instance.initial_loss - np.concatenate([np.zeros((1, len(pairs))), lowered[:-1]])
    jump0 = _jumps(instance, index, count, random, free=settings.free_start and not done, first=done + 1)
    unit = np.ones((count, len(pairs), 4))
    flat = np.zeros((len(pairs), len(pairs)))
    still = np.zeros((len(pairs), 1))
    table = GainTable(gains, levels, factors)
    return Worlds(
        unit, unit[0, :, :1].T, jump0, flat, np.full(count, loss), still, np.ones((count, len(pairs))), table=table
    )


def _jumps(
    instance: DeplProblem, index: Sequence[int], count: int, random: np.random.Generator, *, free: bool, first: int
) -> Array:
    """The loss change (N, P, P) of every switch; of a network that is not trained yet, none where that is `free`.

    Worlds know one change of a switch, where it goes by the epoch that of epoch `first`, the next one.
    """
    known = len(instance.versions)
    jumps = np.zeros((count, known, known))
    for before in range(known):
        for now in range(known):
            if before != now:
                jump = instance.jump_at(first, instance.all_data, before, now)
                drawn = np.full(count, np.inf) if jump is None else jump.sample(random, count)
                jumps[:, before, now] = np.where(np.isfinite(drawn), 0.0, np.inf) if free else drawn
    return np.ascontiguousarray(jumps[:, index][:, :, index])

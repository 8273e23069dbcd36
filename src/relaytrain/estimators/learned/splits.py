"""Honest splits of traces: whole configurations or whole seeds on one side, never single windows of a curve.

`by_configuration`: of the groups (the first switch: K1 and F1, all seeds) some are tested, some calibrate, the rest
train; curves that never switched belong to no group and go by their seed. `by_seed`: the same with seeds alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.errors import UsageError
from .bundle import Bundle, LegCurve, LegSwitch

FOLDS = 4


@dataclass(frozen=True)
class Fold:
    """Three parts of a bundle."""

    train: Bundle
    calibration: Bundle
    test: Bundle
    name: str = ""


def _share(names: Sequence[object], fold: int, folds: int, order: NDArray[np.int64]) -> tuple[set[object], set[object]]:
    """Tested and calibrating names of a fold: every `folds`-th, and those after them; of fewer than 3 none of these."""
    ranked = [names[i] for i in order]
    parts = min(folds, len(ranked))
    tested = set(ranked[fold % parts :: parts])
    calibrating = set(ranked[(fold + 1) % parts :: parts]) if parts >= 3 else set()
    return tested, calibrating


def by_configuration(bundle: Bundle, *, folds: int = FOLDS, seed: int = 0) -> Iterator[Fold]:
    """Folds in which tested groups of configurations were never seen, neither in training nor in calibration."""
    groups = sorted({curve.group for curve in bundle.curves} - {""})
    if len(groups) < folds:
        raise UsageError(f"splits: {len(groups)} groups of configurations, expected at least {folds}; use --by seed")
    rng = np.random.default_rng(seed)
    group_order, seed_order = rng.permutation(len(groups)), rng.permutation(len(bundle.seeds))
    for fold in range(folds):
        tested, calibrating = _share(groups, fold, folds, group_order)
        test_seeds, calibration_seeds = _share(bundle.seeds, fold, folds, seed_order)

        rest = set(groups) - tested - calibrating
        rest_seeds = set(bundle.seeds) - test_seeds - calibration_seeds
        yield Fold(
            _part(bundle, rest, rest_seeds),
            _part(bundle, calibrating, calibration_seeds),
            _part(bundle, tested, test_seeds),
            f"fold {fold + 1}",
        )


def _part(bundle: Bundle, groups: Set[object], seeds: Set[object]) -> Bundle:
    """What belongs to these groups; what never switched, to these seeds."""

    def keep(one: LegCurve | LegSwitch) -> bool:
        return one.group in groups if one.group else one.seed in seeds

    return bundle.only([keep(c) for c in bundle.curves], [keep(s) for s in bundle.switches])


def parts_of(bundle: Bundle, count: int = FOLDS) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of `count` parts every curve and every switch belongs to, for models that leave one part out each.

    Whole groups of configurations, dealt so that every part has some of each kind; what never switched goes by its
    seed. Of fewer groups than parts: whole seeds; of fewer seeds too: whole curves.
    """
    groups = sorted(
        {curve.group for curve in bundle.curves} - {""}, key=lambda g: (g.split()[1:], g.split()[0].zfill(9))
    )
    seeds = {seed: i % count for i, seed in enumerate(bundle.seeds)}
    dealt = {group: (i + i // count) % count for i, group in enumerate(groups)}
    by_seed_alone = len(groups) < count

    def part(one: LegCurve | LegSwitch) -> int:
        if by_seed_alone and len(seeds) < count:
            return one.run % count
        return seeds[one.seed] if by_seed_alone or not one.group else dealt[one.group]

    return (
        np.array([part(c) for c in bundle.curves], dtype=np.int64),
        np.array([part(s) for s in bundle.switches], dtype=np.int64),
    )


def by_seed(bundle: Bundle, *, folds: int = FOLDS, seed: int = 0) -> Iterator[Fold]:
    """Folds in which tested seeds were never seen; every configuration was."""
    seeds = bundle.seeds
    if len(seeds) < 3:
        raise UsageError(f"splits: {len(seeds)} seeds, expected at least 3; collect more, or use --by configuration")
    folds = min(folds, len(seeds))
    order = np.random.default_rng(seed).permutation(len(seeds))
    for fold in range(folds):
        tested, calibrating = _share(seeds, fold, folds, order)
        rest = [s for s in seeds if s not in tested | calibrating]
        yield Fold(
            bundle.of_seeds(rest),
            bundle.of_seeds([s for s in seeds if s in calibrating]),
            bundle.of_seeds([s for s in seeds if s in tested]),
            f"fold {fold + 1}",
        )

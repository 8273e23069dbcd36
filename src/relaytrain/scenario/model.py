"""A scenario once understood: the problem, its costs, its loss law, and the settings of those who work on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.cost import CostTable
from ..core.law import EpochLaw, LevelLaw
from ..core.problem import Problem
from ..core.state import Grid
from ..core.world_settings import WorldSettings

if TYPE_CHECKING:
    from ..core.depl_settings import DeplSettings


@dataclass(frozen=True)
class PlannerSettings:
    """Who plans: a planner's name, PACT's rule, the paper's grid if asked for, the seed of sampled figures, and the
    file of recorded relays that `fixed` chooses from."""

    name: str = "pact"
    rule: str | None = None
    grid: Grid | None = None
    seed: int = 0
    atlas: str | None = None


@dataclass(frozen=True, eq=False)
class Scenario:
    """A file become a problem. `resolved` is the same scenario with every default written out, ready for JSON.

    Loading `resolved` again gives an equal scenario. `training`, `data`, `prior` and `estimator` are passed through, or
    empty; `depl` is None without that table. `overrides` and `without` are what was changed in the file on the way.
    """

    problem: Problem
    costs: CostTable
    law: EpochLaw | LevelLaw
    planner: PlannerSettings
    world: WorldSettings
    resolved: Mapping[str, Any]
    source: Path | None = None
    preset: str | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    prior: Mapping[str, Any] = field(default_factory=dict)
    estimator: Mapping[str, Any] = field(default_factory=dict)
    depl: DeplSettings | None = None
    warnings: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.problem.name

    @property
    def guessed(self) -> bool:
        """Nothing is known of its losses: neither a law nor curves of a prior nor anything fitted."""
        known = self.prior.get("curves") or self.estimator.get("name", "prior") != "prior"
        return bool(self.resolved["law"]["kind"] == "wide" and not known)

    @property
    def folder(self) -> Path | None:
        """The folder of the file, where references to code look first."""
        return None if self.source is None else self.source.parent

    def beside(self, file: str) -> Path:
        """A file that the scenario names: from its own folder, where it has one."""
        return Path(file) if self.folder is None else self.folder / file

    @property
    def rule(self) -> str:
        """PACT's rule: the one named, else `sampled` where there is a belief to draw worlds from (`[prior]`, `[depl]`,
        a fitted estimator, or what is believed where nothing is known), else `adaptive`.

        A law alone says what it says by levels, and the exact rules plan by levels; on a grid only they can.
        """
        if self.planner.rule is not None:
            return self.planner.rule
        fitted = self.estimator.get("name", "prior") != "prior"
        believes = bool(self.prior) or self.depl is not None or self.guessed or fitted
        return "sampled" if believes and self.planner.grid is None else "adaptive"

    @property
    def digest(self) -> str:
        """SHA-256 of the resolved scenario."""
        text = json.dumps(self.resolved, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self.resolved == other.resolved

    def __hash__(self) -> int:
        return hash(self.digest)

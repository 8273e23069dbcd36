"""What a campaign trains: a tree of branches, cut into pieces that are trained, kept and resumed one by one.

    gold, switches at 5 and 10    |--- piece 0 (1..5) ---|--- piece 1 (6..10) ---|
    silver, from 5                                       |------ piece 2 (6..25) ------|
    silver, from 10                                                              |------ piece 3 (11..30) ---

A piece ends where somebody branches off: its last weights are kept until all who start from them are done. One
trajectory so serves every switching epoch. Seeds of passes depend on (seed, epoch, node) alone, so a branch that is
trained from its checkpoint gives, bit for bit, what a training from the first epoch gives.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..core.errors import UsageError

SCHEMA = "relaytrain.campaign/1"
Tables = Mapping[str, Any]


@dataclass(frozen=True)
class Branch:
    """`epochs` epochs of one version on one node set, from epoch `after` of `parent` on; a root starts from nothing."""

    run: int
    parent: int | None
    after: int
    version: str
    nodes: str
    epochs: int

    @property
    def last(self) -> int:
        """Its last epoch."""
        return self.after + self.epochs


@dataclass(frozen=True)
class Piece:
    """Epochs `first` to `last` of `run`; `start` is the piece whose last weights it begins with (None: a root)."""

    index: int
    run: int
    first: int
    last: int
    start: int | None

    @property
    def epochs(self) -> int:
        """How many."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Images:
    """Where a preset's images are and how many of them are used: applied as they are read.

    `pool` training images at most, `test` test images at most of each class, both from the front of the file;
    `shrink` as in a scenario. `more` names a second source whose classes come after those of the first.
    """

    folder: str | None = None
    pool: int | None = None
    test: int | None = None
    shrink: int = 1
    more: str | None = None
    more_classes: int = 0


@dataclass(frozen=True)
class Campaign:
    """A scenario without its seed, the tree, and how the traces describe themselves.

    `own_classes`: test losses are read on the classes of the node set that trains, as in the trace format's cases;
    otherwise on the target's set, as runs do.
    """

    name: str
    scenario: Tables
    branches: tuple[Branch, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)
    own_classes: bool = True
    images: Images | None = None
    folder: str | None = None
    seeds: int = 1

    def __post_init__(self) -> None:
        known: dict[int, Branch] = {}
        for branch in self.branches:
            parent = known.get(branch.parent) if branch.parent is not None else None
            if branch.run in known or branch.epochs < 1 or (branch.parent is None) != (branch.after == 0):
                raise UsageError(f"campaign: branch {branch} does not fit")
            if branch.parent is not None and (parent is None or not parent.after < branch.after <= parent.last):
                leaves = f"leaves run {branch.parent} after epoch {branch.after}, which it has not"
                raise UsageError(f"campaign: branch {branch.run} {leaves}")
            known[branch.run] = branch

    @cached_property
    def by_run(self) -> dict[int, Branch]:
        """Branches by their number."""
        return {branch.run: branch for branch in self.branches}

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, every one after the piece it starts from."""
        pieces: list[Piece] = []
        at: dict[tuple[int, int], int] = {}  # (run, epoch) -> the piece that ends there
        for branch in self.branches:
            cuts = sorted({b.after for b in self.branches if b.parent == branch.run} | {branch.last})
            start = at[branch.parent, branch.after] if branch.parent is not None else None
            first = branch.after + 1
            for last in cuts:
                pieces.append(Piece(len(pieces), branch.run, first, last, start))
                start = at[branch.run, last] = len(pieces) - 1
                first = last + 1
        return tuple(pieces)

    @cached_property
    def takers(self) -> dict[int, tuple[int, ...]]:
        """By piece: those that start from its last weights."""
        by_start: dict[int, tuple[int, ...]] = {piece.index: () for piece in self.pieces}
        for piece in self.pieces:
            if piece.start is not None:
                by_start[piece.start] += (piece.index,)
        return by_start

    def chain(self, branch: Branch) -> list[tuple[Branch, int]]:
        """From the root to `branch`: every ancestor with the epochs of it that belong to this training."""
        parts = [(branch, branch.epochs)]
        while parts[0][0].parent is not None:
            parent = self.by_run[parts[0][0].parent]
            parts.insert(0, (parent, parts[0][0].after - parent.after))
        return parts

    @property
    def alone(self) -> list[Branch]:
        """Branches that stand for one training each; a root that is only the beginning of others is none."""
        parents = {branch.parent for branch in self.branches}
        return [b for b in self.branches if b.parent is not None or b.run not in parents]

    def tables(self, seed: int) -> dict[str, Any]:
        """The scenario of one seed: it draws the initial weights, the order of batches and who holds which image."""
        tables = json.loads(json.dumps(dict(self.scenario)))
        tables["training"] = {**(tables.get("training") or {}), "seed": seed}
        tables["data"] = {**tables["data"], "seed": seed}
        return dict(tables)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the number of seeds: more seeds are the same campaign."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "scenario": dict(self.scenario),
            "branches": [list(vars(branch).values()) for branch in self.branches],
            "meta": dict(self.meta),
            "own_classes": self.own_classes,
            "images": None if self.images is None else vars(self.images),
            "folder": self.folder,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Campaign:
        """The inverse of `to_dict`."""
        plain = {key: value for key, value in values.items() if key not in ("schema", "branches", "images")}
        images = None if values["images"] is None else Images(**values["images"])
        return cls(branches=tuple(Branch(*row) for row in values["branches"]), images=images, **plain)

    @property
    def digest(self) -> str:
        """What the results of pieces belong to: SHA-256 of all that decides them (not words, nor where images are)."""
        known = {**self.to_dict(), "meta": None, "folder": None}
        if known["images"] is not None:
            known["images"] = {**known["images"], "folder": None}
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


class Growing:
    """Puts a tree together branch by branch."""

    def __init__(self) -> None:
        self.branches: list[Branch] = []

    def root(self, version: str, nodes: str, epochs: int) -> Branch:
        """A training from nothing."""
        return self._add(None, 0, version, nodes, epochs)

    def branch(self, parent: Branch, stay: int, version: str, nodes: str, epochs: int) -> Branch:
        """A switch after `stay` epochs of `parent`."""
        return self._add(parent.run, parent.after + stay, version, nodes, epochs)

    def _add(self, parent: int | None, after: int, version: str, nodes: str, epochs: int) -> Branch:
        self.branches.append(Branch(len(self.branches), parent, after, version, nodes, epochs))
        return self.branches[-1]


def images_of(campaign: Campaign, samples: Mapping[str, int]) -> tuple[int, int]:
    """Training images of one seed: with shared beginnings, and with every training from its first epoch.

    Args:
        campaign: the tree.
        samples: of every node set, by name.
    """
    shared, naive = (
        sum(epochs * samples[nodes] for (_, nodes), epochs in epochs_by_pair(campaign, naive=alone).items())
        for alone in (False, True)
    )
    return shared, naive


def epochs_by_pair(campaign: Campaign, *, naive: bool) -> dict[tuple[str, str], int]:
    """Epochs of one seed by (version, node set)."""
    parts = [(branch, branch.epochs) for branch in campaign.branches]
    if naive:
        parts = [part for branch in campaign.alone for part in campaign.chain(branch)]
    total: Counter[tuple[str, str]] = Counter()
    for branch, epochs in parts:
        total[branch.version, branch.nodes] += epochs
    return total

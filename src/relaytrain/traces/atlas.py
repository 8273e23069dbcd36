"""An atlas: the losses of many relays of one scenario, seed by seed, whichever way they went.

    gold  1 2 3 4 5 6 7 8 ...            a leg: a pair trained on, after the legs before it
                |       +- bronze 1 2 3 ...
                +- silver 1 2 3 4 ...
                              +- bronze 1 2 3 ...

A leg is named by its *way*: (pair, epochs) of every leg before it, then its own pair. An atlas answers what an epoch
would have come to on any way that it holds, so rules can be compared on the same luck; a way that it does not hold
may be trained and added. Losses are kept to the bit; weights are not kept.

The file is an npz (`relaytrain.atlas/1`, docs/formats.md), checked before anything reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core import npz
from ..core.errors import ScenarioError
from ..core.npz import Wrong
from ..core.problem import Pair
from ..scenario.read import read_whole
from ..store.files import write_atomic

SCHEMA = "relaytrain.atlas/1"
MOST_LEGS_BEFORE = 16
MOST_PAIRS, MOST_SEEDS, MOST_EPOCHS, MOST_LEGS, MOST_LETTERS = 4096, 10_000, 1_000_000, 300_000, 1000
FIGURES = ("loss", "error")
HANDED = ("reached_ratio", "train_loss_before", "train_loss_after")
"""What is kept of a handover, beside its kind."""
KINDS = {
    "seeds": np.int64, "leg_seed": np.int64, "way": np.int32, "start": np.float64, "handed": np.float64,
    "count": np.int64, "losses": np.float64,
}  # fmt: skip
"""Of numbers, by array."""
BUNDLED = Path(__file__).parent / "atlases"

Way = tuple[tuple[int, int], ...]
"""Legs: index of the pair, epochs on it."""


class LegKey(NamedTuple):
    """A leg by the legs before it and its own pair."""

    before: Way
    pair: int


@dataclass
class AtlasLeg:
    """What one leg showed: the figure of the forward pass before its first epoch, then one after every epoch.

    `handed`: how the handover before it went (kind, reached ratio, forward losses on the new nodes' own data).
    """

    start: float
    losses: list[float] = field(default_factory=list)
    handed: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Atlas:
    """Legs by seed. `figure` names what the losses are: the target's metric, as probed.

    `digest` stands for all that decides about losses (data, versions, training), the seed left out: two atlases of one
    digest can be joined. `meta` says where it was made, and by which versions of what.
    """

    scenario: str
    pairs: tuple[Pair, ...]
    start: int
    digest: str = ""
    figure: str = "loss"
    meta: Mapping[str, Any] = field(default_factory=dict)
    seeds: dict[int, dict[LegKey, AtlasLeg]] = field(default_factory=dict)

    def leg(self, seed: int, key: LegKey) -> AtlasLeg | None:
        """What is held of a leg."""
        return self.seeds.get(seed, {}).get(key)

    @property
    def epochs(self) -> int:
        """Held in all."""
        return sum(len(leg.losses) for legs in self.seeds.values() for leg in legs.values())

    def merge(self, other: Atlas) -> None:
        """Take in what `other` holds; of a leg that both hold, the longer one."""
        if (other.digest, other.pairs) != (self.digest, self.pairs):
            raise ScenarioError(
                f"atlas of {other.scenario}: made with other data, versions or training than that of {self.scenario}"
            )
        for seed, legs in other.seeds.items():
            mine = self.seeds.setdefault(seed, {})
            for key, leg in legs.items():
                if key not in mine or len(mine[key].losses) < len(leg.losses):
                    mine[key] = leg

    def only(self, seeds: Sequence[int]) -> Atlas:
        """The same with some of its seeds."""
        held = {seed: self.seeds[seed] for seed in seeds}
        return Atlas(self.scenario, self.pairs, self.start, self.digest, self.figure, self.meta, held)

    def to_bytes(self) -> bytes:
        """The file; equal atlases give equal bytes."""
        rows = [(seed, key, legs[key]) for seed, legs in sorted(self.seeds.items()) for key in sorted(legs)]
        ways = np.full((len(rows), 2 * max((len(key.before) for _, key, _ in rows), default=0) + 1), -1, np.int32)
        for row, (_, key, _) in enumerate(rows):
            ways[row, 0] = key.pair
            ways[row, 1 : 1 + 2 * len(key.before)] = [figure for leg in key.before for figure in leg]
        kinds = sorted({str(leg.handed.get("kind", "")) for _, _, leg in rows})
        handed = [
            [
                kinds.index(str(leg.handed.get("kind", ""))),
                *(leg.handed.get(name, np.nan) for name in HANDED),
            ]
            for _, _, leg in rows
        ]
        arrays: npz.Arrays = {
            "seeds": np.array(sorted(self.seeds), dtype=np.int64),
            "leg_seed": np.array([seed for seed, _, _ in rows], dtype=np.int64),
            "way": ways,
            "start": np.array([leg.start for _, _, leg in rows], dtype=np.float64),
            "handed": np.array(handed, dtype=np.float64).reshape(len(rows), 4),
            "count": np.array([len(leg.losses) for _, _, leg in rows], dtype=np.int64),
            "losses": np.array([loss for _, _, leg in rows for loss in leg.losses], dtype=np.float64),
        }
        body = {
            "schema": SCHEMA,
            "scenario": self.scenario,
            "pairs": [list(pair) for pair in self.pairs],
            "start": self.start,
            "digest": self.digest,
            "figure": self.figure,
            "kinds": kinds,
            "meta": dict(self.meta),
        }
        return npz.write_arrays(body, arrays)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        write_atomic(path, self.to_bytes())


def read_atlas(path: str | Path) -> Atlas:
    """The atlas in a file, or the bundled one of that name.

    Raises:
        ScenarioError: no such file, or not one of ours.
    """
    place, bundled = Path(path), BUNDLED / f"{path}.npz"
    if not place.exists() and place.name == str(path) and bundled.exists():
        place = bundled
    remedy = f"record one: relaytrain atlas SCENARIO {place.stem}.npz"
    raw = read_whole(place, npz.MOST_BYTES, f"an atlas; {remedy}")
    try:
        return _read(raw)
    except Wrong as error:
        raise ScenarioError(f"{path}: {error}; `relaytrain atlas` writes no such file: record it again") from None


def _read(raw: bytes) -> Atlas:
    body, arrays = npz.read(raw)
    atlas, kinds = _described(body)
    if set(arrays) != set(KINDS):
        raise Wrong("arrays", ", ".join(sorted(arrays))[:200], ", ".join(KINDS))
    legs = len(arrays["leg_seed"]) if arrays["leg_seed"].ndim == 1 else 0
    if legs > MOST_LEGS:
        raise Wrong("leg_seed", f"{legs} legs", f"at most {MOST_LEGS}")
    wide = arrays["way"].shape[1] if arrays["way"].ndim == 2 else 0
    if wide % 2 != 1 or wide > 2 * MOST_LEGS_BEFORE + 1:
        raise Wrong("way", f"shape {arrays['way'].shape}", f"{legs} rows of a pair and at most 16 legs before it")
    shapes = {"seeds": arrays["seeds"].shape[:1], "way": (legs, wide), "handed": (legs, 4)}
    shapes["losses"] = arrays["losses"].shape[:1]
    for key, kind in KINDS.items():
        shape = shapes.get(key, (legs,))
        if arrays[key].dtype != kind or arrays[key].shape != shape:
            got = f"shape {arrays[key].shape} of {arrays[key].dtype}"
            raise Wrong(key, got, f"{'x'.join(map(str, shape)) or 'a row'} of {np.dtype(kind)}")
    counts, losses, handed = arrays["count"], arrays["losses"], arrays["handed"]
    if (legs and (counts.min() < 0 or counts.max() > MOST_EPOCHS)) or int(counts.sum()) != len(losses):
        raise Wrong("count", f"{int(counts.sum())} epochs", f"{len(losses)}, as there are losses")
    for key in ("losses", "start"):
        if not np.isfinite(arrays[key]).all():
            raise Wrong(key, "some that are no numbers", "finite figures")
    if not np.isin(handed[:, 0], np.arange(len(kinds))).all():
        raise Wrong("handed", "a kind of handover that is not listed", f"indexes of {len(kinds)} kinds in column 0")
    seeds = arrays["seeds"].tolist()
    if len(seeds) > MOST_SEEDS or sorted(set(seeds)) != seeds or (seeds and seeds[0] < 0):
        raise Wrong("seeds", f"{len(seeds)} of them", f"at most {MOST_SEEDS}, from 0 on, each once and in order")
    atlas.seeds = {seed: {} for seed in seeds}
    ends = np.cumsum(counts)
    for row, seed in enumerate(arrays["leg_seed"].tolist()):
        way = _key(arrays["way"][row].tolist(), len(atlas.pairs))
        if seed not in atlas.seeds or way in atlas.seeds[seed]:
            raise Wrong("leg_seed", f"leg {row} of seed {seed}", "seeds that are listed, and each of their legs once")
        told = dict(zip(HANDED, handed[row, 1:].tolist(), strict=True))
        known: dict[str, Any] = {name: figure for name, figure in told.items() if math.isfinite(figure)}
        if handover := kinds[int(handed[row, 0])]:
            known["kind"] = handover
        epochs = losses[ends[row] - counts[row] : ends[row]].tolist()
        atlas.seeds[seed][way] = AtlasLeg(float(arrays["start"][row]), epochs, known)
    return atlas


def _described(body: dict[str, Any]) -> tuple[Atlas, list[str]]:
    """An atlas without legs, and the kinds of handovers, from the JSON text."""
    if body.get("schema") != SCHEMA:
        raise Wrong("schema", str(body.get("schema"))[:60], SCHEMA)
    words = [body.get(key) for key in ("scenario", "digest", "figure")]
    kinds, meta, pairs, start = (body.get(key) for key in ("kinds", "meta", "pairs", "start"))
    if not _all_words(words) or not isinstance(kinds, list) or not _all_words(kinds) or words[2] not in FIGURES:
        raise Wrong("json", "no such words", "scenario, digest, figure (loss or error) and kinds")
    if not isinstance(meta, dict) or not _all_words(meta.values()):
        raise Wrong("meta", type(meta).__name__, "a table of words")
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 and _all_words(p) for p in pairs):
        raise Wrong("pairs", type(pairs).__name__, "a list of version and nodes")
    atlas_pairs = tuple(Pair(*pair) for pair in pairs)
    if not 1 <= len(atlas_pairs) <= MOST_PAIRS or len(set(atlas_pairs)) < len(atlas_pairs):
        raise Wrong("pairs", f"{len(atlas_pairs)}", f"1 to {MOST_PAIRS}, each once")
    if type(start) is not int or not 0 <= start < len(atlas_pairs):
        raise Wrong("start", str(start)[:40], f"the index of one of {len(atlas_pairs)} pairs")
    return Atlas(body["scenario"], atlas_pairs, start, body["digest"], body["figure"], meta), kinds


def _all_words(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) and len(value) <= MOST_LETTERS for value in values)


def _key(row: list[int], pairs: int) -> LegKey:
    """Of a row: pair, then pair and epochs of every leg before, filled up with -1."""
    figures = row[: row.index(-1)] if -1 in row else row
    before = tuple(zip(figures[1::2], figures[2::2], strict=False))
    indexes = [pair for pair, _ in before] + figures[:1]
    whole = len(figures) % 2 == 1 and set(row[len(figures) :]) <= {-1}
    changes = all(one != two for one, two in pairwise(indexes))
    if (
        not whole
        or not changes
        or min(figures, default=-1) < 0
        or max(indexes) >= pairs
        or any(n < 1 for _, n in before)
    ):
        raise Wrong(
            "way", f"{row}"[:80], f"indexes of {pairs} pairs, each other than the one before, with epochs from 1"
        )
    return LegKey(before, figures[0])

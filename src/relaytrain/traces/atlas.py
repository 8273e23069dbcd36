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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core import npz
from ..core.errors import ScenarioError
from ..core.law import Array
from ..core.npz import Wrong
from ..core.problem import Pair
from ..store.files import read_named, write_atomic

SCHEMA = "relaytrain.atlas/1"
MOST_LEGS_BEFORE = 16
MOST_PAIRS, MOST_SEEDS, MOST_EPOCHS = 4096, 10_000, 1_000_000
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
                *(leg.handed.get(name, np.nan) for name in ("reached_ratio", "train_loss_before", "train_loss_after")),
            ]
            for _, _, leg in rows
        ]
        arrays = {
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


def legs_to(pairs: Sequence[int]) -> Iterator[tuple[LegKey, int]]:
    """For every epoch of a path (one pair an epoch): the leg it belongs to and its number there, from 1 on."""
    before: Way = ()
    for index, pair in enumerate(pairs):
        if index and pairs[index - 1] != pair:
            before = (*before, (pairs[index - 1], count))
        count = 1 if not index or pairs[index - 1] != pair else count + 1
        yield LegKey(before, pair), count


def read_atlas(path: str | Path) -> Atlas:
    """The atlas in a file, or the bundled one of that name.

    Raises:
        ScenarioError: no such file, or not one of ours.
    """
    place = Path(path)
    bundled = BUNDLED / f"{path}.npz"
    if not place.exists() and place.name == str(path) and bundled.exists():
        place = bundled
    try:
        raw = read_named(place, npz.MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(
            f"{path}: got '{reason}', expected an atlas; make one: relaytrain atlas SCENARIO {place.name}"
        ) from None
    try:
        return _read(raw)
    except Wrong as error:
        raise ScenarioError(f"{path}: {error}; `relaytrain atlas` writes no such file: record it again") from None


def _read(raw: bytes) -> Atlas:
    arrays = npz.read_arrays(raw)
    if "json" not in arrays:
        raise Wrong("json", "no such entry", "the text that goes with the arrays")
    body = npz.read_body(arrays.pop("json"))
    if body.get("schema") != SCHEMA:
        raise Wrong("schema", str(body.get("schema"))[:60], SCHEMA)
    try:
        pairs = tuple(Pair(str(version), str(nodes)) for version, nodes in body["pairs"])
        kinds = [str(kind) for kind in body["kinds"]]
        text = {key: str(body[key]) for key in ("scenario", "digest", "figure")}
        start, meta = int(body["start"]), dict(body["meta"])
    except (KeyError, TypeError, ValueError):
        raise Wrong("json", "keys missing or of another kind", "scenario, pairs, start, digest, figure") from None
    if not 1 <= len(pairs) <= MOST_PAIRS or not 0 <= start < len(pairs):
        raise Wrong("pairs", f"{len(pairs)}, start {start}", f"1 to {MOST_PAIRS} with the start among them")
    legs = len(_numbers(arrays, "leg_seed", "i"))
    ways = arrays.get("way", np.zeros(0))
    wide = ways.shape[1] if ways.ndim == 2 else 0
    if ways.dtype.kind != "i" or len(ways) != legs or wide % 2 != 1 or wide > 2 * MOST_LEGS_BEFORE + 1:
        raise Wrong("way", f"shape {ways.shape}", f"{legs} rows of pair and legs before")
    counts, losses = _numbers(arrays, "count", "i", legs), _numbers(arrays, "losses", "f")
    if legs and (counts.min() < 0 or counts.max() > MOST_EPOCHS or int(counts.sum()) != len(losses)):
        raise Wrong("count", f"{int(counts.sum())} epochs", f"{len(losses)}, as there are losses")
    starts, seeds = _numbers(arrays, "start", "f", legs), _numbers(arrays, "seeds", "i")
    if not np.isfinite(losses).all() or not np.isfinite(starts).all():
        raise Wrong("losses", "figures that are none", "finite ones")
    handed = arrays.get("handed", np.zeros(0))
    if handed.shape != (legs, 4) or handed.dtype.kind != "f" or not ((handed[:, 0] >= 0) & (handed[:, 0] < len(kinds))).all():
        raise Wrong("handed", f"shape {handed.shape}", f"{legs} rows of four, the first one of {len(kinds)} kinds")
    atlas = Atlas(text["scenario"], pairs, start, text["digest"], text["figure"], meta)
    atlas.seeds = {int(seed): {} for seed in seeds[:MOST_SEEDS]}
    ends = np.cumsum(counts)
    for row in range(legs):
        key = _key(ways[row], len(pairs))
        told = dict(zip(("reached_ratio", "train_loss_before", "train_loss_after"), handed[row, 1:], strict=True))
        known: dict[str, Any] = {name: float(figure) for name, figure in told.items() if np.isfinite(figure)}
        kind = kinds[int(handed[row, 0])]
        leg = AtlasLeg(
            float(starts[row]),
            losses[ends[row] - counts[row] : ends[row]].tolist(),
            {"kind": kind, **known} if kind else known,
        )
        atlas.seeds.setdefault(int(arrays["leg_seed"][row]), {})[key] = leg
    return atlas


def _key(row: np.ndarray[Any, Any], pairs: int) -> LegKey:
    figures = [int(figure) for figure in row if figure >= 0]
    before = tuple(zip(figures[1::2], figures[2::2], strict=False))
    if len(figures) % 2 != 1 or any(pair >= pairs for pair, _ in ((figures[0], 0), *before)):
        raise Wrong("way", f"{figures}", f"indexes of {pairs} pairs with their epochs")
    return LegKey(before, figures[0])


def _numbers(arrays: npz.Arrays, key: str, kind: str, length: int | None = None) -> Array:
    found = arrays.get(key, np.zeros((0, 0)))
    if found.ndim != 1 or found.dtype.kind != kind or (length is not None and len(found) != length):
        raise Wrong(key, f"shape {found.shape} of {found.dtype}", "a row of numbers, one for every leg")
    return found

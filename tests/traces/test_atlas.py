"""Atlases: what is written is read again to the bit, equal ones are equal bytes, and no damaged file is believed."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relaytrain.core import npz
from relaytrain.core.cost import CostTable
from relaytrain.core.errors import ScenarioError
from relaytrain.core.problem import Pair, Problem, Target
from relaytrain.estimators.learned.fitted import load_fitted
from relaytrain.traces.atlas import BUNDLED, Atlas, AtlasLeg, LegKey, read_atlas
from relaytrain.traces.atlas_scenario import best_fixed, digest_of, of_seed, same_training

GOLD, BRONZE = Pair("full", "gold"), Pair("small", "bronze")


def made() -> Atlas:
    """Two seeds: gold for four epochs, left for bronze after two or four."""
    atlas = Atlas("made", (GOLD, BRONZE), 0, "d" * 64, "loss", {"torch": "2"})
    handed = {"kind": "prune", "reached_ratio": 0.3, "train_loss_before": 1.0, "train_loss_after": 1.5}
    for seed, off in ((3, 0.0), (5, 1 / 3)):
        atlas.seeds[seed] = {
            LegKey((), 0): AtlasLeg(2.3, [2.0, 1.5, 1.2, 1.1 + off], {}),
            LegKey(((0, 2),), 1): AtlasLeg(1.9, [1.0, 0.7 + off], dict(handed)),
            LegKey(((0, 4),), 1): AtlasLeg(1.4, [0.6, math.pi / 10 + off], {"kind": "same"}),
        }
    return atlas


def test_an_atlas_comes_back_to_the_bit(tmp_path: Path):
    atlas = made()
    atlas.save(tmp_path / "a.npz")
    again = read_atlas(tmp_path / "a.npz")
    assert again == atlas and again.to_bytes() == atlas.to_bytes()
    assert again.epochs == 16 and again.leg(5, LegKey((), 0)).losses[3] == 1.1 + 1 / 3
    assert read_atlas_of(Atlas("none", (GOLD,), 0), tmp_path).seeds == {}


def read_atlas_of(atlas: Atlas, folder: Path) -> Atlas:
    atlas.save(folder / "other.npz")
    return read_atlas(folder / "other.npz")


def test_equal_atlases_are_equal_bytes_in_whatever_order_they_grew():
    whole, parts = made(), replace(made(), seeds={})
    for seed in (5, 3):
        for key in reversed(list(whole.seeds[seed])):
            parts.merge(replace(parts, seeds={seed: {key: whole.seeds[seed][key]}}))
    assert list(parts.seeds) != list(whole.seeds) and parts.to_bytes() == whole.to_bytes()
    short = AtlasLeg(2.3, [2.0], {})
    parts.merge(replace(parts, seeds={3: {LegKey((), 0): short}}))  # what is known longer stays
    assert parts.to_bytes() == whole.to_bytes()
    assert whole.only([5]).to_bytes() != whole.to_bytes()
    with pytest.raises(ScenarioError, match="other data, versions or training"):
        parts.merge(replace(whole, digest="e" * 64))


def spoiled(key: str, value: Any) -> bytes:
    """The file of `made` with one array, or one key of its text, replaced; None: left out."""
    with np.load(io.BytesIO(made().to_bytes())) as file:
        arrays = dict(file)
    body = json.loads(bytes(arrays.pop("json")))
    part = arrays if key in arrays or key == "more" else body
    part[key] = value(part[key]) if callable(value) else value
    if value is None:
        del part[key]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, json=np.frombuffer(json.dumps(body).encode(), np.uint8))
    return buffer.getvalue()


def _set(at: Any, value: float) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[at] = value
        return array

    return change


DAMAGE = [
    ("schema", "relaytrain.atlas/2"), ("schema", None), ("scenario", 7), ("scenario", "s" * 2000), ("digest", None),
    ("figure", "accuracy"), ("kinds", "prune"), ("kinds", [1]), ("kinds", []), ("meta", None),
    ("meta", {"a": math.nan}),
    ("pairs", []), ("pairs", "ab"), ("pairs", [["a"]]), ("pairs", [["a", "b"], ["a", "b"]]), ("pairs", [["a", "b"]]),
    ("start", 2), ("start", -1), ("start", 0.5), ("start", math.inf), ("start", True), ("start", None),
    ("seeds", None), ("seeds", lambda a: a[::-1]), ("seeds", lambda a: a[:1]), ("seeds", lambda a: -a[::-1]),
    ("seeds", lambda a: a.astype(np.int32)), ("seeds", lambda a: np.tile(a, 2)), ("more", np.zeros(3)),
    ("leg_seed", _set(0, 4)), ("leg_seed", _set(3, 3)), ("leg_seed", lambda a: a[:5]), ("leg_seed", lambda a: a[None]),
    ("way", _set((0, 0), 2)), ("way", _set((0, 0), -1)), ("way", _set((0, 1), 1)), ("way", _set((1, 2), 0)),
    ("way", _set((1, 1), 1)), ("way", _set((1, 2), -2)), ("way", lambda a: a[:, :2]), ("way", lambda a: a[:, :1]),
    ("way", lambda a: a.astype(np.float64)), ("way", lambda a: a.ravel()), ("way", lambda a: np.tile(a, (1, 41))),
    ("count", _set(0, -1)), ("count", _set(0, 5)), ("count", _set(0, 2**62)), ("count", lambda a: a.astype(np.uint8)),
    ("losses", _set(0, math.nan)), ("losses", _set(0, math.inf)), ("losses", lambda a: a[:-1]),
    ("losses", lambda a: a.astype(np.float32)), ("losses", lambda a: a[None]), ("losses", lambda a: a.astype(object)),
    ("handed", _set((0, 0), 9)), ("handed", _set((0, 0), 0.5)), ("handed", _set((0, 0), math.nan)),
    ("handed", lambda a: a[:, :3]), ("handed", None),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), DAMAGE, ids=lambda value: str(value)[:20])
def test_a_damaged_atlas_is_refused_by_name_and_key(key: str, value: Any, tmp_path: Path):
    path = tmp_path / "bad.npz"
    path.write_bytes(spoiled(key, value))
    with pytest.raises(ScenarioError, match=r"bad\.npz: .*got .*, expected .*record it again"):
        read_atlas(path)


def test_a_leg_that_starts_at_no_number_is_refused(tmp_path: Path):
    atlas = made()
    atlas.seeds[3][LegKey((), 0)].start = math.nan
    atlas.save(tmp_path / "bad.npz")
    with pytest.raises(ScenarioError, match="start: got some that are no numbers"):
        read_atlas(tmp_path / "bad.npz")


def test_cut_and_flipped_files_are_refused_or_read(tmp_path: Path):
    """A flipped bit that a checksum does not cover may leave a file that reads; nothing else may come of it."""
    good, chance, path = made().to_bytes(), np.random.default_rng(1), tmp_path / "bad.npz"
    for cut in chance.integers(0, len(good), 20):
        path.write_bytes(good[:cut])
        with pytest.raises(ScenarioError, match="expected"):
            read_atlas(path)
    refused = 0
    for at in chance.integers(0, len(good), 100):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x41]) + good[at + 1 :])
        try:
            read_atlas(path)
        except ScenarioError as error:
            refused += 1
            assert re.match(r".*bad\.npz: ", str(error))
    assert refused > 50


def test_an_atlas_that_is_too_large_is_not_called_damaged(tmp_path: Path):
    with (tmp_path / "large.npz").open("wb") as file:
        file.truncate(npz.MOST_BYTES + 1)
    with pytest.raises(ScenarioError, match=r"large\.npz: got more than 64 MiB, expected an atlas; record one"):
        read_atlas(tmp_path / "large.npz")
    with pytest.raises(ScenarioError, match=r"large\.npz: got more than 64 MiB, expected a fitted estimator; make one"):
        load_fitted(tmp_path / "large.npz")


def test_a_file_that_is_none_says_how_to_make_one(tmp_path: Path):
    with pytest.raises(ScenarioError, match=r"got 'No such file.*relaytrain atlas SCENARIO gone\.npz"):
        read_atlas(tmp_path / "gone.npz")
    with pytest.raises(ScenarioError, match="no regular file"):
        read_atlas(tmp_path)
    (tmp_path / "fit.npz").write_bytes(npz.write_arrays({"schema": "relaytrain.fitted/3"}, {}))
    with pytest.raises(ScenarioError, match=r"got relaytrain\.fitted/3, expected relaytrain\.atlas/1"):
        read_atlas(tmp_path / "fit.npz")


COSTS = CostTable(
    np.array([1.0, 5.0]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 10.0]), np.array([[0.0, 2.0], [2.0, 0.0]])
)


def problem(loss: float, deadline_s: float = math.inf, max_epochs: int | None = None) -> Problem:
    return Problem("made", (GOLD, BRONZE), 0, 2.3, Target(loss, deadline_s), max_epochs=max_epochs)


def test_the_best_fixed_schedule_is_the_one_found_by_hand():
    """Seed 3 is at 0.70 after gold x2, bronze x2 (24 J, 13 s); both are at 0.7 or below after gold x4, bronze x1."""
    atlas = made()
    found = best_fixed(atlas, COSTS, problem(0.7))
    assert (found.before, found.last, found.met, found.energy_j, found.elapsed_s) == (((0, 4),), 1, 2, 16.0, 10.0)
    alone = best_fixed(atlas.only([3]), COSTS, problem(1.0))
    assert (alone.before, alone.energy_j) == (((0, 2),), 14.0)
    assert best_fixed(atlas, COSTS, problem(1.2)).before == ()  # gold gets there itself, three epochs
    assert best_fixed(atlas, COSTS, problem(0.7, 9.9)) is None or best_fixed(atlas, COSTS, problem(0.7, 9.9)).met < 2
    assert best_fixed(atlas, COSTS, problem(0.7, max_epochs=3)) is None
    assert (
        best_fixed(atlas, COSTS, problem(0.1)) is None
        and best_fixed(replace(atlas, seeds={}), COSTS, problem(9)) is None
    )


def test_a_digest_stands_for_the_training_and_not_for_seed_costs_or_target():
    from relaytrain.scenario import load_scenario

    def digest(*overrides: str) -> str:
        return digest_of(load_scenario("quickstart", overrides=overrides))

    same = digest()
    assert digest("target.loss=0.3", "target.deadline=5m", "costs.compress_energy=2") == same
    assert digest("world.bias=0.3", "world.random.slack_factor=2") == same  # of simulations alone
    assert digest_of(of_seed(load_scenario("quickstart"), 7)) == same
    assert of_seed(load_scenario("quickstart"), 7).resolved["data"]["seed"] == 7
    assert len({same, digest("training.lr=0.01"), digest("data.standardise=false"), digest("target.on=test")}) == 4
    assert digest("training.precision=float32") == same != digest("training.precision=bf16")
    own = ("world.bias=0.3", "world.random.slack_factor=2")
    old = replace(made(), digest="4d7d8e8bfc911c950a2e1ae420556b64bda08968f88c41e3af970aaf13d2b7e5")
    assert same_training(old, load_scenario("quickstart", own))  # recorded when the world of simulations counted
    assert not same_training(old, load_scenario("quickstart", [*own, "training.lr=0.01"]))
    for name in ("quickstart", "fashion", "deeper"):  # recorded before some keys existed
        assert read_atlas(BUNDLED / f"{name}.npz").digest == digest_of(load_scenario(name))

"""Fitted estimators from outside: torch's numbers without torch, honest bands, files that survive."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from relaytrain.core.errors import ScenarioError
from relaytrain.estimators.judging.metrics import score
from relaytrain.estimators.learned.features import windows
from relaytrain.estimators.learned.fit import fit
from relaytrain.estimators.learned.fitted import load_fitted
from relaytrain.estimators.learned.zero_trace import zero_trace

pytestmark = [pytest.mark.train, pytest.mark.slow]


def test_networks_give_torchs_numbers_without_torch(campaign, auto):
    import torch

    from relaytrain.estimators.learned.paper import WIDTHS, RunNet, _tensors

    rows = windows(campaign.curves, least=0, with_start=True)
    for net in auto.run.nets:
        twin = RunNet(WIDTHS, net.weights["lstm.weight_ih_l0"].shape[1])
        twin.load_state_dict({name: torch.tensor(value, dtype=torch.float32) for name, value in net.weights.items()})
        with torch.no_grad():
            found = twin(*_tensors(rows, rows.target, net.scales)[:-1]).numpy() * np.array(net.scales.target_sd)
        if net.scales.relative:
            found = found * rows.seen.loss[:, None, None]
        mine = net.bands(rows.seen)
        middle = (found[:, 1] + found[:, 2]) / 2
        assert np.abs(mine.low - np.minimum(found[:, 1], middle)).max() < 1e-6
        assert np.abs(mine.high - np.maximum(found[:, 2], middle)).max() < 1e-6


def test_learned_bands_beat_a_constant_and_cover(campaign, auto, paper):
    rows, led = windows(campaign.curves), windows(campaign.curves, with_start=True)
    naive = np.abs(rows.target - np.median(rows.target, axis=0)).mean()
    for made, seen in ((auto, led.seen), (paper, rows.seen)):
        found = score(rows.target, made.run.bands(seen))
        assert found.mae < 0.6 * naive and found.icp > 0.8


def test_zero_trace_is_honest_on_curves_it_has_never_seen(campaign):
    rows = windows(campaign.curves, with_start=True)
    assert score(rows.target, zero_trace().run.bands(rows.seen)).icp >= 0.9


def test_a_file_gives_back_the_same_numbers_and_bytes(tmp_path, campaign, auto):
    path = auto.save(tmp_path / "fit.npz")
    again = load_fitted(path)
    seen = windows(campaign.curves, with_start=True).seen
    assert np.array_equal(again.run.bands(seen).high, auto.run.bands(seen).high)
    rows = again.change.rows(campaign.switches)
    assert np.array_equal(again.change.bands(rows).low, auto.change.bands(rows).low)
    assert again.save(tmp_path / "again.npz").read_bytes() == path.read_bytes()
    assert again.digest and dict(again.about) == dict(auto.about)


def test_files_that_are_none_of_ours_are_refused(tmp_path, auto):
    path = auto.save(tmp_path / "fit.npz")
    whole = path.read_bytes()
    bad = tmp_path / "bad.npz"
    for content in (b"", b"no zip", whole[: len(whole) // 2]):
        bad.write_bytes(content)
        with pytest.raises(ScenarioError, match="relaytrain fit"):
            load_fitted(bad)
    with np.load(path) as arrays:
        kept = dict(arrays)
    body = json.loads(bytes(kept["json"]))
    changes = [{"schema": "other/9"}, {"run": {}}, {"metric": "bits"}]
    for change in changes:
        text = json.dumps({**body, **change}).encode()
        np.savez(bad, **{**kept, "json": np.frombuffer(text, np.uint8)})
        with pytest.raises(ScenarioError, match="fit again"):
            load_fitted(bad)
    np.savez(bad, **{**kept, "net0.out.bias": kept["net0.out.bias"] * np.nan})
    with pytest.raises(ScenarioError, match="fit again"):
        load_fitted(bad)
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("json.npy", b"\0" * (65 << 20))
    with pytest.raises(ScenarioError, match="MiB"):
        load_fitted(bad)
    with pytest.raises(ScenarioError, match="relaytrain fit TRACES"):
        load_fitted(tmp_path / "none.npz")


def test_too_few_epochs_to_learn_from_are_refused(campaign):
    few = campaign.only([i < 1 for i in range(len(campaign.curves))], [False] * len(campaign.switches))
    with pytest.raises(ScenarioError, match="collect more"):
        fit(few)


def test_kinds_of_switches_never_seen_stay_within_reason(campaign, auto):
    """A change model that saw one kind of handover alone is asked about another."""
    from dataclasses import replace

    seen = auto.change.bands(auto.change.rows(campaign.switches))
    other = [replace(switch, kind="distill", ratio=0.0) for switch in campaign.switches]
    found = auto.change.bands(auto.change.rows(other))
    assert np.abs(found.mean).max() < 5.0 * np.abs(seen.mean).max()
    assert (found.high - found.low).max() < 5.0 * (seen.high - seen.low).max()


def test_stages_that_nothing_was_learned_of_are_covered_by_the_shipped_bands_too(tmp_path, campaign):
    """A campaign without a trajectory from scratch: there, bands reach round the zero-trace estimator's; elsewhere
    not."""
    later = campaign.only([c.stage > 0 for c in campaign.curves], [True] * len(campaign.switches))
    made = load_fitted(fit(later, epochs=2).save(tmp_path / "fit.npz")).run
    assert made.unknown == (0,) and fit(campaign, epochs=1).run.unknown == ()
    seen = windows(campaign.curves, with_start=True).seen
    found, known = made.bands(seen), replace(made, unknown=()).bands(seen)
    shipped, first = zero_trace().run.bands(seen), seen.stage == 0
    assert np.allclose(found.low[first], np.minimum(known.low, shipped.low)[first], atol=1e-6)
    assert np.allclose(found.high[first], np.maximum(known.high, shipped.high)[first], atol=1e-6)
    assert np.array_equal(found.mean[~first], known.mean[~first]) and np.array_equal(
        found.high[~first], known.high[~first]
    )

"""`relaytrain pipeline plan`: the words around the search."""

from __future__ import annotations

import json

import pytest

TINY = ("pipeline", "plan", "vgg11", "--width", "0.1", "--input", "3x16x16", "--batch", "4")
PAIR = ("--device", "pi, 1 GFLOP/s, 4 MiB, 10 Mbit/s", "--device", "nuc,4 GFLOP/s")


@pytest.mark.train
def test_text_and_json_agree(relaytrain):
    pytest.importorskip("torch")
    text = relaytrain(*TINY, *PAIR)
    assert text.status == 0 and text.err == ""
    assert "pi " in text.out and "F0 F1" in text.out and "best-of" in text.out
    found = json.loads(relaytrain(*TINY, *PAIR, "--format", "json").out)
    assert found["schema"] == "relaytrain.pipeline-plan/1" and [s["device"] for s in found["stages"]] == ["pi", "nuc"]
    assert found["stages"][0]["total_bytes"] <= 4 * 2**20
    assert found["step_s"] == max(max(s["compute_s"], s["link_s"]) for s in found["stages"])
    assert found["stages"][0]["first"] == 0 and found["stages"][1]["end"] == len(found["units"]) == 10
    for key in ("weights", "versions", "optimizer", "in_flight", "transient"):
        assert all(stage[f"{key}_bytes"] >= 0 for stage in found["stages"])
    tight = ("--device", "pi, 1 GFLOP/s, 150 kB, 10 Mbit/s", "--device", "nuc,4 GFLOP/s")
    plain, twice = (json.loads(relaytrain(*TINY, *tight, *x, "--format", "json").out) for x in ((), ("--checkpoint",)))
    assert twice["stages"][0]["checkpoint"] and not plain["stages"][0]["checkpoint"]
    assert twice["stages"][0]["end"] > plain["stages"][0]["end"]
    adam = json.loads(relaytrain(*TINY, *PAIR, "--optimizer", "adam", "--format", "json").out)
    assert adam["stages"][1]["optimizer_bytes"] > 0


@pytest.mark.train
def test_what_does_not_fit_says_what_would(relaytrain):
    pytest.importorskip("torch")
    three = relaytrain("pipeline", "plan", "--keep", "stash")
    assert three.status == 4 and "no split of 16 units fits one 80 MiB" in three.err and "what fits: " in three.err
    nothing = relaytrain(*TINY, "--device", "pi, 1 GFLOP/s, 1 kB", "--device", "nuc, 1 GFLOP/s, 1 kB")
    assert nothing.status == 4 and "what fits" not in nothing.err


@pytest.mark.train
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--device", "pi"), 2, "--device: got 'pi', expected a name"),
        (("--device", "pi, fast"), 2, "--device pi: got 'fast', expected a speed"),
        (("--device", "pi, 1 GFLOP/s, 4 kg"), 2, "expected a size"),
        ((*PAIR, *PAIR), 2, "a name of its own"),
        (("--device", "pi, 0 GFLOP/s"), 2, "device pi: flops: got 0"),
        (("--input", "3x32"), 2, "--input: got '3x32'"),
        (("--window", "wide"), 2, "--window: got 'wide', expected one of uniform, 1f1b"),
        (("--keep", "all"), 2, "expected one of stash, on-demand, best-of"),
        (("--batch", "0"), 2, "batch: got 0"),
        (("--in-flight", "0"), 2, "m: got 0"),
        (("--optimizer", "lamb"), 2, "expected one of sgd, momentum, adam"),
        (("--width", "0"), 3, "width: got 0"),
    ],
)
def test_faults_are_words(relaytrain, words, status, said):
    pytest.importorskip("torch")
    call = relaytrain(*TINY, *words)
    assert (call.status, call.out) == (status, "") and said in call.err


@pytest.mark.train
def test_an_unknown_network(relaytrain):
    pytest.importorskip("torch")
    call = relaytrain("pipeline", "plan", "vgg99")
    assert call.status == 3 and "vgg16" in call.err


def test_help_and_no_torch(relaytrain, monkeypatch):
    call = relaytrain("pipeline", "plan", "--help")
    assert call.status == 0 and "--device" in call.out and "Examples:" in call.out
    monkeypatch.setattr("relaytrain.core.errors.find_spec", lambda name: None)
    assert "pip install" in relaytrain("pipeline", "plan").err

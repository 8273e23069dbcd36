"""Traces that are wrong: every one is refused with the file, mostly the line, what was got and what is expected."""

from __future__ import annotations

import gzip
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from path_columns import column

from relaytrain.core.errors import ScenarioError
from relaytrain.traces import read_traces

META = '{"format": 1, "loss": "cross-entropy, nats", "preset": "small"}'
EPOCHS = """\
seed,run,parent,stage,k,k_stage,node_set,classes,samples,pruned_fraction,train_loss,test_loss,test_accuracy
0,0,,0,1,1,gold,7,2700,0,1.9,1.6,0.38
0,0,,0,2,2,gold,7,2700,0,1.5,1.7,0.34
0,0,,0,3,3,gold,7,2700,0,1.4,1.5,0.47
0,1,0,1,3,1,silver,9,300,0.5,2.7,3.1,0.16
0,1,0,1,4,2,silver,9,300,0.5,2.1,2.3,0.24
0,2,1,2,4,1,silver,9,300,0.75,2.9,3.3,0.15
"""
SWITCHES = """\
seed,run,parent,k,kind,ratio_of_current,from_node_set,to_node_set,train_loss_before,test_loss_before,train_loss_after,test_loss_after,parameters_before,parameters_after
0,1,0,2,prune,0.5,gold,silver,3.1,3.0,3.4,3.3,150058,73999
0,2,1,3,prune,0.5,silver,silver,2.0,2.1,2.2,2.2,73999,35176
"""
FILES = {"meta.json": META, "epochs.csv": EPOCHS, "switches.csv": SWITCHES}


def _swap(name: str, old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        assert old.encode() in files[name], old
        files[name] = files[name].replace(old.encode(), new.encode(), 1)

    return change


def _put(name: str, data: bytes | None) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        if data is None:
            del files[name]
        else:
            files[name] = data

    return change


def _packed(cut: int, extra: bytes = b"") -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        whole = gzip.compress(files.pop("epochs.csv"))
        files["epochs.csv.gz"] = whole[: len(whole) - cut] + extra

    return change


E, S, M = "epochs.csv", "switches.csv", "meta.json"
CASES: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "no meta": (_put(M, None), r"meta.json: got no such file"),
    "no epochs": (_put(E, None), r"epochs.csv: got no such file"),
    "no switches": (_put(S, None), r"switches.csv: got no such file"),
    "meta empty": (_put(M, b""), r"meta.json:1: .*expected valid JSON"),
    "meta a list": (_put(M, b"[1]"), r"meta.json:1: .*expected a table"),
    "meta key twice": (_put(M, b'{"format": 1, "format": 1}'), r"meta.json:1: .*twice"),
    "meta NaN": (_put(M, b'{"format": NaN}'), r"meta.json:1: got NaN"),
    "meta deep": (_put(M, b'{"a":' * 5000 + b"1" + b"}" * 5000), r"nested too deep"),
    "meta latin-1": (_put(M, b'{"format": 1, "data": "caf\xe9"}'), r"meta.json:1: got a byte that is not UTF-8"),
    "no format": (_put(M, b"{}"), r"format: got nothing, expected \"format\": 1"),
    "format 2": (_put(M, b'{"format": 2}'), r"format: got 2, expected 1"),
    "format true": (_put(M, b'{"format": true}'), r"format: got true"),
    "format text": (_put(M, b'{"format": "1"}'), r"format: got '1'"),
    "bits": (_swap(M, "nats", "bits"), r"expected nats; multiply losses by ln 2"),
    "change target": (_put(M, b'{"format": 1, "change_target": "both"}'), r"expected jump or first-epoch"),
    "preset a path": (_swap(M, "small", "../x"), r"preset: got '../x'"),
    "preset a number": (_swap(M, '"small"', "7"), r"preset: got 7, expected a text"),
    "epochs empty": (_put(E, b""), r"epochs.csv:1: got an empty file"),
    "epochs header alone": (_put(E, EPOCHS.splitlines()[0].encode()), r"epochs.csv:1: got no rows"),
    "missing column": (_swap(E, ",test_accuracy", ""), r"epochs.csv:1: got no column test_accuracy"),
    "extra column": (_swap(E, ",test_accuracy", ",test_accuracy,joules"),
                     r"epochs.csv:1: got an unknown column 'joules'"),
    "columns swapped": (_swap(E, "k,k_stage", "k_stage,k"), r"epochs.csv:1: .*another order"),
    "column twice": (_swap(E, ",stage,", ",run,"), r"epochs.csv:1: got no column stage"),
    "semicolons": (_put(E, EPOCHS.replace(",", ";").encode()), r"epochs.csv:1: .*separated by commas"),
    "no header": (_put(E, b"\n".join(EPOCHS.encode().splitlines()[1:])), r"epochs.csv:1: got no column seed"),
    "switches missing column": (_swap(S, ",parameters_after", ""), r"switches.csv:1: got no column parameters_after"),
    "switches extra column": (_swap(S, "parameters_after", "parameters_after,x"),
                              r"switches.csv:1: got an unknown column 'x'"),
    "decimal comma": (_swap(E, "1.9,1.6", "1,9,1.6"),
                      r"epochs.csv:2: got 14 cells, expected 13; decimals take a point"),
    "cut row": (_put(E, EPOCHS[:-20].encode()), r"epochs.csv:7: got \d+ cells, expected 13"),
    "blank line": (_swap(E, "0.38\n", "0.38\n\n"), r"epochs.csv:3: got 0 cells"),
    "open quote": (_swap(E, "gold", '"gold'), r"epochs.csv:\d+: .*no CSV"),
    "NUL": (_swap(E, "gold", "go\0ld"), r"epochs.csv:2: got a control character"),
    "loss NaN": (_swap(E, "1.9,1.6", "nan,1.6"), r"epochs.csv:2: train_loss: got 'nan'"),
    "loss inf": (_swap(E, "1.9,1.6", "inf,1.6"), r"epochs.csv:2: train_loss: got 'inf'"),
    "loss negative": (_swap(E, "1.9,1.6", "-1.9,1.6"), r"epochs.csv:2: train_loss: got '-1.9'"),
    "loss huge": (_swap(E, "1.9,1.6", "1e300,1.6"), r"epochs.csv:2: train_loss: got '1e300'"),
    "loss empty": (_swap(E, "1.9,1.6", ",1.6"), r"epochs.csv:2: train_loss: got ''"),
    "loss with unit": (_swap(E, "1.9,1.6", "1.9nats,1.6"), r"epochs.csv:2: train_loss: .*no unit"),
    "loss underscored": (_swap(E, "1.9,1.6", "1_9,1.6"), r"epochs.csv:2: train_loss: got '1_9'"),
    "loss with space": (_swap(E, "1.9,1.6", " 1.9,1.6"), r"epochs.csv:2: train_loss: got ' 1.9'"),
    "loss in other digits": (_swap(E, "1.9,1.6", "\u0661,1.6"), r"epochs.csv:2: train_loss"),
    "test loss a formula": (_swap(E, "1.6", "=1+1"), r"epochs.csv:2: test_loss: got '=1\+1'"),
    "accuracy in percent": (_swap(E, "0.38", "38"),
                            r"epochs.csv:2: test_accuracy: got '38', expected a number from 0 to 1"),
    "pruned all": (_swap(E, "0.75,2.9", "1,2.9"), r"epochs.csv:7: pruned_fraction: got '1'"),
    "seed negative": (_swap(E, "0,0,,0,1,1", "-1,0,,0,1,1"), r"epochs.csv:2: seed: got '-1'"),
    "run a fraction": (_swap(E, "0,0,,0,1,1", "0,0.5,,0,1,1"), r"epochs.csv:2: run: got '0.5'"),
    "seed enormous": (_swap(E, "0,0,,0,1,1", "9" * 5000 + ",0,,0,1,1"), r"epochs.csv:2: seed"),
    "no samples": (_swap(E, "7,2700", "7,0"), r"epochs.csv:2: samples: got '0', expected a whole number from 1"),
    "no classes": (_swap(E, "7,2700", "0,2700"), r"epochs.csv:2: classes: got '0'"),
    "node set a formula": (_put(E, EPOCHS.replace("gold", "=cmd()").encode()),
                           r"epochs.csv:2: node_set: got '=cmd\(\)'"),
    "node set a path": (_put(E, EPOCHS.replace("gold", "../gold").encode()), r"epochs.csv:2: node_set"),
    "k repeated": (_swap(E, "0,0,,0,2,2", "0,0,,0,1,2"), r"epochs.csv:3: k: got '1', expected 2"),
    "k with a gap": (_swap(E, "0,0,,0,2,2", "0,0,,0,5,2"), r"epochs.csv:3: k: got '5', expected 2"),
    "k descends": (_swap(E, "0,0,,0,3,3", "0,0,,0,1,3"), r"epochs.csv:4: k: got '1', expected 3"),
    "k from 0": (_swap(E, "0,0,,0,1,1", "0,0,,0,0,1"), r"epochs.csv:2: k: got '0'"),
    "root starts late": (_put(E, re.sub(r"0,0,,0,(\d)", lambda m: f"0,0,,0,{int(m[1]) + 1}", EPOCHS).encode()),
                         r"epochs.csv:2: k: got 2, expected 1"),
    "k_stage wrong": (_swap(E, "4,2,silver", "4,3,silver"), r"epochs.csv:6: k_stage: got '3', expected 2"),
    "run in two pieces": (_put(E, (EPOCHS + "0,0,,0,4,4,gold,7,2700,0,1.4,1.5,0.47\n").encode()),
                          r"epochs.csv:8: run: got run 0 of seed 0 again"),
    "samples change": (_swap(E, "2,2,gold,7,2700", "2,2,gold,7,2701"),
                       r"epochs.csv:3: samples: got '2701', expected 2700"),
    "node set changes": (_swap(E, "2,2,gold", "2,2,bronze"), r"epochs.csv:3: node_set: got 'bronze', expected 'gold'"),
    "parent unknown": (_put(E, EPOCHS.replace("0,2,1,2", "0,2,9,2").encode()), r"epochs.csv:7: parent: got 9"),
    "parent itself": (_put(E, EPOCHS.replace("0,2,1,2", "0,2,2,2").encode()), r"epochs.csv:7: parent: got 2"),
    "stage jumps": (_put(E, EPOCHS.replace("0,2,1,2", "0,2,1,3").encode()), r"epochs.csv:7: stage: got 3, expected 2"),
    "root of stage 1": (_put(E, EPOCHS.replace("0,0,,0", "0,0,,1").encode()),
                        r"epochs.csv:2: stage: got 1, expected 0"),
    "branch too late": (_swap(E, "0,2,1,2,4,1", "0,2,1,2,5,1"), r"epochs.csv:7: k: got 5, expected 4"),
    "switch missing": (_put(S, SWITCHES[: SWITCHES.index("0,2,1")].encode()),
                       r"epochs.csv:7: run: got run 2 of seed 0 with a parent"),
    "switch twice": (_put(S, (SWITCHES + SWITCHES.splitlines()[2]).encode()),
                     r"switches.csv:4: run: got run 2 of seed 0 twice"),
    "switch of nobody": (_put(S, (SWITCHES + SWITCHES.splitlines()[2].replace("0,2,", "0,7,", 1)).encode()),
                         r"switches.csv:4: run: got run 7"),
    "switch of a root": (_put(S, (SWITCHES + SWITCHES.splitlines()[2].replace("0,2,", "0,0,", 1)).encode()),
                         r"switches.csv:4: run: got a switch of run 0"),
    "switch of another parent": (_swap(S, "0,2,1,3", "0,2,0,3"), r"switches.csv:3: parent: got 0, expected 1"),
    "switch beyond the parent": (_swap(S, "0,2,1,3", "0,2,1,9"),
                                 r"switches.csv:3: k: got 9, expected an epoch of run 1: 3 to 4"),
    "switch before the parent": (_swap(S, "0,2,1,3", "0,2,1,2"), r"switches.csv:3: k: got 2"),
    "kind unknown": (_swap(S, "prune", "grow"), r"switches.csv:2: kind: got 'grow', expected one of same, prune"),
    "prune of nothing": (_swap(S, "prune,0.5", "prune,0"), r"switches.csv:2: ratio_of_current: got '0'"),
    "prune in percent": (_swap(S, "prune,0.5", "prune,50"), r"switches.csv:2: ratio_of_current: got '50'"),
    "same with a ratio": (_swap(S, "prune,0.5", "same,0.5"), r"switches.csv:2: ratio_of_current"),
    "same on the same nodes": (_swap(S, "prune,0.5,silver", "same,0,silver"), r"switches.csv:3: to_node_set"),
    "pruned and larger": (_swap(S, "150058,73999", "150058,150059"), r"switches.csv:2: parameters_after: got '150059'"),
    "no parameters": (_swap(S, "150058,73999", "0,0"), r"switches.csv:2: parameters_before: got '0'"),
    "from another set": (_swap(S, "gold,silver", "bronze,silver"),
                         r"switches.csv:2: from_node_set: got bronze, expected gold"),
    "to another set": (_swap(S, "gold,silver", "gold,bronze"),
                       r"switches.csv:2: to_node_set: got bronze, expected silver"),
    "probe NaN": (_swap(S, "3.1,3.0", "3.1,NaN"), r"switches.csv:2: test_loss_before: got 'NaN'"),
    "gzip cut": (_packed(9), r"epochs.csv.gz: got a gzip that ends early"),
    "gzip with a tail": (_packed(0, b"more"), r"epochs.csv.gz: got bytes after the end"),
    "no gzip at all": (_put("epochs.csv.gz", b"plain"), r"epochs.csv.gz: got epochs.csv beside it"),
    "gzip of nothing": (_packed(10**6), r"epochs.csv.gz: got a gzip that ends early"),
}  # fmt: skip


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def _files() -> dict[str, bytes]:
    return {name: text.encode() for name, text in FILES.items()}


def test_the_untouched_texts_are_accepted(tmp_path: Path):
    assert len(read_traces(_write(tmp_path, _files())).segments) == 3


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_refused(case: str, tmp_path: Path):
    change, message = CASES[case]
    files = _files()
    change(files)
    with pytest.raises(ScenarioError, match=message) as caught:
        read_traces(_write(tmp_path, files))
    assert caught.value.exit_status == 3
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path: Path):
    files = _files()
    row = b"0,0,,0,1,1,gold,7,2700,0,1.9,1.6,0.38\n"
    del files["epochs.csv"]
    files["epochs.csv.gz"] = gzip.compress(row * 2_000_000, 1)
    with pytest.raises(ScenarioError, match=r"more than 64 MiB"):
        read_traces(_write(tmp_path, files))


def test_what_is_no_file_is_refused(tmp_path: Path):
    _write(tmp_path, _files())
    (tmp_path / "epochs.csv").unlink()
    os.mkfifo(tmp_path / "epochs.csv")
    with pytest.raises(ScenarioError, match="no regular file"):
        read_traces(tmp_path)
    for wrong in (tmp_path / "none", tmp_path / "meta.json", "a\0b"):
        with pytest.raises(ScenarioError, match="no such folder"):
            read_traces(wrong)


MUTATIONS = 500 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 200


def test_mutated_traces_are_read_or_refused_never_worse(tmp_path: Path):
    """Bytes dropped, doubled, overwritten or exchanged at random: a `ScenarioError` or a consistent tree."""
    rng = random.Random(7)
    refused = 0
    for _ in range(MUTATIONS):
        files = _files()
        name = rng.choice(sorted(files))
        data = bytearray(files[name])
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            action = rng.randrange(4)
            if action == 0:
                del data[at : at + rng.randint(1, 30)]
            elif action == 1:
                data[at:at] = data[at : at + rng.randint(1, 30)]
            elif action == 2:
                data[at] = rng.choice(b'0123456789,.-e\n"\x00\xff{}=a')
            else:
                data[at : at + 1] = rng.choice([b"", b"nan", b"1e9", b"\r", b",,", b"\xc3\xa9"])
            if not data:
                break
        files[name] = bytes(data)
        try:
            traces = read_traces(_write(tmp_path, files))
        except ScenarioError:
            refused += 1
        else:
            assert all(column(path, "k") == list(range(1, sum(path.lengths) + 1)) for path in traces.paths())
    assert refused > MUTATIONS // 2

"""Parts of snapshots, of any origin: whatever is no part is damage in words, and a snapshot of it does not count."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from relaytrain.core.errors import StoreDamaged, UsageError  # noqa: E402
from relaytrain.pipeline.job_writer import start_content, write_start  # noqa: E402
from relaytrain.pipeline.pipeline_work import PipelineWork, Runtime, Training  # noqa: E402
from relaytrain.pipeline.snapshots import (  # noqa: E402
    STEPS,
    SnapshotContent,
    names_held,
    newest,
    part_pieces,
    place,
    read,
    write_part,
)
from relaytrain.pipeline.update_rules import SGD, OptimizerState  # noqa: E402

pytestmark = pytest.mark.train
NAME = "0.weight"
WHOLE = SnapshotContent({NAME: torch.arange(4.0)}, {NAME: OptimizerState(3, (torch.ones(4),))})


def crafted(change):
    """The bytes of a whole part with another header."""
    data = b"".join(map(bytes, part_pieces(WHOLE)))
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = change(header)
    text = json.dumps(header).encode() if text is None else text
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def renamed(name):
    def change(header):
        header[name] = header.pop(f"w:{NAME}")

    return change


def entry(**values):
    return lambda header: header[f"w:{NAME}"].update(values)


def counted(steps):
    return lambda header: header["__metadata__"].update({STEPS: steps})


HOSTILE = {
    "a tensor without a name": renamed(""),
    "a name alone": renamed("w:"),
    "a kind that is empty": renamed(f":{NAME}"),
    "a kind that is none": renamed(f"x:{NAME}"),
    "a state without a number": renamed(f"s:{NAME}"),
    "a unit that is none": renamed("w:first.weight"),
    "before the file": entry(data_offsets=[-1000000, -1000000 + 16]),
    "beyond the file": entry(data_offsets=[2**62, 2**62 + 16]),
    "places that are fractions": entry(data_offsets=[0.5, 16.5]),
    "a place that is missing": entry(data_offsets=[0]),
    "a shape below nothing": entry(shape=[-4]),
    "a shape beyond everything": entry(shape=[2**40, 2**40]),
    "a shape beyond numbers": entry(shape=[10**30]),
    "metadata that are a list": lambda header: header.update({"__metadata__": [1, 2]}),
    "a header without end": lambda header: b"[" * 100_000,
    "updates that are a word": counted(json.dumps({NAME: "x"})),
    "updates below none": counted(json.dumps({NAME: -1})),
    "updates beyond count": counted(json.dumps({NAME: 10**400})),
    "updates of nothing": counted(json.dumps({"": 1})),
    "updates that are a list": counted("[1]"),
    "updates without end": counted("[" * 100_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_part_that_is_none_is_damage_in_words(tmp_path, name):
    (tmp_path / "000-1.safetensors").write_bytes(crafted(HOSTILE[name]))
    with pytest.raises(StoreDamaged, match=r"000-1\.safetensors: .*remove it and run again"):
        read(tmp_path)


def test_a_snapshot_with_a_damaged_part_does_not_count(tmp_path):
    for step in (2, 5):
        write_part(place(tmp_path, step, 1), "000-1", WHOLE)
    assert newest(tmp_path, {NAME}) == (5, place(tmp_path, 5, 1))
    (place(tmp_path, 5, 1) / "000-1.safetensors").write_bytes(crafted(renamed("")))
    assert names_held(place(tmp_path, 5, 1)) == set()
    assert newest(tmp_path, {NAME}) == (2, place(tmp_path, 2, 1))


def test_a_start_is_written_anew_until_something_was_trained_from_it(tmp_path):
    one, other = (_work(value) for value in (1.0, 2.0))
    write_start(one, tmp_path)
    write_start(other, tmp_path)
    assert torch.equal(read(place(tmp_path, 0, 0)).weights["0.0.weight"], torch.full((2, 3), 2.0))
    write_part(place(tmp_path, 4, 1), "000-1", start_content(one))
    write_start(other, tmp_path)
    step, kept = newest(tmp_path, {"0.0.weight", "0.0.bias"})
    assert step == 4 and torch.equal(read(kept).weights["0.0.weight"], torch.full((2, 3), 1.0))


def test_an_interface_that_others_reach_is_refused_before_anything_is_written(tmp_path):
    folder = tmp_path / "snaps"
    with pytest.raises(UsageError, match="bind: got 0"):
        _work(1.0, Runtime(bind="0.0.0.0", folder=folder))
    assert not folder.exists()


def _work(value, runtime=None):
    """A layer whose weights are all `value`."""
    layer = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(layer.weight, value)
    batches = [(torch.ones(2, 3), torch.zeros(2, dtype=torch.int64))]
    return PipelineWork.of(torch.nn.Sequential(layer), batches, Training(SGD(0.1)), runtime or Runtime())


def test_what_is_written_is_read(tmp_path):
    write_part(tmp_path, "000-1", WHOLE)
    content = read(tmp_path)
    assert torch.equal(content.weights[NAME], WHOLE.weights[NAME])
    assert content.states[NAME].steps == 3 and torch.equal(content.states[NAME].tensors[0], torch.ones(4))

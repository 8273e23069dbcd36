"""Parts of snapshots, of any origin: whatever is no part is damage in words, and a snapshot of it does not count."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from relaytrain.core.errors import StoreDamaged  # noqa: E402
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
from relaytrain.pipeline.update_rules import OptimizerState  # noqa: E402

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


def test_what_is_written_is_read(tmp_path):
    write_part(tmp_path, "000-1", WHOLE)
    content = read(tmp_path)
    assert torch.equal(content.weights[NAME], WHOLE.weights[NAME])
    assert content.states[NAME].steps == 3 and torch.equal(content.states[NAME].tensors[0], torch.ones(4))

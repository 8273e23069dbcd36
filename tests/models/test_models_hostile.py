"""Checkpoints and references from strangers: refused with a sentence, and nothing in them ever runs."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as save_tensors

from relaytrain.core.errors import ScenarioError
from relaytrain.data.batchfile import read_batch
from relaytrain.models import build, family_spec, load_version, save_version
from relaytrain.models.rebuild import only
from relaytrain.models.spec import check_reference, read_spec, spec_json, validate_spec

pytestmark = pytest.mark.train

KEY = "relaytrain.version/1"
SPEC = family_spec("cnn", input=(1, 8, 8), classes=10)
GOOD: dict[str, Any] = SPEC.to_dict()


class Trap:
    """Creates the sentinel when unpickled."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.sentinel,))


def header(value: Any, body: bytes = b"") -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return len(text).to_bytes(8, "little") + text + body


def with_spec(text: str) -> bytes:
    return bytes(save_tensors({"x": torch.zeros(2)}, metadata={KEY: text}))


def saved(trap: Trap, *, zipped: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save({"weight": trap}, buffer, _use_new_zipfile_serialization=zipped)
    return buffer.getvalue()


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", data)
    return buffer.getvalue()


def checkpoints(trap: Trap) -> dict[str, bytes]:
    """Files that claim to be a version."""
    good = save_version(build(SPEC), SPEC)
    size = int.from_bytes(good[:8], "little")
    tensors = {name: tensor.clone() for name, tensor in build(SPEC).state_dict().items()}
    evil_factory = json.dumps({"factory": "trap_module:make", "shapes": {"x": [2]}})

    def tampered(**changes: torch.Tensor) -> bytes:
        return bytes(save_tensors(tensors | changes, metadata={KEY: spec_json(SPEC)}))

    cases = {f"pickle protocol {p}": pickle.dumps(trap, protocol=p) for p in range(6)}
    cases |= {
        "torch.save zip": saved(trap, zipped=True),
        "torch.save legacy": saved(trap, zipped=False),
        "zip with a pickle": zipped(pickle.dumps(trap)),
        "pickle after a header": header({"__metadata__": {KEY: spec_json(SPEC)}}, pickle.dumps(trap)),
        "pickle as a header": header(pickle.dumps(trap)),
        "pickle as the spec": header({"__metadata__": {KEY: pickle.dumps(trap, protocol=0).decode("latin-1")}}),
        "empty": b"",
        "seven bytes": b"1234567",
        "a header longer than the file": (2**62).to_bytes(8, "little") + b"{}",
        "a header of 33 MiB": header(b" " * (33 * 2**20)),
        "deep header": header(b"[" * 200_000),
        "header that is a list": header([1, 2]),
        "no metadata": bytes(save_tensors({"x": torch.zeros(2)})),
        "metadata is a list": header({"__metadata__": [KEY]}),
        "spec is not JSON": with_spec("os.system('true')"),
        "deep spec": with_spec("[" * 100_000),
        "cut in the header": good[: size // 2],
        "cut in the tensors": good[:-3],
        "more bytes than promised": good + b"more",
        "another shape": tampered(**{"classifier.3.bias": torch.zeros(11)}),
        "another kind of number": tampered(**{"classifier.3.bias": torch.zeros(10, dtype=torch.float64)}),
        "one tensor too many": tampered(extra=torch.zeros(1)),
        "spec for other tensors": with_spec(spec_json(SPEC)),
        "a factory nobody allowed": with_spec(evil_factory),
        "overlapping tensors": header(
            {
                "__metadata__": {KEY: spec_json(SPEC)},
                "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
            },
            bytes(12),
        ),
    }
    return cases


SPECS: dict[str, Any] = {
    "unknown family": GOOD | {"family": "vgg12"},
    "family is a path": GOOD | {"family": "../../vgg"},
    "family is a list": GOOD | {"family": ["vgg11"]},
    "negative width": GOOD | {"widths": [16, -32, 64]},
    "zero width": GOOD | {"widths": [16, 0, 64]},
    "huge width": GOOD | {"widths": [16, 10**9, 64]},
    "number beyond 64 bits": GOOD | {"widths": [16, 10**400, 64]},
    "true as a width": GOOD | {"widths": [16, True, 64]},
    "float width": GOOD | {"widths": [16, 32.0, 64]},
    "text width": GOOD | {"widths": [16, "32", 64]},
    "NaN width": GOOD | {"widths": [16, float("nan"), 64]},
    "too few widths": GOOD | {"widths": [16, 32]},
    "too many widths": GOOD | {"widths": [16] * 100_000},
    "widths that add up to terabytes": GOOD | {"family": "vgg16", "widths": [8192] * 14},
    "input of four numbers": GOOD | {"input": [1, 8, 8, 8]},
    "huge input": GOOD | {"input": [1, 10**6, 10**6]},
    "one class": GOOD | {"classes": 1},
    "a key too many": GOOD | {"code": "print(1)"},
    "a key too few": {"family": "cnn", "widths": [16, 32, 64], "input": [1, 8, 8]},
    "both kinds": GOOD | {"factory": "a:b", "shapes": {"x": [1]}},
    "no object": [1, 2, 3],
    "nothing": None,
    "shapes is a list": {"factory": "a:b", "shapes": [1]},
    "no shapes": {"factory": "a:b", "shapes": {}},
    "negative size": {"factory": "a:b", "shapes": {"x": [-1]}},
    "a shape of terabytes": {"factory": "a:b", "shapes": {"x": [2**20, 2**20]}},
    "nine dimensions": {"factory": "a:b", "shapes": {"x": [1] * 9}},
    "tensor named like a path": {"factory": "a:b", "shapes": {"../x": [1]}},
    "tensor with an empty name": {"factory": "a:b", "shapes": {"": [1]}},
}

REFERENCES: list[Any] = [
    "os:system",
    "subprocess:run",
    "builtins:exec",
    "posix:abort",
    "importlib:import_module",
    "a;b",
    "a:b;c",
    "a:b()",
    "a.b",
    "a:b:c",
    ":b",
    "a:",
    "",
    "a..b:c",
    ".a:b",
    "a/b:c",
    "a b:c",
    "a:b\n",
    "a:__class__",
    "a:b.__globals__",
    "a\uff0eb:c",  # a full-width full stop
    "a\u2024b:c",  # one dot leader
    "\u043es:system",  # a Cyrillic o
    "a\u200b:b",
    "a:" + "b" * 10_000,
    None,
    7,
    ["a:b"],
]


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trap:
    sentinel = tmp_path / "sentinel"
    module = tmp_path / "trap_module.py"
    module.write_text(f"import pathlib\npathlib.Path({str(sentinel)!r}).touch()\nmake = print\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return Trap(sentinel)


def test_the_trap_works(trap: Trap) -> None:
    pickle.loads(pickle.dumps(trap))
    assert trap.sentinel.exists()


def test_checkpoints(trap: Trap) -> None:
    cases = checkpoints(trap)
    resolvers = (None, only("good:make", torch.nn.Identity))
    for name, data in cases.items():
        for resolve in resolvers:
            with pytest.raises(ScenarioError) as refused:
                load_version(data, resolve=resolve, where=name)
            assert name in str(refused.value) or "factory" in str(refused.value)
            assert len(str(refused.value)) < 1000
    assert not trap.sentinel.exists()
    assert len(cases) + len(SPECS) + len(REFERENCES) >= 40


@pytest.mark.parametrize("name", SPECS)
def test_specs(name: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        validate_spec(SPECS[name], "here")
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 50_000, b"\xff\xfe\x00", "NaN", " " * (5 * 2**20)])
def test_spec_texts(text: str | bytes) -> None:
    with pytest.raises(ScenarioError):
        read_spec(text)


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda value: repr(value)[:30])
def test_references(reference: Any) -> None:
    with pytest.raises(ScenarioError) as refused:
        check_reference(reference)
    assert len(str(refused.value)) < 600
    with pytest.raises(ScenarioError):
        validate_spec({"factory": reference, "shapes": {"x": [1]}})


def test_a_width_within_range_may_still_be_too_much_for_the_image_size() -> None:
    spec = GOOD | {"widths": [64, 8192, 8192], "input": [1, 256, 256]}
    with pytest.raises(ScenarioError, match="weights, expected at most"):
        build(validate_spec(spec))


def test_a_factory_that_returns_no_module() -> None:
    spec = validate_spec({"factory": "a:b", "shapes": {"x": [1]}})
    with pytest.raises(ScenarioError, match="returned str"):
        build(spec, resolve=only("a:b", lambda: "model"))  # type: ignore[arg-type, return-value]


def test_python_batches_of_images_never_run(trap: Trap, tmp_path: Path) -> None:
    for protocol in range(6):
        path = tmp_path / f"batch_{protocol}"
        path.write_bytes(pickle.dumps({"data": trap, "labels": [1]}, protocol=protocol))
        with pytest.raises(ScenarioError, match="not a plain CIFAR batch"):
            read_batch(path)
    bomb = b"\x80\x02]q\x00" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(60)) + b"."
    for number, text in enumerate(
        [bomb, b"cos\nsystem\n(S'true'\ntR.", b"ctrap_module\nmake\n.", b"\x80\x02cos\nsystem\nq\x00.", b"."]
    ):
        path = tmp_path / f"hand_{number}"
        path.write_bytes(text)
        with pytest.raises(ScenarioError):
            read_batch(path)
    assert not trap.sentinel.exists()

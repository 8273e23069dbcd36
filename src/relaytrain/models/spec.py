"""What a version is, in words: a family with widths, or a user's factory with tensor shapes. No torch, no pickle.

    {"family": "vgg11", "widths": [64, ...], "input": [3, 32, 32], "classes": 10}
    {"factory": "package.module:function", "shapes": {"conv.weight": [8, 3, 3, 3], ...}}
    {..., "heads": {"layers.0.attention.num_attention_heads": 2, ...}}  # where modules count heads in attributes

A spec may come from a stranger's file, so everything in it is checked before anything is built; nothing is imported
here, whatever a reference says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..core.errors import ScenarioError
from ..core.families import FAMILIES, family_named, scaled_widths
from ..core.head_names import HEAD_ATTRIBUTES

MAX_WIDTH = 8192
MAX_SIDE = 256
MAX_CLASSES = 100_000
MAX_ELEMENTS = 2**30
"""Four GiB of float32: more than any version this package means to move, less than what exhausts a server."""
MAX_TENSORS = 20_000
MAX_SPEC_BYTES = 4 * 2**20

MAX_ALPHA = 1e6

_LAYER_NAME = re.compile(r"[\w.*?-]{1,300}")
_TENSOR_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
"""Attributes in whatever script Python takes them in, and keys of a `ModuleDict` such as `conv-1`."""


@dataclass(frozen=True)
class FamilySpec:
    """One of our families at given widths; `input` is (channels, height, width)."""

    family: str
    widths: tuple[int, ...]
    input: tuple[int, int, int]
    classes: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"family": self.family, "widths": list(self.widths), "input": list(self.input), "classes": self.classes}


@dataclass(frozen=True)
class AdapterSpec:
    """Low-rank factors on a frozen base: alpha / rank times B A is added to every weight of `targets`.

    `train` names parts of the network that are trained beside them, such as the head; `base` is the SHA-256 of the
    state that the factory must make.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...]
    train: tuple[str, ...]
    base: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {**vars(self), "targets": list(self.targets), "train": list(self.train)}


@dataclass(frozen=True)
class FactorySpec:
    """A user's module: what the factory returns, resized to `shapes` (name, shape), sorted by name.

    `heads` are attributes of its modules that count attention heads (`core.head_names`), which shapes do not tell.
    With an `adapter`, `shapes` are of what is trained, sent and stored alone.
    """

    factory: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    heads: tuple[tuple[str, int], ...] = ()
    adapter: AdapterSpec | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        table: dict[str, Any] = {"factory": self.factory, "shapes": {name: list(shape) for name, shape in self.shapes}}
        if self.heads:
            table["heads"] = dict(self.heads)
        if self.adapter is not None:
            table["adapter"] = self.adapter.to_dict()
        return table


Spec = FamilySpec | FactorySpec


def adapter_of(spec: Spec) -> AdapterSpec | None:
    """The adapter of a version whose base stays as it is; None where all of it is trained."""
    return spec.adapter if isinstance(spec, FactorySpec) else None


def family_spec(family: str, *, input: tuple[int, int, int], classes: int, width: float = 1.0) -> FamilySpec:
    """The full-size spec of a family, all widths scaled by `width`."""
    widths = list(scaled_widths(family, width))
    return _checked_family({"family": family, "widths": widths, "input": list(input), "classes": classes}, "spec")


def spec_json(spec: Spec) -> str:
    """One canonical line: sorted keys, no spaces. Equal specs give equal text."""
    return json.dumps(spec.to_dict(), sort_keys=True, separators=(",", ":"))


def read_spec(text: str | bytes, where: str = "spec") -> Spec:
    """A spec from JSON text of unknown origin."""
    if len(text) > MAX_SPEC_BYTES:
        raise ScenarioError(f"{where}: {len(text)} bytes of JSON, expected at most {MAX_SPEC_BYTES}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise ScenarioError(f"{where}: not readable as JSON ({type(error).__name__}), expected an object") from None
    return validate_spec(value, where)


def validate_spec(value: object, where: str = "spec") -> Spec:
    """The spec in a JSON value, or an error that names the key, what was got and what is expected.

    Raises:
        ScenarioError: unknown family or key, sizes that are not integers in range, a reference that is not
            `dotted.module:name` or points into the standard library.
    """
    if isinstance(value, FamilySpec | FactorySpec):
        value = value.to_dict()
    if not isinstance(value, Mapping):
        raise ScenarioError(f"{where}: got {type(value).__name__}, expected an object with family or factory")
    keys = set(value)
    if keys == {"family", "widths", "input", "classes"}:
        return _checked_family(value, where)
    if {"factory", "shapes"} <= keys <= {"factory", "shapes", "heads", "adapter"}:
        return _checked_factory(value, where)
    shown = ", ".join(sorted(str(key)[:40] for key in keys)) or "nothing"
    raise ScenarioError(f"{where}: got the keys {shown}; expected family, widths, input, classes, or factory, shapes")


def check_reference(reference: object, where: str = "factory") -> str:
    """`reference` if it reads `dotted.module:name` in plain ASCII outside the standard library; imports nothing."""
    from ..scenario.resolve import split_reference  # here: who only reads specs starts without

    if not isinstance(reference, str):
        raise ScenarioError(f"{where}: got {_shown(reference)}, expected dotted.module:name")
    try:
        split_reference(reference)
    except ScenarioError as error:
        raise ScenarioError(f"{where}: {error}") from None
    return reference


def _checked_family(value: Mapping[Any, Any], where: str) -> FamilySpec:
    name = value["family"]
    if not isinstance(name, str):
        raise ScenarioError(f"{where}.family: got {_shown(name)}, expected one of {', '.join(FAMILIES)}")
    family = family_named(name)
    widths = _integers(value["widths"], f"{where}.widths", 1, MAX_WIDTH, len(family.widths))
    channels, height, width = _integers(value["input"], f"{where}.input", 1, MAX_SIDE, 3)
    classes = _integer(value["classes"], f"{where}.classes", 2, MAX_CLASSES)
    # A first estimate, 3x3 kernels between all neighbours; `build` counts exactly before it takes memory.
    kernels = channels * widths[0] + sum(a * b for a, b in pairwise(widths))
    if 9 * kernels + widths[-1] * classes > MAX_ELEMENTS:
        raise ScenarioError(f"{where}.widths: together more than {MAX_ELEMENTS} weights; expected a smaller network")
    return FamilySpec(name, widths, (channels, height, width), classes)


def _checked_factory(value: Mapping[Any, Any], where: str) -> FactorySpec:
    reference = check_reference(value["factory"], f"{where}.factory")
    shapes = value["shapes"]
    if shapes == {}:
        raise ScenarioError(f"{where}.factory: the network of {reference} has no parameters; give it layers to train")
    if not isinstance(shapes, Mapping) or not 0 < len(shapes) <= MAX_TENSORS:
        raise ScenarioError(f"{where}.shapes: got {_shown(shapes)}, expected an object of 1 to {MAX_TENSORS} shapes")
    checked: list[tuple[str, tuple[int, ...]]] = []
    for name, shape in shapes.items():
        if not isinstance(name, str) or len(name) > 512 or not _TENSOR_NAME.fullmatch(name):
            raise ScenarioError(f"{where}.shapes: got the tensor name {_shown(name)}, expected dotted plain names")
        checked.append((name, _integers(shape, f"{where}.shapes.{name}", 0, MAX_ELEMENTS, None)))
    if sum(math.prod(shape) for _, shape in checked) > MAX_ELEMENTS:
        raise ScenarioError(f"{where}.shapes: together more than {MAX_ELEMENTS} values; expected a smaller network")
    heads = _checked_heads(value.get("heads", {}), f"{where}.heads")
    adapter = _checked_adapter(value["adapter"], f"{where}.adapter") if "adapter" in value else None
    return FactorySpec(reference, tuple(sorted(checked)), heads, adapter)


def _checked_adapter(value: object, where: str) -> AdapterSpec:
    keys = {"rank", "alpha", "targets", "train", "base"}
    if not isinstance(value, Mapping) or set(value) != keys:
        raise ScenarioError(f"{where}: got {_shown(value)}, expected an object of {', '.join(sorted(keys))}")
    rank = _integer(value["rank"], f"{where}.rank", 1, MAX_WIDTH)
    alpha = value["alpha"]
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha <= MAX_ALPHA:
        raise ScenarioError(f"{where}.alpha: got {_shown(alpha)}, expected a number above 0, at most {MAX_ALPHA:g}")
    base = value["base"]
    if not isinstance(base, str) or not re.fullmatch(r"[0-9a-f]{64}", base):
        raise ScenarioError(f"{where}.base: got {_shown(base)}, expected 64 hexadecimal digits")
    lists = []
    for key, least in (("targets", 1), ("train", 0)):
        names = value[key]
        plain = isinstance(names, list | tuple) and least <= len(names) <= 1000
        if not plain or not all(isinstance(n, str) and _LAYER_NAME.fullmatch(n) for n in names):
            raise ScenarioError(f"{where}.{key}: got {_shown(names)}, expected a list of names of layers")
        lists.append(tuple(names))
    return AdapterSpec(rank, float(alpha), lists[0], lists[1], base)


def _checked_heads(value: object, where: str) -> tuple[tuple[str, int], ...]:
    """Attributes that count heads, by dotted name; no other attribute of a module is ever written."""
    if not isinstance(value, Mapping) or len(value) > MAX_TENSORS:
        raise ScenarioError(f"{where}: got {_shown(value)}, expected an object of at most {MAX_TENSORS} numbers")
    checked: list[tuple[str, int]] = []
    for name, number in value.items():
        plain = isinstance(name, str) and len(name) <= 512 and _TENSOR_NAME.fullmatch(name)
        if not plain or name.rpartition(".")[2] not in HEAD_ATTRIBUTES:
            known = ", ".join(sorted(HEAD_ATTRIBUTES)[:4])
            raise ScenarioError(f"{where}: got {_shown(name)}, expected a module's attribute such as {known}")
        checked.append((name, _integer(number, f"{where}.{name}", 1, MAX_WIDTH * 64)))
    return tuple(sorted(checked))


def _integers(value: object, where: str, low: int, high: int, count: int | None) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise ScenarioError(f"{where}: got {_shown(value)}, expected a list of integers")
    if len(value) != count if count is not None else len(value) > 8:
        expected = "at most 8" if count is None else count
        raise ScenarioError(f"{where}: got {len(value)} numbers, expected {expected}")
    return tuple(_integer(item, where, low, high) for item in value)


def _integer(value: object, where: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ScenarioError(f"{where}: got {_shown(value)}, expected an integer from {low} to {high}")
    return value


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:60])
    if isinstance(value, int | float) and abs(value) < 1e18:
        return repr(value)
    return type(value).__name__

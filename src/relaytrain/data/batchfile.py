"""The official python batches of CIFAR, read as data: a tiny reader of one kind of pickle stream, which runs nothing.

Python's own reader calls whatever a file names. This one knows dictionaries, lists, tuples, numbers, strings and
numpy arrays, builds them itself, and refuses every other word of the format. It imports nothing and calls nothing
the file names: the three names below are compared as text.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ScenarioError

_RECONSTRUCT = ("numpy.core.multiarray\n_reconstruct", "numpy._core.multiarray\n_reconstruct")
_NDARRAY, _DTYPE = "numpy\nndarray", "numpy\ndtype"
_KINDS = {"u1": "u1", "i4": "<i4", "i8": "<i8"}
_NUMBERS = {b"K": "<B", b"M": "<H", b"J": "<i"}
_STRINGS = {b"U": "<B", b"T": "<i", b"X": "<I", b"C": "<B", b"B": "<I"}
_CONSTANTS: dict[bytes, Any] = {b"N": None, b"\x88": True, b"\x89": False}
_TUPLES = {b")": 0, b"\x85": 1, b"\x86": 2, b"\x87": 3}

_Mark = object()


class _Name(str):
    """A name the stream mentions; never looked up."""


class _Kind(str):
    """A numpy kind of number, such as u1."""


class _Array:
    """An array before its contents arrive."""

    values: Any = None


def read_batch(path: Path) -> dict[str, Any]:
    """The dictionary in one batch file; strings become text, arrays become numpy arrays.

    Raises:
        ScenarioError: the file is damaged, or holds anything but plain data.
    """
    try:
        value = _plain(_Reader(path.read_bytes()).run(), {})
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror})") from None
    except (IndexError, ValueError, TypeError, KeyError, struct.error, RecursionError, AttributeError) as error:
        message = f"{path}: not a plain CIFAR batch ({error}); get it again, or use the binary version"
        raise ScenarioError(message) from None
    if not isinstance(value, dict):
        raise ScenarioError(f"{path}: holds a {type(value).__name__}, expected a dictionary with data and labels")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise ValueError("it is cut short")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        return self.take(end + 1 - self.at)[:-1].decode("ascii")

    def since_mark(self) -> list[Any]:
        position = len(self.stack) - 1
        while self.stack[position] is not _Mark:  # an IndexError at the bottom: no mark
            position -= 1
        items = self.stack[position + 1 :]
        del self.stack[position:]
        return items

    def run(self) -> Any:
        while True:
            word = self.take(1)
            if word == b".":
                return self.stack.pop()
            self.step(word)

    def step(self, word: bytes) -> None:
        stack = self.stack
        if word == b"\x80":
            self.take(1)
        elif word in _NUMBERS:
            stack.append(self.number(_NUMBERS[word]))
        elif word in _STRINGS:
            stack.append(self.take(self.number(_STRINGS[word])))
        elif word in _CONSTANTS:
            stack.append(_CONSTANTS[word])
        elif word in _TUPLES:
            count = _TUPLES[word]
            items = tuple(stack[len(stack) - count :])
            del stack[len(stack) - count :]
            stack.append(items)
        elif word == b"q":
            self.memo[self.number("<B")] = stack[-1]
        elif word == b"r":
            self.memo[self.number("<I")] = stack[-1]
        elif word == b"h":
            stack.append(self.memo[self.number("<B")])
        elif word == b"j":
            stack.append(self.memo[self.number("<I")])
        elif word == b"c":
            stack.append(_name(f"{self.line()}\n{self.line()}"))
        else:
            self.compound(word)

    def compound(self, word: bytes) -> None:
        stack = self.stack
        if word == b"(":
            stack.append(_Mark)
        elif word == b"}":
            stack.append({})
        elif word == b"]":
            stack.append([])
        elif word == b"t":
            stack.append(tuple(self.since_mark()))
        elif word == b"e":
            items = self.since_mark()
            stack[-1] += items
        elif word == b"a":
            item = stack.pop()
            stack[-1] += [item]
        elif word in (b"u", b"s"):
            items = self.since_mark() if word == b"u" else [stack.pop(-2), stack.pop()]
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif word == b"R":
            arguments = stack.pop()
            stack[-1] = _reduced(stack[-1], arguments)
        elif word == b"b":
            state = stack.pop()
            _fill(stack[-1], state)
        else:
            raise ValueError(f"the word {word!r} has no place in one")


def _name(text: str) -> _Name:
    if text not in (*_RECONSTRUCT, _NDARRAY, _DTYPE):
        raise ValueError(f"it names {text.replace(chr(10), '.')[:60]!r}")
    return _Name(text)


def _reduced(name: Any, arguments: Any) -> Any:
    if isinstance(name, _Name) and name in _RECONSTRUCT:
        return _Array()
    if isinstance(name, _Name) and name == _DTYPE:
        return _Kind(arguments[0].decode("ascii"))
    raise ValueError("it calls something")


def _fill(target: Any, state: Any) -> None:
    if isinstance(target, _Kind):
        return
    if not isinstance(target, _Array):
        raise ValueError("it sets the inside of something")
    _, shape, kind, fortran, data = state
    flat = np.frombuffer(data, dtype=_KINDS[kind])
    target.values = flat.reshape(tuple(int(size) for size in shape), order="F" if fortran else "C")


def _plain(value: Any, done: dict[int, Any]) -> Any:
    """Text and arrays in place of the reader's own kinds; each list once, however often the stream repeats it."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict | list):
        if id(value) not in done:
            if isinstance(value, dict):
                done[id(value)] = {_plain(key, done): _plain(item, done) for key, item in value.items()}
            else:
                done[id(value)] = [_plain(item, done) for item in value]
        return done[id(value)]
    if isinstance(value, _Array):
        return value.values
    if isinstance(value, _Name | _Kind):
        raise ValueError("it holds a name instead of data")
    return value

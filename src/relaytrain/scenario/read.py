"""Bytes become plain tables: one hardened reader for TOML and JSON, with caps on size, depth and keys."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ..core.errors import ScenarioError, did_you_mean
from .fields import KeyPath, shown

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
PASTED = "pasted"
"""What messages call a scenario that has no file."""
PRESETS = Path(__file__).parent / "presets"
_CHAIN = re.compile(rf"""(?<![\w"'-])(?:["'\w-]+[ \t]*\.[ \t]*){{{MAX_DEPTH + 1}}}""")
_AT_LINE = r"\(at line (\d+), column \d+\)|\(at end of document\)"


@dataclass(frozen=True)
class Document:
    """What was read: the tables, and what is needed to point at a place in them."""

    data: dict[str, Any]
    label: str
    text: str = ""
    is_json: bool = False
    path: Path | None = None
    preset: str | None = None
    overrides: dict[KeyPath, str] = field(default_factory=dict)


def read_named(path: str | Path, most: int) -> bytes:
    """At most `most` + 1 bytes of a file that somebody named; a FIFO or device is neither waited for nor read.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening some devices does something already
        raise OSError(errno.EINVAL, "no regular file", str(path))
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        return file.read(min(most, facts.st_size) + 1)  # memory for as much is taken before it is read


def read_whole(path: str | Path, most: int, expected: str) -> bytes:
    """All of a file of at most `most` bytes that somebody named; `expected` says what it should be, and the remedy.

    Raises:
        ScenarioError: it cannot be read, or is larger.
    """
    try:
        raw = read_named(path, most)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}: got '{reason}', expected {expected}") from None
    if len(raw) > most:
        raise ScenarioError(f"{path}: got more than {most >> 20} MiB, expected {expected}")
    return raw


def preset_names() -> list[str]:
    """The scenarios that ship with RelayTrain."""
    return sorted(p.stem for p in PRESETS.glob("*.toml"))


def read_pasted(text: str) -> Document:
    """A scenario's own text -> tables; no file is touched."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ScenarioError(f"{PASTED}: got more than {MAX_BYTES} bytes, expected at most 1 MiB")
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    is_json = plain.lstrip()[:1] == "{"
    data = read_json(plain, PASTED) if is_json else read_toml(plain, PASTED)
    return Document(data, PASTED, plain, is_json)


def read_source(source: Any) -> Document:
    """A path, the name of a preset, a mapping, or what was read already -> tables."""
    if isinstance(source, Document):
        return source
    if isinstance(source, str) and source in preset_names():
        path = PRESETS / f"{source}.toml"
        return Document(read_toml(_text(path, source), source), source, _text(path, source), path=path, preset=source)
    if isinstance(source, str | PathLike):
        return _read_path(source)
    if isinstance(source, dict) or (hasattr(source, "keys") and hasattr(source, "__getitem__")):
        data = _plain(dict(source), 0)
        _check_depth(data, "mapping")
        return Document(data, "mapping")
    raise ScenarioError(f"scenario: got {type(source).__name__}, expected a path, the name of a preset or a mapping")


def _plain(value: Any, depth: int) -> Any:
    """Mappings and sequences of any make as dict and list, numpy's scalars as Python's; validation sees the rest."""
    if depth > MAX_DEPTH:
        return value
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {key: _plain(value[key], depth + 1) for key in value}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _read_path(source: str | PathLike[str]) -> Document:
    label = fspath(source)
    if "\0" in label or len(label) > 4096:
        raise ScenarioError(f"scenario: got {shown(label)}, expected a path or the name of a preset")
    path = Path(source)
    if path.suffix.lower() in {".yaml", ".yml"}:
        raise ScenarioError(f"{label}: got a YAML file, expected TOML or JSON; YAML is not read")
    text = _text(path, label)
    is_json = path.suffix.lower() == ".json" or (path.suffix.lower() != ".toml" and text.lstrip()[:1] == "{")
    data = read_json(text, label) if is_json else read_toml(text, label)
    return Document(data, label, text, is_json, path)


def _text(path: Path, label: str) -> str:
    try:
        raw = read_named(path, MAX_BYTES)
    except FileNotFoundError:
        presets = ", ".join(preset_names()) + did_you_mean(label, preset_names())
        raise ScenarioError(f"{label}: got no such file, expected a path or one of the presets {presets}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{label}: got '{reason}', expected a scenario in TOML or JSON") from None
    if len(raw) > MAX_BYTES:
        raise ScenarioError(f"{label}: got more than {MAX_BYTES} bytes, expected at most 1 MiB")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ScenarioError(f"{label}:{line}: got a byte that is not UTF-8, expected UTF-8 text") from None


def read_toml(text: str, label: str) -> dict[str, Any]:
    """TOML -> tables. Duplicate keys are refused by the language."""
    chain = _CHAIN.search(text)
    if chain is not None:  # tomllib is quadratic in the parts of a dotted key
        line = text.count("\n", 0, chain.start()) + 1
        raise ScenarioError(f"{label}:{line}: got a key of more than {MAX_DEPTH} parts, expected at most {MAX_DEPTH}")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(_syntax(label, text, str(error))) from None
    except RecursionError:
        raise ScenarioError(f"{label}: got values nested too deep, expected at most {MAX_DEPTH} levels") from None
    except ValueError as error:  # dates out of range, integers of too many digits
        raise ScenarioError(f"{label}: got {_unreadable(error)}, expected valid TOML") from None
    _check_depth(data, label)
    return data


def _unreadable(error: ValueError) -> str:
    return "a number of too many digits" if "digits" in str(error) else f"a value that cannot be read ({error})"


def _syntax(label: str, text: str, message: str) -> str:
    place = re.search(_AT_LINE, message)
    line = int(place[1]) if place and place[1] else text.count("\n") + 1
    what = shown(re.sub(_AT_LINE, "", message).strip())[1:-1]
    got = text.splitlines()[line - 1].strip() if 0 < line <= len(text.splitlines()) else "end of file"
    return f"{label}:{line}: got {shown(got)}, expected valid TOML ({what})"


def read_json(text: str, label: str) -> dict[str, Any]:
    """JSON -> tables; duplicate keys and NaN are refused, null stands for infinity."""

    def no_duplicates(items: list[tuple[str, Any]]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key, value in items:
            if key in table:
                quoted = json.dumps(key)
                spots = [m.start() for m in re.finditer(re.escape(quoted) + r"\s*:", text)]
                line = text.count("\n", 0, spots[-1]) + 1 if spots else 1
                raise ScenarioError(f"{label}:{line}: {shown(key)}: got the key twice, expected it once in its table")
            table[key] = value
        return table

    def no_constant(word: str) -> Any:
        line = text.count("\n", 0, max(text.find(word), 0)) + 1
        raise ScenarioError(f"{label}:{line}: got {word}, expected a finite number, or null where infinity is allowed")

    try:
        data = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        lines = text.splitlines()
        got = lines[error.lineno - 1].strip() if error.lineno <= len(lines) else "end of file"
        raise ScenarioError(f"{label}:{error.lineno}: got {shown(got)}, expected valid JSON ({error.msg})") from None
    except RecursionError:
        raise ScenarioError(f"{label}: got values nested too deep, expected at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise ScenarioError(f"{label}: got {_unreadable(error)}, expected valid JSON") from None
    if not isinstance(data, dict):
        raise ScenarioError(f"{label}:1: got {shown(data)}, expected a table of keys at the top")
    _check_depth(data, label)
    return data


def _check_depth(data: Any, label: str) -> None:
    layer, depth = [data], 0
    while layer:
        if depth > MAX_DEPTH:
            raise ScenarioError(f"{label}: got values nested too deep, expected at most {MAX_DEPTH} levels")
        below: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        layer, depth = [item for item in below if isinstance(item, dict | list)], depth + 1

"""`--set a.b=c`: change single values of a scenario before it is validated."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from ..core.errors import ScenarioError
from .fields import KeyPath, shown

_PART = r"""\s*(?:([A-Za-z0-9_+-]+)|"([^"]*)"|'([^']*)')\s*(\.|$)"""
_MOST = 200


def texts(given: Iterable[str]) -> tuple[str, ...]:
    """What was given as one text or as several; one is not taken for its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def apply_overrides(data: dict[str, Any], overrides: Iterable[str]) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    """A copy of `data` with each `key=value` put in, and the place each one changed.

    Values are TOML values; what is none is taken as a string, so that `target.deadline=5m` needs no quotes. Items of
    lists go by name (`versions.L.parameters=10`), by pair (`pairs."L on gold".seconds=2`) or by index.
    """
    data, places = copy.deepcopy(data), {}
    listed = texts(overrides)
    if len(listed) > _MOST:
        raise ScenarioError(f"--set: got {len(listed)} of them, expected at most {_MOST}")
    for text in listed:
        key, equals, value = text.partition("=")
        if not equals or "\n" in text or len(text) > 10_000:
            raise ScenarioError(f"--set {shown(text)[1:-1]}: got no 'key=value', expected e.g. target.loss=0.2")
        path = _put(data, _split(key, text), _value(value.strip()), text)
        places[path] = text
    return data, places


def _split(key: str, text: str) -> list[str]:
    parts: list[str] = []
    position = 0
    while position <= len(key):
        match = re.compile(_PART, re.ASCII).match(key, position)
        if match is None or len(parts) >= 16:
            raise ScenarioError(f"--set {shown(text)[1:-1]}: got the key {shown(key)}, expected names joined by dots")
        parts.append(next(group for group in match.groups()[:3] if group is not None))
        position = match.end() if match[4] else len(key) + 1
    return parts


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return text


def _put(data: dict[str, Any], parts: list[str], value: Any, text: str) -> KeyPath:
    place: Any = data
    path: list[str | int] = []
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        step: str | int = part
        if isinstance(place, list):
            step = _item(place, part, text)
        elif not isinstance(place, dict):
            raise ScenarioError(
                f"--set {shown(text)[1:-1]}: got {shown(part)} under a plain value, expected the name of a table"
            )
        path.append(step)
        if last:
            place[step] = value
        elif isinstance(place, dict) and step not in place:
            place[step] = {}
        place = place[step]
    return tuple(path)


def _item(items: list[Any], part: str, text: str) -> int:
    for index, item in enumerate(items):
        if isinstance(item, dict) and part in _names(item):
            return index
    if part.isdigit() and len(part) < 7 and int(part) < len(items):
        return int(part)
    known = [_names(item)[0] for item in items if isinstance(item, dict) and _names(item)]
    raise ScenarioError(
        f"--set {shown(text)[1:-1]}: got {shown(part)}, expected an index below {len(items)}"
        + (f" or one of {', '.join(known[:20])}" if known else "")
    )


def _names(item: dict[str, Any]) -> list[str]:
    name, version, nodes = item.get("name"), item.get("version"), item.get("nodes")
    if isinstance(name, str):
        return [name]
    if isinstance(version, str) and isinstance(nodes, str):
        return [f"{version} on {nodes}"]
    return [own for own in (version, nodes, item.get("dataset")) if isinstance(own, str)][:1]

"""Values of an event's body, which may hold anything: a number, a text, a pair, a table, or nothing of the kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from ..core.problem import Pair

MOMENT = "%Y-%m-%d %H:%M:%S"


def say_moment(wall_s: float, form: str = MOMENT, *, zone: tzinfo | None = UTC) -> str:
    """A time on the wall, which an event may state as it likes; `zone` None is where this machine is."""
    try:
        return datetime.fromtimestamp(wall_s, UTC).astimezone(zone).strftime(form)
    except (OverflowError, ValueError, OSError):  # a clock of another world
        return "unknown"


def number(value: Any) -> float | None:
    """A finite number, or None."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if fits else None


def whole(value: Any) -> int | None:
    """A whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: Any) -> str:
    """A text, or what another value looks like; nothing for None."""
    return "" if value is None else str(value)


def pair_of(value: Any) -> Pair | None:
    """A pair from a decision's or leg's table, or from [version, nodes]."""
    if isinstance(value, Mapping):
        value = (value.get("version"), value.get("nodes"))
    if isinstance(value, list | tuple) and len(value) == 2 and None not in value:
        return Pair(str(value[0]), str(value[1]))
    return None


def table(value: Any) -> Mapping[str, Any]:
    """A table, empty where it is none."""
    return value if isinstance(value, Mapping) else {}


def numbers(values: Any) -> tuple[float, ...]:
    """Numbers in a list, None standing for infinity; whatever is no number is left out."""
    if not isinstance(values, list | tuple):
        return ()
    return tuple(math.inf if v is None else float(v) for v in values if v is None or isinstance(v, int | float))


def entries(value: Any) -> tuple[Any, ...]:
    """What a list holds; nothing when it is none."""
    return tuple(value) if isinstance(value, list | tuple) else ()

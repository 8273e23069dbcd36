"""Quantities as people write them ("7m40", "40 kJ", "8 GiB", "100 Mbit/s") become s, J, W, bytes, bit/s."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_NUMBER = r"[+-]?(?:\d+(?:_\d+)*)?\.?\d+(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(rf"({_NUMBER})\s*([A-Za-zµ/]+)", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.ASCII)
_LONGEST = 64

_DURATION = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_DURATION_WORDS = {
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
}
_BELOW = {"d": "h", "h": "m", "m": "s", "s": "ms"}

_SI = {"": 1.0, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def _scaled(unit: str, prefixes: str, factor: float = 1.0) -> dict[str, float]:
    return {p + unit: _SI[p] * factor for p in ["", *prefixes]}


_ENERGY = {**_scaled("J", "umkMGT"), **_scaled("Wh", "mkMG", 3600.0)}
_POWER = _scaled("W", "umkMG")
_BYTES = {
    **_scaled("B", "kMGTP"),
    **{p + "iB": 1024.0**n for n, p in enumerate(["K", "M", "G", "T", "P"], start=1)},
    "KB": 1e3,
}
_RATE = {**_scaled("bit/s", "kMGT"), **_scaled("bps", "kMGT"), **_scaled("B/s", "kMGT", 8.0)}
_FLOPS = _scaled("FLOP", "kMGTP")
_SPEED = {**_scaled("FLOP/s", "kMGTP"), **_scaled("FLOPS", "kMGTP")}
_PER_BIT = {f"{p}J/bit": f for p, f in {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12}.items()}


@dataclass(frozen=True)
class Quantity:
    """A kind of figure: how to read it from text and what to tell people who wrote something else."""

    name: str
    example: str
    read: Callable[[str], float | None]


def _reader(units: dict[str, float]) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        if len(text) > _LONGEST:
            return None
        match = _PLAIN.fullmatch(text.strip())
        if match is None or match[2] not in units:
            return None
        return float(match[1]) * units[match[2]]

    return read


def parse_duration(text: str) -> float | None:
    """Seconds of "10m", "7m40", "1h30m", "250ms", "3d", "90 s"; None when `text` is no duration.

    Units must fall from left to right; a last figure without one takes the next smaller unit, so "1h30" is 90 minutes.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST:
        return None
    total, position, last = 0.0, 0, ""
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            return None
        unit = _DURATION_WORDS.get(match[2], match[2])
        if not unit and match.end() == len(text):
            unit = _BELOW.get(last, "")
        if unit not in _DURATION or (last and _DURATION[unit] >= _DURATION[last]):
            return None
        total += float(match[1]) * _DURATION[unit]
        position, last = match.end(), unit
    return total


DURATION = Quantity("a duration", '"10m", "1h30m", "250ms" or seconds as a number', parse_duration)
ENERGY = Quantity("an energy", '"40 kJ", "3 Wh" or joules as a number', _reader(_ENERGY))
POWER = Quantity("a power", '"300 W" or watts as a number', _reader(_POWER))
BYTES = Quantity("a size", '"8 GiB" or bytes as a number', _reader(_BYTES))
RATE = Quantity("a rate", '"100 Mbit/s" or bits per second as a number', _reader(_RATE))
FLOPS = Quantity("an amount of work", '"2 MFLOP" or operations as a number', _reader(_FLOPS))
SPEED = Quantity("a speed", '"5 TFLOP/s" or operations per second as a number', _reader(_SPEED))
PER_BIT = Quantity("an energy per bit", '"5 nJ/bit" or joules per bit as a number', _reader(_PER_BIT))

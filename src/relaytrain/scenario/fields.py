"""The kinds of value a scenario may hold, each with its bounds and its words for people who wrote something else."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from ..core.errors import did_you_mean
from .units import DURATION, ENERGY, Quantity

LIMIT = 1e15
"""Larger figures are refused: sums over many epochs must stay finite. Infinity itself is a word of its own."""

SMALLEST = 1e-12
"""Positive figures below this are refused: their reciprocals would not stay finite in long sums."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}", re.ASCII)
_SHOWN = 60
JsonSchema = dict[str, Any]
KeyPath = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, places in lists."""


def shown(value: Any) -> str:
    """A value for an error message: short, on one line, without characters that could disturb a terminal."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if hasattr(value, "isoformat"):
        return f"the date or time {value.isoformat()}"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a whole number of more than 60 digits"
    text = ascii(value) if isinstance(value, str) else ascii(value)[: 2 * _SHOWN]
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]}...{text[-1]}"


def _plainly(number: float) -> str:
    return str(int(number)) if abs(number) < LIMIT and number == int(number) else f"{number:g}"


def refuse(value: Any, expected: str) -> PydanticCustomError:
    """The one error all fields raise: what was got and what is expected."""
    return PydanticCustomError("refused", "got {got}, expected {expected}", {"got": shown(value), "expected": expected})


@dataclass(frozen=True)
class Number:
    """A number between `low` and `high`, perhaps written with a unit; `inf` accepts infinity (null in JSON).

    `above` excludes `low` itself. Strings without a unit, booleans and NaN are refused.
    """

    low: float = -LIMIT
    high: float = LIMIT
    above: bool = False
    inf: bool = False
    whole: bool = False
    quantity: Quantity | None = None
    series: int = 0  # also a list of up to so many

    @property
    def expected(self) -> str:
        """What the field wants, in words."""
        text = "a whole number" if self.whole else "a number"
        if self.quantity is not None:
            text = f"{self.quantity.name} such as {self.quantity.example}"
        low, high = self.low > -LIMIT, self.high < LIMIT
        if low and high and not self.above:
            text += f" from {_plainly(self.low)} to {_plainly(self.high)}"
        else:
            bounds = [f"{'>' if self.above else '>='} {_plainly(self.low)}"] if low else []
            if high:
                bounds.append(f"{'<' if self.above and self.high <= 1 else '<='} {_plainly(self.high)}")
            text = " ".join([text, " and ".join(bounds)]).strip()
        if self.series:
            text += ", or a list of such by epoch"
        return f"{text}, or inf" if self.inf else text

    def read(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        """The value as a float or int, or a refusal."""
        if self.series and isinstance(value, list):
            if not 1 <= len(value) <= self.series:
                raise refuse(value, f"a list of 1 to {self.series} numbers")
            return [self._one(item, info) for item in value]
        return self._one(value, info)

    def _one(self, value: Any, info: core_schema.ValidationInfo) -> float | int:
        number = value
        if value is None and self.inf:
            return math.inf
        if isinstance(value, str) and self.quantity is not None and not self._plain(info):
            number = self.quantity.read(value)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise refuse(value, self._wanted(info))
        if number == math.inf and self.inf:
            return math.inf
        if math.isfinite(number) and abs(number) > LIMIT:
            raise refuse(value, f"{self._wanted(info)}, at most {LIMIT:g}")
        if not math.isfinite(number) or not self._inside(float(number)):
            least = f", at least {SMALLEST:g}" if 0.0 < number < SMALLEST else ""
            raise refuse(value, f"{self._wanted(info)}{least}")
        if self.whole:
            if number != int(number):
                raise refuse(value, self._wanted(info))
            return int(number)
        return float(number) + 0.0  # -0.0 becomes 0.0

    def _inside(self, number: float) -> bool:
        if self.above:
            smallest = SMALLEST if self.low == 0.0 and not self.whole else math.nextafter(self.low, math.inf)
            top = math.nextafter(self.high, -math.inf) if self.high <= 1 else self.high
            return smallest <= number <= top
        return self.low <= number <= self.high and (self.whole or not 0.0 < number < SMALLEST)

    def _plain(self, info: core_schema.ValidationInfo) -> bool:
        """Scenarios in plain units cannot mix "10m" with figures that mean something else."""
        plain: set[str] = (info.context or {}).get("plain", set())
        return (self.quantity is DURATION and "time" in plain) or (self.quantity is ENERGY and "energy" in plain)

    def _wanted(self, info: core_schema.ValidationInfo) -> str:
        if self._plain(info):
            assert self.quantity is not None
            side = "time" if self.quantity is DURATION else "energy"
            sign = "positive " if self.above and self.low == 0.0 else ""
            return f"a {sign}plain number in this scenario's own unit (units.{side})"
        return self.expected

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        one: JsonSchema = {"type": "integer" if self.whole else "number"}
        if self.low > -LIMIT:
            one["exclusiveMinimum" if self.above else "minimum"] = self.low
        if self.high < LIMIT:
            one["exclusiveMaximum" if self.above and self.high <= 1 else "maximum"] = self.high
        ways: list[JsonSchema] = [one]
        if self.quantity is not None:
            ways.append({"type": "string", "description": self.quantity.example})
        if self.inf:
            ways.append({"type": "null", "description": "infinity in JSON; write inf in TOML"})
        if self.series:
            ways.append({"type": "array", "items": one, "minItems": 1, "maxItems": self.series})
        return one if len(ways) == 1 else {"anyOf": ways}


@dataclass(frozen=True)
class Text:
    """A string that matches `pattern` and is no longer than `longest`."""

    expected: str
    pattern: str = r"[^\x00-\x08\x0b-\x1f\x7f]*"
    longest: int = 200

    def read(self, value: Any, info: core_schema.ValidationInfo) -> str:
        """The string, or a refusal."""
        if not isinstance(value, str) or len(value) > self.longest or re.fullmatch(self.pattern, value) is None:
            raise refuse(value, self.expected + did_you_mean(value, re.findall('"([^"]+)"', self.expected)))
        if ".." in value and self is NAME:
            raise refuse(value, self.expected)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {
            "type": "string",
            "pattern": f"^{self.pattern}$",
            "maxLength": self.longest,
            "description": self.expected,
        }


NAME = Text("a name of up to 64 letters, digits and _ . + - (a letter or digit first, no '..')", _NAME.pattern, 64)
_WORD = r"(?:\*|[A-Za-z0-9][A-Za-z0-9_.+-]{0,63})"
SIDE = Text('a version "L", a pair "L on gold", "* on gold" for all there, or "*"', rf"{_WORD}(?: on {_WORD})?", 140)
ANY_NAME = Text('a name, or "*" for all', _WORD, 64)
LABEL = Text("a short text of one line", r"[^\x00-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]*", 200)
METRIC = Text("loss, error, perplexity, rmse, or a sum of your own evaluate by name", r"[a-z][a-z0-9_]*", 40)
UNIT = Text("a unit of at most 16 letters, or an empty string", r"[A-Za-z0-9 /%€$µ_-]*", 16)

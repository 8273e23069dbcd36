"""Tables whose keys other parts of the program own: any plain value, within bounds."""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from .fields import LIMIT, refuse

MAX_VALUES = 10_000
MAX_DEPTH = 8
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}", re.ASCII)
_TEXT = 4096


class OpenTable(BaseModel):
    """Strings, finite numbers, booleans, lists and tables of them."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise refuse(value, "a table")
        _count(value, MAX_DEPTH, [MAX_VALUES])
        return value


def _count(value: Any, depth: int, left: list[int]) -> None:
    left[0] -= 1
    if depth < 0 or left[0] < 0:
        raise refuse(value, f"at most {MAX_VALUES} values, nested at most {MAX_DEPTH} deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or _KEY.fullmatch(key) is None:
                raise refuse(key, "a key of letters, digits, or _ . + -")
            _count(item, depth - 1, left)
    elif isinstance(value, list):
        for item in value:
            _count(item, depth - 1, left)
    elif isinstance(value, str):
        if len(value) > _TEXT or "\0" in value:
            raise refuse(value, f"a text of at most {_TEXT} characters")
    elif isinstance(value, int | float):
        if not isinstance(value, bool) and (not math.isfinite(value) or abs(value) > LIMIT):
            raise refuse(value, f"a finite number of at most {LIMIT:g}")
    else:
        raise refuse(value, "a text, number, boolean, list or table")

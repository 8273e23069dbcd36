"""Who draws a value in terminals and notebooks: values do not know, the outermost layer says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

Where = Literal["terminal", "notebook"]

_DRAWERS: dict[Where, Callable[[Any], Any]] = {}


def draw_with(where: Where, draw: Callable[[Any], Any]) -> None:
    """From now on values are drawn by `draw`."""
    _DRAWERS[where] = draw


def drawn(value: Any, where: Where) -> Any:
    """`value` as it is to be shown; its plain text where nobody draws."""
    return _DRAWERS.get(where, str)(value)

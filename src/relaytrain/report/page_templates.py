"""Pages from templates: every string is escaped, what is not there is an error, all pages share one style sheet."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
STYLE = TEMPLATES / "house.css"
"""Inside every report, and served to the dashboard."""


@cache
def environment(*folders: Path) -> Environment:
    """Templates of `folders`, then those of the reports."""
    return Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_fit,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _fit(value: Any) -> Any:
    """What a page may hold: control characters and lone surrogates have no place in UTF-8 HTML."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "".join(c for c in value if c in "\n\t" or (c >= " " and not 0xD800 <= ord(c) <= 0xDFFF))

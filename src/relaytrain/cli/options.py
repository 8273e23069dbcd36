"""Options that several verbs share, each worded once."""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import UsageError
from . import completion

SCENARIO = "quickstart"


class Format(StrEnum):
    """How a result is written."""

    text = "text"
    json = "json"


def whole_numbers(
    option: str, text: str, expected: str, *, most: int, count: Container[int] | None = None, separator: str = ","
) -> tuple[int, ...]:
    """The numbers that `text`, given as `option`, lists, each from 1 to `most`; `count`: how many there may be.

    Raises:
        UsageError: it lists something else; `expected` says what it should.
    """
    parts = [part.strip() for part in text.split(separator)]
    right = all(part.isdecimal() and len(part) < 20 and 1 <= int(part) <= most for part in parts)
    if not right or (count is not None and len(parts) not in count):
        raise UsageError(f"{option}: got '{text[:60]}', expected {expected}")
    return tuple(map(int, parts))


_SCENARIO_HELP = "A TOML or JSON file, or a preset's name; quickstart without one."
Scenario = Annotated[
    str,
    typer.Argument(metavar="[SCENARIO]", help=_SCENARIO_HELP, show_default=False, autocompletion=completion.scenarios),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value, e.g. target.loss=0.2 (repeatable).",
        autocompletion=completion.keys,
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        "--without",
        metavar="NODES",
        help="Leave out a node set or a node (repeatable).",
        autocompletion=completion.nodes,
    ),
]
Figure = Annotated[Path | None, typer.Option("--figure", metavar="FILE.svg", help="Also draw the result here.")]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Also write the result as one HTML file here.")
]
Output = Annotated[Format, typer.Option("--format", help="How the result is written (text).", show_default=False)]
Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="KIND=PLACE",
        help="Let a tool read along: tensorboard=DIR, mlflow=DIR-or-URI, wandb=DIR (offline). Repeatable.",
        show_default=False,
    ),
]

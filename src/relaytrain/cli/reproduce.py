"""`relaytrain reproduce`: the papers' figures again, and which of their findings hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .compiled import compiled
from .options import Format, Output
from .output import emit, emit_json, emit_view, note, progress

if TYPE_CHECKING:
    from ..experiments import Reproduction

SHORT = "Redraw the papers' figures and judge their findings."
HELP = """Redraw a figure of the papers and say which of its findings hold.

Needs matplotlib:  pip install "relaytrain[figures]". Exit status 0 once computed, whatever holds. Most figures take
seconds; pact-fig2 trains for about 15 minutes of one core, on CIFAR-10 where its files are found
($RELAYTRAIN_DATA/cifar10, ./data/cifar10), else on what there is.
"""
EXAMPLES = """\b
Examples:
  relaytrain reproduce --list
  relaytrain reproduce pact-fig6 --out figures
  relaytrain reproduce pact-fig6 --rule sampled
  relaytrain reproduce mcpipe-fig2 --seeds 10
  relaytrain reproduce all
"""

LEARNED = ("pact-fig2", "pact-fig4", "pact-table1", "pact-table1-mixed")

Name = Annotated[str | None, typer.Argument(metavar="[NAME|all]", help="A figure's name, or all of them.")]
Listing = Annotated[bool, typer.Option("--list", help="Show the figures that can be redrawn.")]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="The folder for the files (figures).", show_default=False)
]
Kinds = Annotated[list[str] | None, typer.Option("--as", metavar="KIND", help="png, svg or pdf (repeatable).")]

Rule = Annotated[
    str | None,
    typer.Option("--rule", metavar="NAME", help="Beside PACT in its figures 6 to 9, e.g. sampled."),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        metavar="N",
        min=1,
        help="How many initialisations pact-fig2 and mcpipe-fig2 to -fig4 train; finished ones are kept.",
    ),
]
Curves = Annotated[
    str,
    typer.Option(
        "--curves",
        metavar="WHICH",
        show_default=False,
        help="stand-in (usual), or measured: of traces, $RELAYTRAIN_TRACES or the bundled ones.",
    ),
]


def reproduce(
    name: Name = None,
    listing: Listing = False,
    out: Out = Path("figures"),
    kinds: Kinds = None,
    curves: Curves = "stand-in",
    rule: Rule = None,
    seeds: Seeds = None,
    output: Output = Format.text,
) -> int:
    """List, or redraw and judge."""
    from .. import experiments

    if listing or name is None:
        _show_list(experiments.available(), output)
        if name is None and not listing:
            note("name one of them, or all")
        return 0
    options: dict[str, Any] = {"formats": tuple(kinds)} if kinds else {}
    options["curves"] = curves
    options |= {"rule": rule} if rule is not None else {}
    options |= {"seeds": seeds} if seeds is not None else {}
    name = name.replace("_", "-")
    stated = name.startswith("pact") and name not in LEARNED and curves == "stand-in"
    with compiled(all_imports=not stated), progress(name):
        if name == "all":
            every = experiments.run_all(out, note, **options)
            if output is Format.json:
                emit_json(every.to_dict())
            else:
                from ..report.tables import findings_table

                emit_view(findings_table(every.findings))
                emit("\n".join(f"wrote {path}" for path in every.files))
            return 0
        redrawn = experiments.run(name, out, note, **options)
    if output is Format.json:
        emit_json(redrawn.to_dict())
    else:
        _show(redrawn)
    return 0


def _show_list(lines: dict[str, str], output: Format) -> None:
    if output is Format.json:
        emit_json({"schema": "relaytrain.figures/1", "figures": lines})
        return
    wide = max(map(len, lines), default=0)
    emit("\n".join(f"{key:<{wide}}  {words}" for key, words in lines.items()))


def _show(redrawn: Reproduction) -> None:
    from rich.console import Group
    from rich.text import Text

    from ..report.tables import findings_table, rows_table

    notes = [Text(f"note: {words}") for words in redrawn.notes]
    files = [Text(f"wrote {path}") for path in redrawn.files]
    numbers = rows_table(redrawn.rows, title=f"{redrawn.name}: {redrawn.title}")
    emit_view(Group(numbers, Text(), findings_table(redrawn.findings), *notes, *files))

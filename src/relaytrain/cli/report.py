"""`relaytrain report`: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Format, Output
from .output import check_file, emit, emit_json
from .reading import LastRun, Store, find_run, open_store, read_run

SHORT = "A run as one HTML file."
HELP = """Write a run as one HTML file: verdict, timeline, promised and measured loss, energy, and how to reproduce it.

The file holds no script and fetches nothing. A run that is not finished is reported as far as it went.
"""
EXAMPLES = """\b
Examples:
  relaytrain report
  relaytrain report quickstart-1a2b3c4d --out report.html
  relaytrain report quickstart-1a2b3c4d --baselines others.json
"""

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE.html", help="Where to write it (RUN.html).", show_default=False),
]
Others = Annotated[
    Path | None,
    typer.Option("--baselines", metavar="FILE.json", help="Rows to compare with: name, energy, success, how."),
]


def report(
    run: LastRun = None,
    out: Out = None,
    baselines: Others = None,
    store: Store = None,
    output: Output = Format.text,
) -> int:
    """Read, render, write."""
    check_file("--out", out)
    opened = open_store(store)
    name = find_run(opened, run)
    view = read_run(opened, name)
    from ..report.baselines import read_baselines
    from ..report.run_html import report_html
    from ..report.verdict import verdict_of
    from ..store.files import write_atomic

    rows = read_baselines(baselines) if baselines is not None else ()
    target = out or Path(f"{name}.html")
    write_atomic(target, report_html(view, baselines=rows, store=opened.folder_to_name))
    verdict = verdict_of(view, opened.folder_to_name)
    if output is Format.json:
        emit_json({"schema": "relaytrain.report/1", "run": name, "status": view.status, "written": str(target)})
    else:
        emit(f"{name}: {verdict.word}. {verdict.sentence}\nreport: {target}")
    return 0

"""The table of mistakes as Markdown: `python tests/users/mistakes_table.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import forked
from mistakes import MISTAKES, Mistake


def first_words(call: forked.Call) -> str:
    """The line that tells, in at most 160 characters."""
    lines = [line.strip() for line in call.said.splitlines() if line.strip()]
    telling = (
        [line for line in lines if line.startswith(("error", "ERROR"))]
        or [line for line in lines if line == "healthy"]
        or lines[:1]
    )
    return telling[0].replace("|", "\\|")[:160] if telling else ""


def row(mistake: Mistake) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        mistake.write(Path(folder))
        cells = []
        for verb in ("validate", "doctor", "run"):
            call = mistake.said(verb, Path(folder))
            cells.append(f"{call.status}: {first_words(call)}")
    return f"| {mistake.name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print every row."""
    forked.warm()
    print("| mistake | `validate` | `doctor` | `run` |\n|---|---|---|---|", flush=True)
    for mistake in MISTAKES:
        print(row(mistake), flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""What a reproduction gives back: files, a table, and the paper's findings with a verdict each."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core.plan import finite
from ..store.files import write_atomic

Row = dict[str, Any]
Source = Literal["paper", "here"]
Verdict = bool | None
"""Whether a finding holds; None where the run just made cannot show it: one point, or changes that change nothing."""
WORDS: dict[Verdict, str] = {True: "yes", False: "no", None: "not shown"}


@dataclass(frozen=True)
class Finding:
    """One statement about a figure, and whether the run just made bears it out.

    `expected` is the verdict that ships with the experiment: where it differs from `holds`, something has changed.
    `source` is "paper" for what the paper states and "here" for what only shows in this reproduction.
    """

    figure: str
    finding: str
    holds: Verdict
    why: str
    expected: Verdict = True
    source: Source = "paper"

    @property
    def word(self) -> str:
        """The verdict in a word."""
        return WORDS[self.holds]

    def to_dict(self) -> Row:
        """Plain JSON values."""
        return dict(vars(self))


@dataclass(frozen=True)
class Reproduction:
    """One figure, redrawn: the files written, the numbers behind them and the findings.

    `rows` share their keys, in the order of the table's columns. `notes` say what the figure leaves out or assumes.
    """

    name: str
    title: str
    files: tuple[Path, ...]
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def as_expected(self) -> bool:
        """Every verdict is the one that ships with the experiment."""
        return all(finding.holds == finding.expected for finding in self.findings)

    def to_dict(self) -> Row:
        """Plain JSON values; what was never reached has no cost and no time (None)."""
        return {
            "schema": "relaytrain.reproduction/1",
            "name": self.name,
            "title": self.title,
            "files": [str(path) for path in self.files],
            "rows": [{k: finite(v) if isinstance(v, float) else v for k, v in row.items()} for row in self.rows],
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class AllReproductions:
    """Every figure in turn, closed by one table of findings."""

    reproductions: tuple[Reproduction, ...]
    summary: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """All files written, the closing table last."""
        return (*(path for redrawn in self.reproductions for path in redrawn.files), self.summary)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings in the order of the figures."""
        return tuple(finding for redrawn in self.reproductions for finding in redrawn.findings)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The closing table: figure, finding, holds or not, why."""
        return tuple({"figure": f.figure, "finding": f.finding, "holds": f.word, "why": f.why} for f in self.findings)

    def to_dict(self) -> Row:
        """Plain JSON values."""
        return {
            "schema": "relaytrain.reproductions/1",
            "reproductions": [redrawn.to_dict() for redrawn in self.reproductions],
            "findings": [finding.to_dict() for finding in self.findings],
            "files": [str(path) for path in self.files],
        }


def table_csv(rows: tuple[Row, ...]) -> str:
    """The rows as CSV; floats to six significant digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
    return text.getvalue()


def written(
    name: str,
    title: str,
    out_dir: Path,
    drawn: tuple[Path, ...],
    rows: tuple[Row, ...],
    findings: tuple[Finding, ...],
    notes: tuple[str, ...] = (),
    *,
    table: str | None = None,
) -> Reproduction:
    """The reproduction of a figure that was drawn, its table beside it, called `table` if not `name`."""
    path = out_dir / f"{table or name}.csv"
    write_atomic(path, table_csv(rows))
    return Reproduction(name, title, (*drawn, path), rows, findings, notes)


def findings_markdown(findings: tuple[Finding, ...]) -> str:
    """The closing table as Markdown."""
    lines = ["| figure | finding | holds | why |", "|---|---|---|---|"]
    for finding in findings:
        origin = "" if finding.source == "paper" else " *(seen here, not stated in the paper)*"
        verdict = finding.word if finding.holds else f"**{finding.word}**"
        lines.append(f"| {finding.figure} | {finding.finding}{origin} | {verdict} | {finding.why} |")
    return "\n".join(lines) + "\n"

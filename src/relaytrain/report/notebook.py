"""Values in notebooks: plans, comparisons and runs as HTML without script or style sheet."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ..core.errors import RelayTrainError
from ..core.plan import Plan
from ..store import RunStore
from .canvas import INK, MUTED
from .comparison_rows import COLUMNS, comparison_notes, comparison_rows
from .plan_svg import WIDTH, plan_html
from .run_svg import run_svg
from .run_view import RunView
from .verdict import verdict_of

if TYPE_CHECKING:
    from ..api import Comparison
    from ..relay.runs import Trained

_CELL = "padding:2px 10px;text-align:{side};white-space:nowrap"


def notebook_html(value: Any) -> str:
    """A plan, a comparison, or a run that has ended."""
    if isinstance(value, Plan):
        return plan_html(value)
    return run_html(value) if hasattr(value, "verdict") else comparison_html(value)


def run_html(ended: Trained) -> str:
    """The verdict in words, the picture of the run, its notes to unfold; a store that is gone leaves the words."""
    try:
        view = RunView.of(RunStore.open(ended.store).events(ended.run))
        verdict = verdict_of(view)
        picture, word, sentence = run_svg(view), verdict.word, verdict.sentence
    except (RelayTrainError, ValueError) as error:
        picture, word = f'<p style="color:{MUTED}">no picture: {escape(str(error))}</p>', ended.verdict
        sentence = f"loss {ended.loss:.4g} after {len(ended.outcomes)} epochs, {ended.energy_j:.4g} J"
    words = f"<p><b>{escape(ended.run)}: {escape(word)}.</b> {escape(sentence)}</p>"
    return _framed(words + picture + _folded(f"notes ({len(ended.notes)})", ended.notes))


def comparison_html(comparison: Comparison) -> str:
    """A table, a line a planner; those that miss what was asked in grey."""
    head = "".join(f'<th style="{_side(at)}">{escape(name)}</th>' for at, name in enumerate(COLUMNS))
    body = ""
    for row in comparison_rows(comparison):
        cells = "".join(f'<td style="{_side(at)}">{escape(cell)}</td>' for at, cell in enumerate(row.cells))
        body += f'<tr style="color:{INK if row.met else MUTED}">{cells}</tr>'
    table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    notes = "".join(f"<p>{escape(words)}</p>" for words in comparison_notes(comparison))
    return _framed(f"<p><b>{escape(comparison.problem)}</b></p>{table}{notes}")


def _side(column: int) -> str:
    return _CELL.format(side="left" if column in (0, len(COLUMNS) - 1) else "right")


def _folded(title: str, lines: tuple[str, ...]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<details><summary style="cursor:pointer">{escape(title)}</summary><ul>{items}</ul></details>'


def _framed(inner: str) -> str:
    return f'<div style="max-width:{WIDTH:g}px;overflow-x:auto;background:#fff;color:{INK}">{inner}</div>'

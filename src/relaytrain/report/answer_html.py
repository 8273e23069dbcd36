"""An answer as one HTML file: a plan, a comparison, a front, a simulation, a pipeline. Same words as in the terminal.

What the terminal shows as rich tables becomes tables of a page, with the pictures above them; no script, no network.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .page_templates import environment

if TYPE_CHECKING:
    from ..api import Comparison
    from ..core.plan import Plan
    from ..planners.pipeline.keeping_plans import KeepingPlans
    from .front_view import FrontView


@dataclass(frozen=True)
class PagePart:
    """A piece of a page: a heading, a paragraph, preformatted lines, or a table with its head and rows."""

    kind: str
    text: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    right: tuple[bool, ...] = ()


@dataclass(frozen=True)
class PageHead:
    """What stands above: the verb, the title, and a badge of a tone (good, bad, open) if there is a verdict."""

    verb: str
    title: str
    badge: str = ""
    tone: str = "open"


def plan_report(plan: Plan, command: Sequence[str] = ()) -> str:
    """A plan."""
    from .plan_svg import plan_svg
    from .tables import plan_tables

    word = "as sure as asked" if plan.met else "a guess" if plan.guess else "less than was asked"
    head = PageHead("plan", plan.problem, word, "good" if plan.met else "open" if plan.guess else "bad")
    return answer_html(head, plan_tables(plan), [plan_svg(plan, headed=False)] if plan.decisions else [], command)


def comparison_report(comparison: Comparison, command: Sequence[str] = ()) -> str:
    """All planners on one scenario, the best one's plan drawn."""
    from .plan_svg import plan_svg
    from .tables import comparison_table

    best = comparison.plans[comparison.best]
    pictures = [plan_svg(best)] if best.decisions else []
    return answer_html(PageHead("compare", comparison.problem), comparison_table(comparison), pictures, command)


def front_report(view: FrontView, command: Sequence[str] = ()) -> str:
    """What each deadline and loss costs."""
    from .front_view import front_svg
    from .tables import front_tables

    return answer_html(PageHead("front", view.problem), front_tables(view), [front_svg(view)], command)


def simulation_report(result: Any, command: Sequence[str] = ()) -> str:
    """Rules side by side in many worlds."""
    from .tables import simulation_table

    return answer_html(PageHead("simulate", result.scenario), simulation_table(result), [], command)


def pipeline_report(planned: KeepingPlans, command: Sequence[str] = ()) -> str:
    """Who takes which layers."""
    from .pipeline_view import memory_svg, schedule_svg
    from .tables import pipeline_tables

    pictures = [schedule_svg(planned.plan), memory_svg(planned.plan, planned.devices)]
    return answer_html(PageHead("pipeline plan", planned.network), pipeline_tables(planned), pictures, command)


def answer_html(head: PageHead, view: RenderableType, pictures: Sequence[str] = (), command: Sequence[str] = ()) -> str:
    """The page of a rich view; the first paragraph is its lead."""
    parts = list(parts_of(view))
    lead = parts.pop(0).text if parts and parts[0].kind == "text" else ""
    context = {
        "head": head,
        "lead": lead,
        "parts": parts,
        "pictures": [Markup(svg) for svg in pictures],  # the canvas escapes its own strings
        "command": shlex.join(command),
    }
    return environment().get_template("answer.html").render(context)


def parts_of(view: RenderableType) -> Iterator[PagePart]:
    """The pieces of a rich view, in order; a text right above a table is its heading."""
    flat = list(_flat(view))
    for place, piece in enumerate(flat):
        if isinstance(piece, Table):
            columns = piece.columns
            cells = [[_plain(cell) for cell in column.cells] for column in columns]
            yield PagePart(
                "table",
                head=tuple(_plain(column.header) for column in columns),
                rows=tuple(zip(*cells, strict=True)) if cells else (),
                right=tuple(column.justify == "right" for column in columns),
            )
        elif words := _plain(piece).strip():
            above = place + 1 < len(flat) and isinstance(flat[place + 1], Table)
            yield PagePart("heading" if above else "text", words)


def _flat(view: RenderableType) -> Iterator[RenderableType]:
    if isinstance(view, Group):
        for piece in view.renderables:
            yield from _flat(piece)
    else:
        yield view


def _plain(cell: RenderableType) -> str:
    if isinstance(cell, Text):
        return cell.plain
    return Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)

"""An audit for terminals and pipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from .audit import Audit
from .audit_rates import Rate
from .tables import table, titled

if TYPE_CHECKING:
    from rich.table import Table


def audit_view(audit: Audit) -> RenderableType:
    """Everything that an audit found, as tables."""
    left = ", ".join(f"{count} {status}" for status, count in audit.left_out.items())
    head = f"{audit.runs} finished runs, {audit.met} met their target" + (f"; left out: {left}" if left else "")
    parts: list[RenderableType] = [Text(head, style="bold")]
    if not audit.runs:
        return Group(*parts)
    for words, rates in audit.groups():
        parts += [Text(), titled(words, _rates(rates))]
    if audit.costs:
        parts += [Text(), titled("costs spent over costs predicted", _costs(audit))]
    parts += [
        Text(),
        Text(f"called infeasible: {audit.infeasible} runs, {len(audit.wrong_noes)} of these targets were reached"),
    ]
    for wrong in audit.wrong_noes:
        parts.append(Text(f"  {wrong.run}: target {wrong.target_loss}, reached by {', '.join(wrong.reached_by)}"))
    return Group(*parts)


def _rates(rates: Sequence[Rate]) -> Table:
    rows = table(
        ("", "stated", "observed", "of", "95 % interval", "holds"),
        numbers=("stated", "observed", "of", "95 % interval"),
    )
    for rate in rates:
        low, high = rate.interval
        holds = {None: "", True: "yes", False: "NO"}[rate.agrees]
        stated = "" if rate.stated is None else f"{rate.stated:.1%}"
        rows.add_row(rate.name, stated, f"{rate.observed:.1%}", str(rate.count), f"{low:.1%} to {high:.1%}", holds)
    return rows


def _costs(audit: Audit) -> Table:
    columns = ("version", "clock", "epochs", "time", "median", "energy", "median ", "CPU s measured")
    rows = table(columns, numbers=columns[2:])
    for check in audit.costs:
        cost = check.cost
        cpu = "" if cost.cpu_s is None else f"{cost.cpu_s:.4g}"
        rows.add_row(Text(check.version), check.clock, str(cost.epochs), *check.figures, cpu)
    return rows

"""`relaytrain nodes`: who is at a SuperLink."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from .on_flower import Certificates, SuperLinkAddress, at_superlink
from .options import Format, Output
from .output import emit, emit_json, emit_view

SHORT = "Who is there: nodes at a SuperLink."
HELP = """Ask the nodes at a SuperLink who they are: which nodes of a scenario they play, where, since when, how fast
they were in their last task, and how their joules are come by.
"""
EXAMPLES = """\b
Examples:
  relaytrain nodes --superlink 127.0.0.1:8000
  relaytrain nodes --superlink 10.0.0.1:8000 --certs DIR --format json
"""
Wait = Annotated[float, typer.Option("--wait", metavar="S", help="Seconds to wait for answers (30).", min=0.0)]


def nodes(
    superlink: SuperLinkAddress = None,
    certs: Certificates = None,
    wait: Wait = 30.0,
    output: Output = Format.text,
) -> int:
    """Ask and list."""
    from ..executors.flower.inside import is_serverapp, the_grid

    if not is_serverapp():
        return at_superlink(superlink or "127.0.0.1:8000", certs)
    from ..executors.flower.roster import Roster

    roster = Roster(the_grid())
    roster.settle(wait)
    now = time.time()
    rows = [_row(number, about, now) for number, about in roster.about.items()]
    rows.sort(key=lambda row: (row["nodes"], row["flower_node"]))
    if output is Format.json:
        emit_json({"schema": "relaytrain.nodes/1", "nodes": rows})
    elif not rows:
        emit("nobody is there; start `relaytrain node` on each machine")
    else:
        from rich.table import Table

        table = Table(title=None)
        for heading in ("nodes", "site", "state", "since", "samples", "samples/s", "joules by", "Flower node"):
            table.add_column(heading, justify="right" if heading in ("samples", "samples/s") else "left")
        for row in rows:
            speed = "-" if row["samples_per_s"] is None else f"{row['samples_per_s']:.4g}"
            since = "-" if row["for_s"] is None else f"{row['for_s']:.0f} s"
            joules = f"{row['meter']} ({row['provenance']})" if row["meter"] else "-"
            samples = str(row["samples"]) if row["samples"] else "-"
            words = (", ".join(row["nodes"]) or "?", row["site"], row["state"], since, samples, speed, joules)
            table.add_row(*words, str(row["flower_node"]))
        emit_view(table)
    return 0


def _row(number: int, about: dict[str, Any], now: float) -> dict[str, Any]:
    def number_of(key: str) -> float | None:
        value = about.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def words(key: str) -> str:
        value = about.get(key)
        return value[:80] if isinstance(value, str) else ""

    samples, since = about.get("samples"), number_of("since")
    counts = list(samples.values()) if isinstance(samples, dict) else []
    return {
        "flower_node": number,
        "nodes": [name[:64] for name in about["nodes"]],
        "site": words("site"),
        "stages": words("stages"),
        "state": words("state"),
        "for_s": None if since is None else max(0.0, now - since),
        "samples": sum(count for count in counts if isinstance(count, int)),
        "samples_per_s": number_of("samples_per_s"),
        "meter": words("meter"),
        "provenance": words("provenance"),
        "torch": words("torch"),
    }

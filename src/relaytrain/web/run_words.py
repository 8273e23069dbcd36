"""What the pages say of a run: words, rows, pictures and columns of figures, all from one `RunView`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

from markupsafe import Markup

from ..core.explain import say_energy, say_share, say_time
from ..core.plan import Json
from ..report.event_fields import say_moment, table, text
from ..report.happenings import promises
from ..report.node_states import nodes_now
from ..report.plan_view import Replan, latest_replans
from ..report.run_sections import (
    shared_parts,
    shortened,
    tiles_of,
)
from ..report.run_svg import version_colours
from ..report.run_view import RunView
from ..report.standing import standing_line
from ..report.timeline_svg import timeline_svg
from ..report.verdict import verdict_of
from ..store.following import Glance

MOST_LOOKED_BACK = 400
"""Plans that are compared with the ones before them to find the last changes."""
MOST_CHANGES, MOST_AHEAD = 12, 300
DIGITS = 7
"""Of figures that are drawn."""


def run_parts(view: RunView) -> Json:
    """Everything that the run's page shows and that may change while it runs."""
    changes = changes_of(view)
    verdict = verdict_of(view)
    return {
        **shared_parts(view),
        "verdict": verdict,
        "line": standing_line(view),
        "tiles": _tiles(view),
        "timeline": Markup(timeline_svg(view, changes[0].old if changes else None)),  # the canvas escapes its strings
        "changes": [
            {
                "epoch": change.epoch,
                "before": shortened(change.before),
                "after": shortened(change.after),
                "reasons": [shortened(reason) for reason in change.reasons],
                "energy": "" if change.energy_j is None else say_energy(change.energy_j, view.asked.energy_unit),
            }
            for change in changes
        ],
        "broken": promises(view),
        "nodes": nodes_now(view),
    }


def changes_of(view: RunView) -> list[Replan]:
    """The last plans that moved a handover or changed a pair, the latest first."""
    looked = islice(latest_replans(view), MOST_LOOKED_BACK)
    return list(islice((change for change in looked if change.moved), MOST_CHANGES))


def _tiles(view: RunView) -> list[Json]:
    """The report's tiles; while it runs the probability is the present plan's."""
    tiles = [tile for tile in tiles_of(view) if tile["name"] != "stated probability"]
    plan = view.plans[-1] if view.plans else None
    if plan is None or plan.guess or plan.probability is None:
        return tiles
    first = view.plans[0].probability
    note = "" if plan.asked is None else f"asked {say_share(plan.asked)}"
    note += "" if first is None or len(view.plans) == 1 else f", {say_share(first, 1)} in the first plan"
    name = "probability now" if view.status == "running" else "probability, last plan"
    return [*tiles, {"name": name, "value": say_share(plan.sure or 0.0, 1), "note": note.removeprefix(", ")}]


def columns(view: RunView, *, since: int = 0) -> Json:
    """Figures for the charts: one entry an epoch after `since`; what the present plan expects is apart."""
    rows = view.epochs[since:]
    spent = math.fsum(e.energy_j for e in view.epochs[:since])
    energies = []
    for row in rows:
        spent += row.energy_j
        energies.append(_figure(spent))
    return {
        "since": since,
        "epoch": [e.epoch for e in rows],
        "time": [_figure(e.end_s) for e in rows],
        "loss": [_figure(e.loss) for e in rows],
        "expected": [_figure(e.predicted.loss) for e in rows],
        "promised": [_figure(e.predicted.guaranteed) for e in rows],
        "broken": [e.epoch for e in rows if e.in_band is False],
        "energy": energies,
    }


def ahead(view: RunView) -> Json:
    """What the present plan expects after now; nothing once a verdict stands."""
    plan = view.plans[-1] if view.plans else None
    if plan is None or view.verdict is not None:
        return {"time": [], "expected": [], "promised": [], "energy": []}
    skip = len(view.epochs) + 1 - plan.epoch
    stop = min(len(plan.times_s), len(plan.losses), skip + MOST_AHEAD)
    part = slice(skip, stop) if skip >= 0 else slice(0, 0)
    return {
        "time": [_figure(v) for v in plan.times_s[part]],
        "expected": [_figure(v) for v in plan.losses[part]],
        "promised": [_figure(v) for v in plan.guaranteed[part]],
        "energy": [_figure(v) for v in plan.energies_j[part]],
    }


def scene(view: RunView) -> Json:
    """What the charts are drawn on: target, deadline, legs with their colours, handovers."""
    colours = version_colours(view)
    asked = view.asked
    legs = [
        {
            "from": _figure(leg.start_s),
            "to": _figure(leg.end_s),
            "colour": colours[leg.pair.version],
            "name": str(leg.pair),
        }
        for leg in view.legs[-400:]
    ]
    return {
        "status": view.status,
        "target": asked.loss,
        "deadline": _figure(asked.deadline_s),
        "metric": asked.metric,
        "start": _figure(view.initial_loss),
        "unit": asked.time_unit,
        "energy_unit": asked.energy_unit,
        "clock": view.clock,
        "legs": legs,
        "undone": [[_figure(e.end_s), _figure(e.loss)] for e in view.undone[-60:]],
        "rollbacks": len(view.rollbacks),
    }


def run_row(glance: Glance) -> Json:
    """A run as a line of the list."""
    row = glance.summary
    scenario = table(row.started.get("scenario"))
    units, target = table(scenario.get("units")), table(scenario.get("target"))
    time_unit, energy_unit = text(units.get("time", "s")), text(units.get("energy", "J"))
    known = glance.whole or row.status in ("met", "missed", "stopped", "failed")
    charged = row.started.get("clock") == "measured"
    deadline_s = target.get("deadline")
    seconds = row.totals.elapsed_s if charged else row.totals.useful_s
    goal = target.get("loss")
    return {
        "run": row.run,
        "name": shortened(text(scenario.get("name")) or row.run)[:60],
        "status": row.status + (" (stopping)" if row.stop_requested else ""),
        "word": row.status,
        "planner": shortened(text(row.started.get("planner")))[:40],
        "clock": text(row.started.get("clock"))[:20],
        "epochs": row.epoch if known else None,
        "loss": None if row.loss is None else f"{row.loss:.4g}",
        "best": None if row.best_loss is None else f"{row.best_loss:.4g}",
        "target": f"{goal:g}" if isinstance(goal, int | float) else "",
        "energy": say_energy(row.totals.energy_j, energy_unit) if known else None,
        "energy_j": row.totals.energy_j if known else None,
        "time": say_time(seconds, time_unit) if known else None,
        "time_s": seconds if known else None,
        "deadline": say_time(float(deadline_s), time_unit) if isinstance(deadline_s, int | float) else "",
        "updated": say_moment(row.updated_wall_s),
        "updated_s": row.updated_wall_s,
        "damage": row.damage,
    }


def _figure(value: float | None) -> float | None:
    """A number for a chart: as many digits as can be seen, None for what is not there or infinite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def filtered(rows: Sequence[Json], words: str, status: str) -> list[Json]:
    """The rows that hold all of `words` in their names, and have that status if one is given."""
    wanted = words.lower().split()
    candidates = [row for row in rows if not status or row["word"] == status]
    return [row for row in candidates if all(word in _haystack(row) for word in wanted)]


def _haystack(row: Any) -> str:
    return " ".join(str(row[key]) for key in ("run", "name", "status", "planner", "clock")).lower()

"""The sections of a page about a run as rows of words: the report and the dashboard show the same ones.

Pure: a `RunView` in, words out. Long runs are thinned; what was left out is said in its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.explain import figure_name, say_energy, say_share, say_time
from ..core.plan import Json
from .baselines import Baseline
from .event_fields import MOMENT, number, say_moment, table, text
from .happenings import happenings, promises
from .plan_view import replans
from .run_parts import Cost
from .run_svg import thinned, version_colours
from .run_view import RunView
from .verdict import say_sets

MOST_EPOCHS, MOST_ROWS = 200, 40
MAX_SCENARIO = 100_000
SHOWN_TEXT = 240
"""Characters of any one text of the user's: a name or reason that is longer is cut."""
SHOWN_NAME = 80

TAGS = {
    "measured": "read off a meter while the run trained",
    "modelled": "computed from FLOPs, bytes and the device profiles of the scenario",
    "assumed": "given in the scenario as it stands, or CPU seconds times watts that nobody vouched for",
}


def shortened(value: str) -> str:
    """A text of the user's, cut where it is too long."""
    return value if len(value) <= SHOWN_TEXT else value[:SHOWN_TEXT] + " …"


def _time(view: RunView, value: float | None) -> str:
    return "" if value is None else say_time(value, view.asked.time_unit)


def _energy(view: RunView, value: float | None) -> str:
    return "" if value is None else say_energy(value, view.asked.energy_unit)


def _loss(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _off(got: float, said: float) -> str:
    """How far `got` is from what was said, in percent."""
    if said <= 0.0:
        return ""
    change = got / said - 1.0
    return "as predicted" if abs(change) < 0.0005 else f"{change:+.1%}"


def shared_parts(view: RunView) -> Json:
    """What the report and the run's page show alike, by the names in their templates."""
    return {
        "view": view,
        "legs": leg_rows(view),
        "handovers": handover_rows(view),
        "totals": total_rows(view),
        "versions": cost_rows(view, view.by_version()),
        "pairs": cost_rows(view, view.by_pair()),
        "tags": TAGS,
        "used_tags": sorted({e.provenance for e in view.epochs}),
        "trouble": trouble_rows(view),
    }


def tiles_of(view: RunView) -> list[Json]:
    """The few figures that matter, each with a note."""
    asked, first = view.asked, view.plans[0] if view.plans else None
    best = (
        f", best {view.best.loss:.4g} at epoch {view.best.epoch}" if view.best and view.best.loss != view.loss else ""
    )
    tiles = [
        {
            "name": f"{asked.on} {asked.metric}",
            "value": _loss(view.loss),
            "note": ("" if asked.loss is None else f"target {asked.loss:g}") + best,
        },
        {
            "name": "energy",
            "value": _energy(view, view.totals.energy_j),
            "note": f"{_energy(view, view.totals.useful_j)} useful, {_energy(view, view.totals.wasted_j)} wasted",
        },
        {
            "name": f"time, {view.clock}",
            "value": _time(view, view.elapsed_s),
            "note": f"of {_time(view, asked.deadline_s)}" if math.isfinite(asked.deadline_s) else "no deadline",
        },
    ]
    if first is not None and first.probability is not None:
        sure = f"asked {say_share(first.asked)}, " if first.asked is not None else ""
        rung = "of the schedule" if first.sure == first.probability else f"rests on {say_share(first.rung or 0.0)}"
        rung = rung if first.rung else "no level was feasible"
        value = say_share(first.probability, 1)
        tiles.append({"name": "stated probability", "value": value, "note": f"{sure}{rung}"})
    if view.verdict is not None and view.verdict.get("test_loss") is not None:
        right = view.verdict.get("test_accuracy")
        note = f"accuracy {right:.1%}" if isinstance(right, float) else "on the test set"
        sets = say_sets(table(view.verdict.get("prediction_sets")))
        note += f"; {sets}" if sets else ""
        figure = number(view.verdict.get("test_figure"))
        if figure is None or figure_name(asked.metric) == "loss":
            tiles.append({"name": "test loss", "value": _loss(view.verdict["test_loss"]), "note": note})
        else:
            note = f"loss {_loss(view.verdict['test_loss'])}, {note}"
            tiles.append({"name": f"test {asked.metric}", "value": _loss(figure), "note": note})
    return tiles


def leg_rows(view: RunView) -> list[Json]:
    """The legs as they were run."""
    colours, rows = version_colours(view), []
    loss, most = view.initial_loss, max((leg.cost.energy_j for leg in view.legs), default=0.0)
    for place, leg in enumerate(view.legs, 1):
        cost = leg.cost
        rows.append(
            {
                "number": place,
                "pair": shortened(str(leg.pair)),
                "colour": colours[leg.pair.version],
                "epochs": f"{leg.first_epoch}–{leg.last_epoch}",
                "loss": f"{_loss(loss)} → {_loss(leg.loss)}",
                "time": _time(view, cost.elapsed_s),
                "energy": _energy(view, cost.energy_j),
                "share": round(100 * cost.energy_j / most) if most > 0 else 0,
                "tags": tag_rows(view, cost),
                "off": _off(cost.against_j, cost.predicted_j) if cost.predicted_epochs else "",
            }
        )
        loss = leg.loss
    return thinned(rows, MOST_ROWS)


def tag_rows(view: RunView, cost: Cost) -> list[tuple[str, str]]:
    """Each provenance with its joules; the figure is left out where there is only one."""
    several = len(cost.by_provenance_j) > 1
    return [(tag, _energy(view, j) if several else "") for tag, j in sorted(cost.by_provenance_j.items())]


def handover_rows(view: RunView) -> list[Json]:
    """The handovers."""
    return [
        {
            "epoch": hand.epoch,
            "before": shortened(str(hand.before)),
            "after": shortened(str(hand.after)),
            "kind": shortened(hand.kind),
            "ratio": "" if hand.reached_ratio is None else f"{hand.reached_ratio:.1%}",
            "loss": f"{_loss(hand.loss_before)} → {_loss(hand.loss_after)}" if hand.loss_after is not None else "",
            "time": _time(view, hand.elapsed_s),
            "energy": _energy(view, hand.energy_j),
        }
        for hand in thinned(view.handovers, MOST_ROWS)
    ]


def total_rows(view: RunView) -> list[Json]:
    """Useful, wasted, total."""
    t = view.totals
    rows = [("useful", t.useful_j, t.useful_s), ("wasted", t.wasted_j, t.wasted_s), ("total", t.energy_j, t.elapsed_s)]
    return [
        {
            "name": name,
            "energy": _energy(view, energy_j),
            "time": _time(view, elapsed_s),
            "share": f"{energy_j / t.energy_j:.1%}" if t.energy_j > 0 else "",
        }
        for name, energy_j, elapsed_s in rows
    ]


def cost_rows(view: RunView, costs: Mapping[str, Cost]) -> list[Json]:
    """What versions or pairs cost, against what was forecast."""
    return [
        {
            "name": shortened(name),
            "epochs": cost.epochs,
            "time": _time(view, cost.elapsed_s),
            "energy": _energy(view, cost.energy_j),
            "share": f"{cost.energy_j / view.totals.useful_j:.1%}" if view.totals.useful_j > 0 else "",
            "tags": tag_rows(view, cost),
            "predicted_time": _time(view, cost.predicted_s) if cost.predicted_epochs else "",
            "predicted_energy": _energy(view, cost.predicted_j) if cost.predicted_epochs else "",
            "off_time": _off(cost.against_s, cost.predicted_s) if cost.predicted_epochs else "",
            "off_energy": _off(cost.against_j, cost.predicted_j) if cost.predicted_epochs else "",
            "cpu": "" if cost.cpu_s is None else f"{cost.cpu_s:.3g} s",
        }
        for name, cost in list(costs.items())[:MOST_ROWS]
    ]


def node_rows(view: RunView) -> list[Json]:
    """Joules by node, and what no node saw."""
    nodes = view.by_node()
    rows = [
        {
            "name": shortened(name),
            "epochs": count,
            "energy": _energy(view, energy_j),
            "share": f"{energy_j / view.totals.useful_j:.1%}" if view.totals.useful_j > 0 else "",
            "cpu": "" if cpu_s is None else f"{cpu_s:.3g} s",
        }
        for name, (count, energy_j, cpu_s) in nodes.items()
    ][:MOST_ROWS]
    rest_j = view.totals.useful_j - math.fsum(energy_j for _, energy_j, _ in list(nodes.values())[:MOST_ROWS])
    if rows and abs(rest_j) > 1e-9 * max(1.0, view.totals.useful_j):
        more = f" and {len(nodes) - MOST_ROWS} more nodes" if len(nodes) > MOST_ROWS else ""
        share = f"{rest_j / view.totals.useful_j:.1%}"
        name = f"handovers, waiting and exchange{more}"
        rows.append({"name": name, "epochs": "", "energy": _energy(view, rest_j), "share": share, "cpu": ""})
    return rows


def band_kept(view: RunView) -> Json | None:
    """How often the loss stayed within what was promised just before the epoch."""
    broken, judged = promises(view)
    if not judged:
        return None
    levels = [p.level for p in view.plans if p.level]
    level = say_share(math.fsum(levels) / len(levels)) if levels else "the plan's level"
    inside = judged - broken
    return {"inside": inside, "of": judged, "share": say_share(inside / judged), "level": level}


def replan_rows(view: RunView) -> Json:
    """What re-planning changed."""
    changed = replans(view)
    moved = [plan for plan in changed if plan.moved]
    rows = [
        {
            "epoch": plan.epoch,
            "before": shortened(plan.before),
            "after": shortened(plan.after),
            "reasons": [shortened(reason) for reason in plan.reasons],
            "energy": _energy(view, plan.energy_j),
        }
        for plan in thinned(moved, MOST_ROWS)
    ]
    first = shortened(view.plans[0].summary()) if view.plans else ""
    return {
        "rows": rows,
        "moved": len(moved),
        "ends": len(changed) - len(moved),
        "plans": len(view.plans),
        "first": first,
    }


def trouble_rows(view: RunView) -> list[Json]:
    """What happened on the way."""
    return [{"epoch": epoch, "what": shortened(what)} for epoch, what in thinned(happenings(view), MOST_ROWS)]


def baseline_rows(view: RunView, baselines: Sequence[Baseline]) -> list[Json]:
    """This run beside other ways to train."""
    if not baselines:
        return []
    mine_j = view.totals.energy_j
    own = Baseline("this run", mine_j, float(view.status == "met"), "trained", view.elapsed_s, view.loss)
    return [
        {
            "name": shortened(row.name),
            "own": row is own,
            "energy": _energy(view, row.energy_j),
            "ratio": f"{row.energy_j / mine_j:.2f}×" if row.energy_j is not None and mine_j > 0 else "",
            "time": _time(view, row.elapsed_s),
            "loss": _loss(row.loss),
            "success": row.succeeded,
            "how": row.how,
        }
        for row in (own, *baselines[:MOST_ROWS])
    ]


def network_rows(view: RunView) -> list[Json]:
    """Sizes of the versions."""
    versions = list(table(view.started.get("versions")).items())[:MOST_ROWS]
    return [
        {"name": shortened(text(name)), **{key: _count(table(facts).get(key)) for key in _FACTS}}
        for name, facts in versions
    ]


_FACTS = ("parameters", "flops_per_sample", "weight_bytes")


def _count(value: Any) -> str:
    return f"{value:,.0f}".replace(",", " ") if isinstance(value, int | float) else ""


def environment_rows(view: RunView) -> list[tuple[str, str]]:
    """When, by whom, with what it was run."""
    rows = [
        ("run", view.run),
        ("started", say_moment(view.started_wall_s, f"{MOMENT} %Z")),
        ("last event", say_moment(view.updated_wall_s, f"{MOMENT} %Z")),
        ("sessions", str(view.sessions)),
        ("planner", view.planner),
        ("clock", view.clock + (", lost work counts" if view.charged else ", lost work counted apart")),
    ]
    rows += [
        (key, shortened(text(view.started[key])))
        for key in ("seed", "threads", "machine")
        if view.started.get(key) is not None
    ]
    packages = [f"{shortened(text(k))} {shortened(text(v))}" for k, v in table(view.started.get("packages")).items()]
    return [*rows, ("packages", ", ".join(packages[:80]))] if packages else rows


def scenario_text(view: RunView) -> str:
    """The resolved scenario as JSON, unless it is too long."""
    words = json.dumps(view.scenario, indent=1, ensure_ascii=False) if view.scenario else ""
    return words if len(words.encode(errors="replace")) <= MAX_SCENARIO else ""


def epoch_rows(view: RunView) -> list[Json]:
    """Every epoch, thinned where there are very many."""
    return [
        {
            "epoch": e.epoch,
            "pair": str(e.pair)[:SHOWN_NAME],
            "loss": _loss(e.loss),
            "promised": _loss(e.predicted.guaranteed),
            "in_band": e.in_band,
            "accuracy": "" if e.accuracy is None else f"{e.accuracy:.1%}",
            "time": _time(view, e.elapsed_s),
            "energy": _energy(view, e.energy_j),
            "tag": e.provenance,
            "cpu": "" if e.cpu_s is None else f"{e.cpu_s:.3g} s",
            "failed": ", ".join(e.failed_nodes)[:SHOWN_NAME],
        }
        for e in thinned(view.epochs, MOST_EPOCHS)
    ]

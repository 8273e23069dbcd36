"""The pages, rendered here and readable without a script: runs, a run, why, its pipeline, a comparison, the audit."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from ..core.errors import RelayTrainError, ScenarioError, UsageError
from ..core.explain import say_energy, say_time
from ..report.compare_svg import compare_svg
from ..report.pipeline_view import PipelineView, memory_svg, pipelines_of, say_bytes, schedule_svg, stage_rows
from ..report.run_comparison import compared
from ..report.run_html import command, report_html
from ..report.run_sections import epoch_rows
from ..report.run_svg import run_svg
from ..report.verdict import verdict_of
from ..scenario import load_scenario
from .dashboard import dashboard_of
from .guard import FILE_POLICY
from .patience import StillReading
from .questions import asked_of, plan_parts, sliders
from .run_words import filtered, run_parts, run_row

RUN_PATTERN = "^[a-z0-9-]{8,40}$"
MOST_COMPARED = 8
RunName = Annotated[str, Path(pattern=RUN_PATTERN, description="A run's name.")]
Words = Annotated[str, Query(max_length=200, description="Words that a run's names must hold.")]
Status = Annotated[str, Query(max_length=20, pattern="^[a-z]*$", description="Only runs of this status.")]
Picked = Annotated[list[str], Query(max_length=MOST_COMPARED, description="Runs to compare, two to eight.")]
Loss = Annotated[float | None, Query(ge=0, le=1e9, allow_inf_nan=False, description="Another target loss.")]
Probability = Annotated[float | None, Query(gt=0, lt=1, allow_inf_nan=False, description="Another probability.")]
Deadline = Annotated[float | None, Query(gt=0, le=1e12, allow_inf_nan=False, description="Another deadline.")]
Epoch = Annotated[int | None, Query(ge=1, le=10_000_000, description="The epoch whose decision is meant; the last.")]

STATUSES = ("running", "met", "missed", "stopped", "failed", "interrupted", "damaged")
router = APIRouter(default_response_class=HTMLResponse)


@router.get("/", summary="All runs")
def runs(request: Request, q: Words = "", status: Status = "") -> HTMLResponse:
    """The runs of the store, newest first, with a filter, and a way to put some side by side."""
    dashboard = dashboard_of(request)
    rows = [run_row(glance) for glance in dashboard.shelf.runs()]
    counts = {name: sum(row["word"] == name for row in rows) for name in STATUSES}
    shown = filtered(rows, q, status)
    context = {
        "rows": shown,
        "all": len(rows),
        "q": q,
        "status": status,
        "pending": any(row["epochs"] is None for row in shown),
        "counts": {name: count for name, count in counts.items() if count},
    }
    return dashboard.page(request, "runs.html", context)


@router.get("/runs/{run}", summary="One run, live")
def run(request: Request, run: RunName) -> HTMLResponse:
    """A run as it stands; with a script it goes on by itself."""
    dashboard = dashboard_of(request)
    shown = dashboard.view(run)
    context = {
        **run_parts(shown.view),
        "run": run,
        "seq": shown.seq,
        "picture": Markup(run_svg(shown.view)),
        "epochs": epoch_rows(shown.view),
        "command": command(shown.view),
        "pipeline": _has_pipeline(shown.view.scenario),
    }
    return dashboard.page(request, "run.html", context)


@router.get("/runs/{run}/why", summary="Why this decision, and what if")
def why(
    request: Request,
    run: RunName,
    epoch: Epoch = None,
    loss: Loss = None,
    probability: Probability = None,
    deadline: Deadline = None,
) -> HTMLResponse:
    """A decision, its alternatives, and the plan for another target."""
    dashboard = dashboard_of(request)
    shown = dashboard.view(run)
    chosen = asked_of(loss=loss, probability=probability, deadline=deadline)
    context: dict[str, Any] = {"view": shown.view, "run": run, "epoch": epoch, "sliders": [], "refused": "", "note": ""}
    try:
        question, planned = dashboard.shelf.what_if(run, epoch)
        with dashboard.planning:
            plan = question.plan(loss=loss, probability=probability, deadline_s=deadline)
    except UsageError as error:
        context |= {"refused": str(error), "plan": None, "picture": "", "epoch": epoch or len(shown.view.epochs) + 1}
    else:
        context |= plan_parts(plan) | {
            "sliders": sliders(question, chosen),
            "epoch": planned.epoch,
            "note": question.note,
            "asked": any(value is not None for value in chosen.values()),
        }
    context["last"] = shown.view.plans[-1].epoch if shown.view.plans else 0
    context["pipeline"] = _has_pipeline(shown.view.scenario)
    return dashboard.page(request, "why.html", context)


@router.get("/runs/{run}/pipeline", summary="A run's pipelines")
def pipeline(request: Request, run: RunName) -> HTMLResponse:
    """Schedule and memory of every pipeline node set of the run's scenario."""
    dashboard = dashboard_of(request)
    view = dashboard.view(run).view
    try:
        pipelines = pipelines_of(load_scenario(dict(view.scenario)))
        refused = ""
    except ScenarioError as error:
        pipelines, refused = [], str(error)
    context = {"view": view, "run": run, "pipelines": [pipeline_parts(row) for row in pipelines], "refused": refused}
    return dashboard.page(request, "pipeline.html", context)


def pipeline_parts(row: PipelineView) -> dict[str, Any]:
    """A pipeline for its template."""
    if row.plan is None:
        return {"title": row.title, "reason": row.reason, "stages": []}
    plan = row.plan
    epoch = "" if row.epoch is None else f"an epoch {say_time(row.epoch[0])}, {say_energy(row.epoch[1])}; "
    return {
        "title": row.title,
        "reason": "",
        "words": f"{epoch}a minibatch every {say_time(plan.step_s)}, {plan.speedup:.2f} times the fastest device "
        f"alone; {plan.m} minibatches under way, window {plan.window.value}",
        "stages": [
            {**stage, "cap": say_bytes(device.memory_bytes)}
            for stage, device in zip(stage_rows(plan, say_bytes), row.devices, strict=True)
        ],
        "schedule": Markup(schedule_svg(plan)),
        "memory": Markup(memory_svg(plan, row.devices)),
    }


@router.get("/runs/{run}/report", summary="A run's report")
def report(request: Request, run: RunName) -> HTMLResponse:
    """The same file that `relaytrain report` writes."""
    page = report_html(dashboard_of(request).view(run).view)
    return HTMLResponse(page, headers={"content-security-policy": FILE_POLICY})


@router.get("/compare", summary="Runs side by side")
def compare(request: Request, run: Picked = []) -> HTMLResponse:  # noqa: B006
    """Two to eight runs side by side."""
    dashboard = dashboard_of(request)
    names = list(dict.fromkeys(run))
    views, refused = [], []
    for name in names:
        try:
            views.append(dashboard.view(name).view)
        except StillReading:
            raise
        except RelayTrainError as error:
            refused.append(str(error))
    rows = [run_row(glance) for glance in dashboard.shelf.runs()]
    context = {
        "views": views,
        "refused": refused,
        "rows": rows[:60],
        "names": names,
        "compared": compared(views) if len(views) > 1 else [],
        "words": [verdict_of(view) for view in views],
        "by_energy": Markup(compare_svg(views, "energy")) if len(views) > 1 else "",
        "by_time": Markup(compare_svg(views, "time")) if len(views) > 1 else "",
    }
    return dashboard.page(request, "compare.html", context)


@router.get("/audit", summary="Was what was promised kept?")
def audit(request: Request) -> HTMLResponse:
    """What plans stated, against what came, over all finished runs."""
    dashboard = dashboard_of(request)
    found, unread = dashboard.audit()
    return dashboard.page(request, "audit.html", {"audit": found, "unread": unread})


def _has_pipeline(scenario: Any) -> bool:
    groups = scenario.get("node_sets") if hasattr(scenario, "get") else None
    return isinstance(groups, list) and any(isinstance(g, dict) and g.get("mode") == "pipeline" for g in groups)

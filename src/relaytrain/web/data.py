"""The same as JSON, for the pages' scripts and whoever likes to ask: runs, figures, news, plans for other targets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, ConfigDict, Field

from ..core.plan import Json
from .dashboard import MOST_STREAMS, dashboard_of
from .feed import Feed
from .pages import Deadline, Epoch, Loss, Probability, RunName, Status, Words
from .questions import plan_parts
from .run_words import ahead, columns, filtered, run_row, scene
from .scenario_page import planned_from

router = APIRouter(prefix="/api")


class Replanned(BaseModel):
    """A plan for another target: as figures, and as the page shows it."""

    plan: dict[str, Any] = Field(description="The plan, as `relaytrain plan --format json` prints it.")
    html: str
    note: str = ""


class Pasted(BaseModel):
    """A scenario's text, TOML or JSON."""

    model_config = ConfigDict(extra="forbid")
    scenario: str = Field(max_length=1_048_576)


class Checked(BaseModel):
    """What was found in a scenario: its faults, or its plan."""

    ok: bool
    faults: list[str]
    plan: dict[str, Any] | None
    html: str


@router.get("/runs", summary="All runs")
def runs(request: Request, q: Words = "", status: Status = "") -> dict[str, Any]:
    """The list of runs, as the page of runs shows it."""
    rows = filtered([run_row(glance) for glance in dashboard_of(request).shelf.runs()], q, status)
    return {"schema": "relaytrain.ui-runs/1", "runs": rows}


@router.get("/runs/{run}/series", summary="A run's figures")
def series(request: Request, run: RunName, since: Annotated[int, Query(ge=0, le=100_000_000)] = 0) -> dict[str, Any]:
    """Losses, bands and energies by epoch, after `since` epochs."""
    shown = dashboard_of(request).shelf.view(run)
    told: Json = {"schema": "relaytrain.ui-series/1", "seq": shown.seq, "scene": scene(shown.view)}
    return {**told, "columns": columns(shown.view, since=since), "ahead": ahead(shown.view)}


@router.get("/runs/{run}/replan", summary="What if?")
def replan(
    request: Request,
    run: RunName,
    epoch: Epoch = None,
    loss: Loss = None,
    probability: Probability = None,
    deadline: Deadline = None,
    way_out: Annotated[bool, Query(description="Whether the rule sampled looks for targets in reach.")] = True,
) -> Replanned:
    """The decision of an epoch planned again, under another target. Nothing is changed by it."""
    dashboard = dashboard_of(request)
    question, _ = dashboard.shelf.what_if(run, epoch)
    with dashboard.planning:
        plan = question.plan(loss=loss, probability=probability, deadline_s=deadline, way_out=way_out)
    page = dashboard.templates.get_template("parts/plan.html").render(plan_parts(plan))
    return Replanned(plan=plan.to_dict(), html=page, note=question.note)


@router.post("/plan", summary="Check and plan a scenario")
def plan(request: Request, pasted: Pasted) -> Checked:
    """What is wrong with a scenario, or its plan. Nothing that it names is imported or read."""
    dashboard = dashboard_of(request)
    outcome = planned_from(dashboard, pasted.scenario)
    page = dashboard.templates.get_template("parts/checked.html").render(outcome.context)
    return Checked(ok=outcome.plan is not None, faults=list(outcome.faults), plan=outcome.plan_json, html=page)


def _slot(request: Request, run: RunName) -> Iterator[Feed]:
    """One of the places for watchers, given back when the page is left."""
    dashboard = dashboard_of(request)
    dashboard.shelf.view(run)
    if not dashboard.streams.acquire(blocking=False):
        raise HTTPException(429, f"{MOST_STREAMS} pages watch already; close one")
    try:
        yield Feed(dashboard.shelf, dashboard.templates, run)
    finally:
        dashboard.streams.release()


@router.get("/runs/{run}/stream", summary="News of a run as they come", response_class=EventSourceResponse)
async def stream(
    feed: Annotated[Feed, Depends(_slot)],
    epochs: Annotated[int, Query(ge=0, le=100_000_000)] = 0,
    rollbacks: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events: `news` with what has changed, and `end` when nobody writes the run any more."""
    feed.seen(epochs, rollbacks)
    async for event in feed.stream():
        yield event

"""A page that checks a pasted scenario and plans it. It reads no file and imports nothing that the text names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from ..api import plan as plan_scenario
from ..core.errors import RelayTrainError, ScenarioError
from ..core.plan import Plan
from ..report.pipeline_view import pipelines_of
from ..scenario import Scenario, load_scenario
from ..scenario.read import PRESETS, preset_names, read_pasted
from .dashboard import Dashboard, dashboard_of
from .guard import MOST_BYTES
from .pages import pipeline_parts
from .questions import plan_parts

router = APIRouter(default_response_class=HTMLResponse)
NO_FILES = "files are not read from here; use the command line: relaytrain plan FILE"


@dataclass(frozen=True)
class CheckedScenario:
    """What a text came to: faults, or a plan; `context` is for the template."""

    faults: tuple[str, ...]
    plan: Plan | None
    context: Mapping[str, Any]

    @property
    def plan_json(self) -> dict[str, Any] | None:
        """The plan as JSON."""
        return None if self.plan is None else self.plan.to_dict()


def planned_from(dashboard: Dashboard, text: str) -> CheckedScenario:
    """Check a scenario's text, and plan it if it is sound."""
    try:
        loaded = load_scenario(read_pasted(text))
        check_self_contained(loaded)
        with dashboard.planning:
            plan = plan_scenario(loaded)
    except RelayTrainError as error:
        faults = tuple(str(error).splitlines())
        nothing: dict[str, Any] = {"plan": None, "name": "", "warnings": (), "pipelines": []}
        return CheckedScenario(faults, None, {"faults": faults, **nothing})
    pipelines = [pipeline_parts(row) for row in pipelines_of(loaded)]
    words = {"faults": (), "name": loaded.name, "warnings": loaded.warnings, "pipelines": pipelines}
    return CheckedScenario((), plan, {**words, **plan_parts(plan)})


def check_self_contained(loaded: Scenario) -> None:
    """Refuse a scenario whose plan would read a file.

    Raises:
        ScenarioError: with the key that names one.
    """
    if loaded.estimator.get("fitted") is not None:
        raise ScenarioError(f"estimator.fitted: {NO_FILES}")
    if loaded.planner.atlas is not None:
        raise ScenarioError(f"planner.atlas: {NO_FILES}")


def preset_text(name: str) -> str:
    """The text of a scenario that ships, or nothing."""
    return (PRESETS / f"{name}.toml").read_text("utf-8") if name in preset_names() else ""


def _page(request: Request, context: dict[str, Any]) -> HTMLResponse:
    base = {"presets": preset_names(), "preset": ""}
    return dashboard_of(request).page(request, "scenario.html", {**base, **context})


@router.get("/scenario", summary="Check and plan a scenario")
def ask(
    request: Request, preset: Annotated[str, Query(max_length=64, description="Begin with one that ships.")] = ""
) -> HTMLResponse:
    """A place to paste one."""
    return _page(request, {"text": preset_text(preset), "preset": preset, "checked": False})


@router.post(
    "/scenario",
    summary="Check and plan a scenario, without a script",
    openapi_extra={
        "requestBody": {
            "content": {
                "application/x-www-form-urlencoded": {
                    "schema": {"type": "object", "properties": {"scenario": {"type": "string"}}}
                }
            }
        }
    },
)
async def check(request: Request) -> HTMLResponse:
    """The same page with what was found."""
    body = (await request.body())[:MOST_BYTES].decode("utf-8", "replace")
    try:
        text = parse_qs(body, keep_blank_values=True, max_num_fields=8).get("scenario", [""])[0]
    except ValueError:
        text = ""
    outcome = await run_in_threadpool(planned_from, dashboard_of(request), text)
    return _page(request, {"text": text, "checked": True, **outcome.context})

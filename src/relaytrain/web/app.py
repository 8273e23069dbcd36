"""The dashboard as one ASGI application: routes behind a guard, errors as pages or as JSON."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from ..core.errors import RelayTrainError, StoreDamaged
from ..report.page_templates import STYLE
from ..store import RunStore
from . import data, pages, scenario_page
from .dashboard import HERE, Dashboard, dashboard_of
from .guard import Door, Guard
from .patience import StillReading
from .shelf import NoSuchRun, Shelf

STATIC = HERE / "static"
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": words}
    for status, words in {
        400: "the question cannot be answered",
        401: "no token",
        403: "asked by another site",
        404: "no such run",
        409: "the store is damaged",
        413: "too long",
        414: "the address is too long",
        421: "another host's name",
        422: "a figure is out of range",
        429: "too many requests",
    }.items()
}


def create_app(store: RunStore, door: Door, *, warm: bool = True) -> ASGIApp:
    """The dashboard of `store` for whoever passes `door`; `warm`: compiled code and long runs are read beforehand."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if warm:
            threading.Thread(target=_warm, args=(app.state.dashboard,), daemon=True).start()
        yield

    app = FastAPI(
        title="RelayTrain dashboard",
        description="Runs of a store, live, and questions about them. Nothing is changed by asking.",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.dashboard = Dashboard(Shelf(store))
    app.get("/static/house.css", include_in_schema=False)(_style)
    app.mount("/static", StaticFiles(directory=STATIC, follow_symlink=False))
    for router in (pages.router, scenario_page.router, data.router):
        app.include_router(router, responses=REFUSALS)
    app.add_exception_handler(StillReading, _not_yet)
    app.add_exception_handler(RelayTrainError, _refused)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    return Guard(app, door)


def _warm(dashboard: Dashboard) -> None:
    """What the first question would have to wait for."""
    with suppress(Exception):
        from ..api import plan

        plan("quickstart")
    with suppress(Exception):
        dashboard.shelf.glances.read_all()


def _style() -> Response:
    return FileResponse(Path(STYLE), media_type="text/css")


async def _not_yet(request: Request, error: Exception) -> Response:
    return dashboard_of(request).page(request, "reading.html", {"words": str(error)})


async def _refused(request: Request, error: Exception) -> Response:
    status, words = _status(error)
    headers = dict(getattr(error, "headers", None) or {})
    if request.url.path.startswith("/api/"):
        return JSONResponse({"detail": words}, status, headers)
    return dashboard_of(request).page(request, "error.html", {"status": status, "words": words}, status, headers)


def _status(error: Exception) -> tuple[int, Any]:
    if isinstance(error, RequestValidationError):
        faults = [f"{'.'.join(map(str, row['loc'][1:]))}: {row['msg']}"[:200] for row in error.errors()[:5]]
        return 422, "; ".join(faults)
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, NoSuchRun):
        return 404, str(error)
    return 409 if isinstance(error, StoreDamaged) else 400, str(error)

"""What every route works with: the shelf of runs, the pages from templates, and how much may be planned at once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse

from ..core.errors import StoreDamaged
from ..report.audit import Audit, audit_views
from ..report.page_templates import environment
from ..report.run_view import RunView
from ..store import RunStore
from ..store.following import Sign, sign_of
from .patience import Readings
from .shelf import Shelf, Shown

HERE = Path(__file__).parent
AT_ONCE = 2
"""Plans that are made at once; more wait."""
MOST_STREAMS = 24
"""Pages that may watch at once."""
MOST_AUDITED, MOST_AUDITED_EVENTS = 300, 200_000


@dataclass
class Dashboard:
    """What the routes of one dashboard share. `streams` are the places of pages that watch a run."""

    shelf: Shelf
    templates: Environment = field(default_factory=lambda: environment(HERE / "templates"))
    planning: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))
    readings: Readings = field(default_factory=Readings)
    streams: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_STREAMS))
    _audited: tuple[Sign, Audit, int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def page(
        self,
        request: Request,
        name: str,
        context: Mapping[str, Any],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        """The template `name` as a page, which also says where it is and whose runs these are."""
        words = {"here": request.url.path, "store": str(self.shelf.store.folder), **context}
        return HTMLResponse(self.templates.get_template(name).render(words), status, headers)

    def view(self, run: str) -> Shown:
        """A run for a page: `StillReading` where it is so long that the page would have to wait for it."""
        return self.readings.ask(f"the run {run}", lambda: self.shelf.view(run))

    def audit(self) -> tuple[Audit, int]:
        """The audit of the runs written last, and how many older ones it left unread; `StillReading` as above.

        It is made anew only when something was written.
        """
        return self.readings.ask("all runs, to audit them", self._audit)

    def _audit(self) -> tuple[Audit, int]:
        with self._lock:
            sign = sign_of(self.shelf.store.folder)
            if self._audited is None or self._audited[0] != sign:
                views, unread = self._views(self.shelf.store)
                self._audited = sign, audit_views(views), unread
            return self._audited[1:]

    def _views(self, store: RunStore) -> tuple[list[RunView], int]:
        views: list[RunView] = []
        rows = [glance.summary for glance in self.shelf.runs()]
        read = 0
        for place, row in enumerate(rows):
            if place == MOST_AUDITED or read + row.events > MOST_AUDITED_EVENTS > row.events:
                return views, len(rows) - place
            read += row.events
            if row.damage:
                continue
            try:
                views.append(RunView.of(store.events(row.run), live=row.status == "running"))
            except (StoreDamaged, ValueError):
                continue
        return views, 0


def dashboard_of(request: Request) -> Dashboard:
    """The dashboard of the app that a request came to."""
    return cast(Dashboard, request.app.state.dashboard)

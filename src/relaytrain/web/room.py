"""What every route works with: the shelf of runs, the templates, and how much may be planned at once."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from jinja2 import Environment
from starlette.requests import Request

from ..core.errors import StoreDamaged
from ..report.audit import Audit, audit_views
from ..report.pages import environment
from ..report.run_view import RunView
from ..store import RunStore
from ..store.following import Sign, sign_of
from .shelf import Shelf

HERE = Path(__file__).parent
AT_ONCE = 2
"""Plans that are made at once; more wait."""
MOST_AUDITED = 300


@dataclass
class Room:
    """One dashboard's own. `streams` counts the pages that watch a run now."""

    shelf: Shelf
    templates: Environment = field(default_factory=lambda: environment(HERE / "templates"))
    planning: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))
    streams: int = 0
    _audited: tuple[Sign, Audit] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def audit(self) -> Audit:
        """The audit of the runs written last, made anew only when something was written."""
        with self._lock:
            sign = sign_of(self.shelf.store.folder)
            if self._audited is None or self._audited[0] != sign:
                self._audited = sign, audit_views(self._views(self.shelf.store))
            return self._audited[1]

    def _views(self, store: RunStore) -> list[RunView]:
        found = []
        for glance in self.shelf.runs()[:MOST_AUDITED]:
            row = glance.summary
            if row.damage:
                continue
            try:
                found.append(RunView.of(store.events(row.run), live=row.status == "running"))
            except (StoreDamaged, ValueError):
                continue
        return found


def room_of(request: Request) -> Room:
    """The room of the app that a request came to."""
    return cast(Room, request.app.state.room)

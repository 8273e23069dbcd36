"""What is sent while a run is watched: the parts of its page that have changed, and the epochs that are new."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi.sse import ServerSentEvent
from jinja2 import Environment
from starlette.concurrency import run_in_threadpool

from .run_words import ahead, columns, run_parts, scene
from .shelf import Shelf, Shown

POLL_S = 0.5
PARTS = ("now", "tiles", "timeline", "energy", "nodes", "trouble")


class Feed:
    """One watcher's view of one run: remembers what was sent, so that only news are."""

    def __init__(self, shelf: Shelf, templates: Environment, run: str) -> None:
        self.shelf, self.templates, self.run = shelf, templates, run
        self._sent: dict[str, bytes] = {}
        self._last: Shown | None = None
        self._epochs = self._rollbacks = 0

    def seen(self, epochs: int, rollbacks: int) -> None:
        """What the page showed when it was made."""
        self._epochs, self._rollbacks = epochs, rollbacks

    def news(self) -> dict[str, Any] | None:
        """What has changed since the last time; None for nothing."""
        shown = self.shelf.view(self.run)
        if shown is self._last:
            return None
        self._last = shown
        view = shown.view
        if len(view.rollbacks) != self._rollbacks or len(view.epochs) < self._epochs:
            self._epochs = 0  # epochs were undone: all are sent again
        told = {
            "seq": shown.seq,
            "scene": scene(view),
            "columns": columns(view, since=self._epochs),
            "ahead": ahead(view),
            "parts": self._changed(shown),
        }
        self._epochs, self._rollbacks = len(view.epochs), len(view.rollbacks)
        return told

    def _changed(self, shown: Shown) -> dict[str, str]:
        context = run_parts(shown.view)
        changed = {}
        for part in PARTS:
            html = self.templates.get_template(f"parts/{part}.html").render(context)
            digest = hashlib.blake2b(html.encode(errors="replace"), digest_size=16).digest()
            if self._sent.get(part) != digest:
                self._sent[part], changed[part] = digest, html
        return changed

    async def stream(self) -> AsyncIterator[ServerSentEvent]:
        """News as they come, until nobody writes the run any more; then one event `end`."""
        while True:
            told = await run_in_threadpool(self.news)
            if told is not None:
                yield ServerSentEvent(data=told, event="news", id=str(told["seq"]))
                if told["scene"]["status"] != "running":
                    yield ServerSentEvent(data={"status": told["scene"]["status"]}, event="end")
                    return
            await asyncio.sleep(POLL_S)

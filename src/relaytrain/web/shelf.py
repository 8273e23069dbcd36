"""Runs read as they grow, and kept: a page asks for a run, and only what is new of it is read from the store."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..core.errors import UsageError
from ..relay.what_if import WhatIf
from ..report.run_view import RunFold, RunView
from ..store import Event, RunStore
from ..store.following import Glance, Glances, RunTail

MOST_BOOKS, MOST_QUESTIONS = 16, 8
LIVE_S = 1.0
"""How long it is believed that a run's writer lives, or does not."""
_KEPT = ("decision", "predicted", "path", "state")
"""Of a plan that lies behind; the law and the costs it rested on are read again when they are asked for."""


class NoSuchRun(UsageError):
    """The store has no run of that name."""


class Shown(NamedTuple):
    """A run so far; `seq` is the number of its last event."""

    view: RunView
    seq: int


@dataclass
class _Book:
    tail: RunTail
    fold: RunFold
    slim: list[Event]
    lock: threading.Lock
    shown: Shown | None = None
    live: bool = False
    asked_s: float = -LIVE_S

    def take(self) -> bool:
        """Read what is new; whether anything is."""
        fresh = self.tail.more()
        for event in fresh:
            self.fold.feed(event)
            self.slim.append(_slim(event))
        return bool(fresh)


class Shelf:
    """The runs of a store, for several threads."""

    def __init__(self, store: RunStore) -> None:
        self.store, self.glances = store, Glances(store)
        self._books: OrderedDict[str, _Book] = OrderedDict()
        self._questions: OrderedDict[tuple[str, int], WhatIf] = OrderedDict()
        self._lock = threading.Lock()

    def runs(self, budget_s: float = 0.25) -> tuple[Glance, ...]:
        """All runs at a glance."""
        return self.glances.now(budget_s)

    def view(self, run: str) -> Shown:
        """The run as it stands now.

        Raises:
            NoSuchRun: there is none.
            StoreDamaged: a part of it is gone.
        """
        book = self._book(run)
        with book.lock:
            return self._read(book, run)

    def what_if(self, run: str, epoch: int | None = None) -> tuple[WhatIf, Event]:
        """The decision of `epoch`, or the last one, ready to be planned for other targets; and its event."""
        book = self._book(run)
        with book.lock:
            self._read(book, run)
            place = next(
                (i for i in range(len(book.slim) - 1, -1, -1) if _is_plan(book.slim[i], epoch)),
                None,
            )
            if place is None:
                words = "no plan yet" if epoch is None else f"no plan for epoch {epoch}"
                raise NoSuchRun(f"run {run} has {words}")
            before, seq = book.slim[:place], book.slim[place].seq
            planned = book.tail.at(seq)
        with self._lock:
            known = self._questions.get((run, seq))
        if known is None:
            known = WhatIf.of(before, planned)
            with self._lock:
                self._questions[run, seq] = known
                while len(self._questions) > MOST_QUESTIONS:
                    self._questions.popitem(last=False)
        return known, planned

    def _book(self, run: str) -> _Book:
        with self._lock:
            book = self._books.get(run)
            if book is None:
                book = self._books[run] = _Book(RunTail(self.store, run), RunFold(), [], threading.Lock())
            self._books.move_to_end(run)
            while len(self._books) > MOST_BOOKS:
                self._books.popitem(last=False)
            return book

    def _read(self, book: _Book, run: str) -> Shown:
        """What is new of it; a book that was read in part only is not kept."""
        try:
            return self._read_on(book, run)
        except BaseException:
            with self._lock:
                self._books.pop(run, None)
            raise

    def _read_on(self, book: _Book, run: str) -> Shown:
        fresh = book.take()
        if book.tail.seq == 0:
            raise NoSuchRun(f"no run {run} here")
        now_s, live = time.monotonic(), book.live
        if book.fold.verdict is not None:
            live = False
        elif fresh or now_s - book.asked_s >= LIVE_S:
            live, book.asked_s = book.tail.live(), now_s
            if not live:  # what its writer left last may have come between the two
                fresh = book.take() or fresh
        if fresh or book.shown is None or live != book.live:
            book.live = live
            book.shown = Shown(book.fold.view(live=live), book.tail.seq)
        return book.shown


def _is_plan(event: Event, epoch: int | None) -> bool:
    return event.kind == "planned" and epoch in (None, event.epoch)


def _slim(event: Event) -> Event:
    """An event without what is long and can be read again."""
    if event.kind == "run_started":
        return event
    body = {key: value for key, value in event.body.items() if key != "nodes"}
    if event.kind == "planned":
        plan = event.body.get("plan")
        feasible = plan.get("feasible") if isinstance(plan, dict) else None
        body = {key: event.body[key] for key in _KEPT if key in event.body} | {"plan": {"feasible": feasible}}
    return replace(event, body=body)

"""A long reading keeps no page waiting: the page says so, and the next question finds what was read."""

from __future__ import annotations

import threading

import pytest

from relaytrain.core.errors import UsageError
from relaytrain.web.patience import KEPT_S, MOST_WAITING, Readings, StillReading


def test_a_reading_is_begun_once_and_found_by_a_later_question():
    gate, began = threading.Event(), []

    def read():
        began.append(1)
        assert gate.wait(60)
        return "the run"

    readings = Readings(patience_s=0.01)
    for _ in range(3):
        with pytest.raises(StillReading, match="something long"):
            readings.ask("something long", read)
    gate.set()
    readings.patience_s = 60.0
    assert readings.ask("something long", read) == "the run"
    assert began == [1]
    assert readings.ask("something long", lambda: "read anew") == "read anew"


def test_what_nobody_came_back_for_is_read_anew_and_takes_no_place():
    now_s, gate = [0.0], threading.Event()

    def read():
        assert gate.wait(60)
        return "as it was then"

    readings = Readings(patience_s=0.0, clock=lambda: now_s[0])
    for number in range(MOST_WAITING):
        with pytest.raises(StillReading):
            readings.ask(f"run {number}", read)
    with pytest.raises(StillReading, match=f"after {MOST_WAITING} others"):
        readings.ask("one more", read)
    gate.set()
    for reading in tuple(readings._begun.values()):
        reading.answer.result(timeout=60)
    readings.patience_s = 60.0
    assert readings.ask("run 0", lambda: "read anew") == "as it was then"
    now_s[0] = 2 * KEPT_S
    assert readings.ask("run 1", lambda: "read anew") == "read anew"
    assert readings.ask("one more", lambda: "read at last") == "read at last"


def test_what_goes_wrong_is_told_to_who_asked():
    def read():
        raise UsageError("no such thing")

    with pytest.raises(UsageError, match="no such thing"):
        Readings(patience_s=60.0).ask("it", read)


def test_the_page_says_that_it_reads_and_asks_again(client_of, filled):
    client = client_of(filled)
    readings = client.app.app.state.dashboard.readings
    readings.patience_s = 0.0
    gate = threading.Event()
    shelf = client.app.app.state.dashboard.shelf
    view = shelf.view
    shelf.view = lambda run: gate.wait(60) and view(run)
    page = client.get("/runs/stub-met-1")
    assert page.status_code == 200
    assert 'data-testid="reading"' in page.text and '<noscript><meta http-equiv="refresh"' in page.text
    gate.set()
    readings.patience_s = 60.0
    assert 'data-testid="epochs"' in client.get("/runs/stub-met-1").text

"""Runs followed as they grow: what readers that ask often say, against what the store says to those who read it all."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from relaytrain.core.errors import StoreDamaged
from relaytrain.store import RunStore, following, lease
from relaytrain.store.following import Glances, RunTail
from relaytrain.web.shelf import Shelf

FIRST, OTHER = "first-run-1", "other-run-1"


@pytest.fixture
def store(tmp_path):
    return RunStore.open(tmp_path / "store")


def epochs(writer, first, last):
    for number in range(first, last + 1):
        writer.append("planned", {"decision": {"epoch": number}}, number)
        body = {"decision": {"epoch": number}, "loss": 1.0 / number, "energy_j": 2.0, "elapsed_s": 3.0}
        writer.append("epoch_done", body, number)


def ended(writer):
    writer.append("verdict", {"verdict": "met", **writer.progress.totals.to_dict()})


def test_a_tail_gives_every_event_once(store):
    tail, seen = RunTail(store, FIRST), []
    assert tail.more() == ()
    with store.create_run(FIRST, {}) as writer:
        for number in range(1, 6):
            epochs(writer, number, number)
            seen += tail.more()
            assert tail.more() == ()
            assert tail.live()
        ended(writer)
    seen += tail.more()
    assert tuple(seen) == store.events(FIRST)
    assert tail.at(3) == store.events(FIRST)[2]
    assert not tail.live()


def test_glances_are_the_stores_own_summaries(store):
    glances = Glances(store)
    assert glances.now() == ()
    with store.create_run(FIRST, {"scenario": {"name": "one"}}) as writer:
        epochs(writer, 1, 4)
        with store.create_run(OTHER, {}) as other:
            epochs(other, 1, 2)
            seen = {glance.summary.run: glance.summary for glance in glances.now(60.0)}
            assert seen == {summary.run: summary for summary in store.runs()}
        ended(writer)
    assert {g.summary.run: g.summary for g in glances.now(60.0)} == {s.run: s for s in store.runs()}
    store.rm(FIRST)
    assert [glance.summary.run for glance in glances.now(60.0)] == [OTHER]


@pytest.mark.parametrize("asks", ["summary", "runs", "glances", "shelf"])
def test_a_run_that_ends_while_it_is_looked_at_was_never_interrupted(store, monkeypatch, asks):
    """The writer gives its verdict and its lease back at the very moment a reader asks who holds the run."""
    writer = store.create_run(FIRST, {})
    epochs(writer, 1, 2)
    glances, shelf = Glances(store), Shelf(store)
    looks = {
        "summary": lambda: store.summary(FIRST).status,
        "runs": lambda: store.runs()[0].status,
        "glances": lambda: glances.now(60.0)[0].summary.status,
        "shelf": lambda: shelf.view(FIRST).view.status,
    }
    read, asked = lease.read, []

    def read_as_it_ends(*args):
        if not asked:
            asked.append(True)
            ended(writer)
            writer.close()
        return read(*args)

    assert looks[asks]() == "running"
    epochs(writer, 3, 3)
    monkeypatch.setattr(lease, "read", read_as_it_ends)
    assert looks[asks]() == "met"
    assert asked


def test_long_runs_are_shown_by_their_ends_until_they_are_read(store, monkeypatch):
    monkeypatch.setattr(following, "MANY", 5)
    with store.create_run(FIRST, {"scenario": {"name": "one"}}) as writer:
        epochs(writer, 1, 9)
        ended(writer)
    glances, whole = Glances(store), store.summary(FIRST)
    (glance,) = glances.now(60.0)
    assert not glance.whole
    assert (glance.summary.status, glance.summary.totals) == ("met", whole.totals)
    assert glance.summary.started == whole.started
    glances.read_all()
    (glance,) = glances.now(60.0)
    assert glance.whole and glance.summary == whole


def test_a_long_run_that_was_found_damaged_stays_so(store, monkeypatch):
    with store.create_run(FIRST, {}) as writer:
        epochs(writer, 1, 20)
        ended(writer)
    with sqlite3.connect(store.folder / "runs.sqlite") as connection:
        connection.execute("UPDATE event SET body = '{}' WHERE seq = 5")
    monkeypatch.setattr(following, "MANY", 10)
    glances = Glances(store)
    glances.read_all()
    (glance,) = glances.now(60.0)
    assert (glance.summary.status, store.summary(FIRST).status) == ("damaged", "damaged")
    with pytest.raises(StoreDamaged):
        RunTail(store, FIRST).more()


@pytest.mark.slow
def test_runs_are_read_beside_the_questions(store, monkeypatch):
    """One thread reads all, as the dashboard does when it starts, while others ask and runs come and go."""
    monkeypatch.setattr(following, "PART", 3)
    glances, wrong, over = Glances(store), [], threading.Event()

    def ask(question):
        try:
            while not over.is_set():
                question()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=(each,)) for each in (glances.read_all, lambda: glances.now(0.0))]
    for thread in threads:
        thread.start()
    for number in range(12):
        with store.create_run(f"run-number-{number:02}", {}) as writer:
            epochs(writer, 1, 3)
            ended(writer)
        if number % 3 == 2:
            store.rm(f"run-number-{number:02}")
    over.set()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert {g.summary.run: g.summary for g in glances.now(60.0)} == {s.run: s for s in store.runs()}

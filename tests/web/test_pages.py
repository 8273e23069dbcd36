"""The pages as they are served: what a reader without a script sees."""

from __future__ import annotations

import json
import re

import pytest

from relaytrain.report.run_view import RunView
from relaytrain.report.standing import standing_line
from relaytrain.report.verdict import verdict_of

pytestmark = pytest.mark.slow


def words_of(page: str) -> str:
    from html import unescape

    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_list_shows_every_run_with_status_energy_and_time(client, filled):
    page = client.get("/").text
    text = words_of(page)
    for row in filled.runs():
        assert f'href="/runs/{row.run}"' in page
        assert row.status in text
    met = next(row for row in filled.runs() if row.run == "stub-met-1")
    assert f"{met.loss:.4g}" in text and f"{met.best_loss:.4g}" in text


def test_the_list_is_filtered_without_a_script(client):
    names = re.findall(r'data-run="([^"]+)"', client.get("/", params={"q": "stub met"}).text)
    assert sorted(names) == ["stub-met-1", "stub-met-2"]
    assert re.findall(r'data-run="([^"]+)"', client.get("/", params={"status": "interrupted"}).text) == [
        "sample-broken"
    ]
    assert "No run fits" in client.get("/", params={"q": "nothing of the kind"}).text


def test_a_run_says_what_the_report_says(client, filled):
    for run in ("stub-met-1", "stub-missed", "sample-trouble", "sample-broken"):
        view = RunView.of(filled.events(run))
        text = words_of(client.get(f"/runs/{run}").text)
        assert verdict_of(view).word in text
        assert " ".join(standing_line(view).split()) in text
        for epoch in view.epochs[:3]:
            assert f"{epoch.loss:.4g}" in text


def test_broken_bounds_and_lost_nodes_are_marked(client):
    page = client.get("/runs/sample-trouble").text
    assert re.search(r'data-node="edge-2" data-state="(late|lost|at rest)"', page)
    assert "failed: killed by signal 9" in words_of(page)
    assert "rolled back" in words_of(page)


def test_the_series_are_the_epochs(client, filled):
    view = RunView.of(filled.events("stub-met-1"))
    told = client.get("/api/runs/stub-met-1/series").json()
    columns = told["columns"]
    assert columns["epoch"] == [epoch.epoch for epoch in view.epochs]
    assert columns["loss"] == pytest.approx([epoch.loss for epoch in view.epochs], rel=1e-6)
    assert columns["promised"] == pytest.approx([epoch.predicted.guaranteed for epoch in view.epochs], rel=1e-6)
    assert columns["broken"] == [epoch.epoch for epoch in view.epochs if epoch.in_band is False]
    assert columns["energy"][-1] == pytest.approx(sum(epoch.energy_j for epoch in view.epochs), rel=1e-6)
    later = client.get("/api/runs/stub-met-1/series", params={"since": 3}).json()["columns"]
    assert later["loss"] == columns["loss"][3:] and later["energy"] == pytest.approx(columns["energy"][3:])


def test_a_stream_of_an_ended_run_tells_all_and_ends(client):
    with client.stream("GET", "/api/runs/stub-met-1/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert kinds == ["news", "end"]
    told = json.loads(next(line for line in lines if line.startswith("data: "))[6:])
    assert set(told["parts"]) == {"now", "tiles", "timeline", "energy", "nodes", "trouble"}
    assert told["scene"]["status"] == "met"


def test_pages_that_watch_have_so_many_places_and_give_them_back(client):
    from relaytrain.web.dashboard import MOST_STREAMS

    places, address = client.app.app.state.dashboard.streams, "/api/runs/stub-met-1/stream"
    for _ in range(MOST_STREAMS):
        assert places.acquire(blocking=False)
    assert client.get(address).status_code == 429
    for _ in range(MOST_STREAMS):
        places.release()
    for _ in range(MOST_STREAMS + 1):
        assert client.get(address).status_code == 200
    assert client.get("/api/runs/not-there-1/stream").status_code == 404


def test_why_gives_the_plan_that_was_made_back(client, filled):
    planned = next(e for e in filled.events("stub-met-1", kinds=("planned",)) if e.epoch == 3)
    told = client.get("/api/runs/stub-met-1/replan", params={"epoch": 3}).json()["plan"]
    kept = dict(planned.body["plan"])
    assert {key: told[key] for key in kept} == kept


def test_another_target_gives_another_plan(client):
    own = client.get("/api/runs/stub-met-1/replan", params={"epoch": 1}).json()["plan"]
    easy = client.get("/api/runs/stub-met-1/replan", params={"epoch": 1, "loss": 0.9}).json()["plan"]
    late = client.get("/api/runs/stub-met-1/replan", params={"epoch": 1, "deadline": 400}).json()["plan"]
    none = client.get("/api/runs/stub-met-1/replan", params={"epoch": 1, "deadline": 3}).json()
    assert easy["energy_j"] < own["energy_j"] and late["energy_j"] < own["energy_j"]
    assert not none["plan"]["feasible"] and "Nearest feasible" in none["html"]


def test_sliders_and_alternatives_are_there_without_a_script(client):
    page = client.get("/runs/stub-met-1/why", params={"epoch": 2, "loss": 0.8}).text
    assert page.count('type="range"') == 3 and 'value="0.8"' in page
    assert "What else the next epoch could have been" in page


def test_a_run_whose_plans_cannot_be_made_again_says_so(client):
    answer = client.get("/runs/sample-trouble/why")
    assert answer.status_code == 200 and "cannot be planned again" in answer.text


def test_runs_side_by_side(client):
    picked = [("run", name) for name in ("stub-met-1", "stub-met-2", "stub-missed")]
    page = client.get("/compare", params=picked).text
    assert page.count("<th><a href") == 3 and "Loss by energy" in page
    assert words_of(page).count("target met") == 2


def test_the_audit_is_the_same_as_the_command_lines(client, filled):
    from relaytrain.report.audit import audit

    found = audit(filled)
    text = words_of(client.get("/audit").text)
    assert f"{found.runs} finished runs, {found.met} met their target" in text
    for rate in found.band:
        assert f"{100 * rate.observed:.1f}%" in text


def test_a_pasted_scenario_is_checked_and_planned(client):
    import relaytrain as rt
    from relaytrain.web.scenario_page import preset_text

    told = client.post("/api/plan", json={"scenario": preset_text("smart_factory")}).json()
    plan = rt.plan("smart_factory").to_dict()
    assert told["ok"] and told["plan"] == json.loads(json.dumps(plan))
    wrong = client.post("/api/plan", json={"scenario": "schema = 1\ntarget = 3"}).json()
    assert not wrong["ok"] and wrong["faults"] and "target" in " ".join(wrong["faults"])


def test_the_list_of_presets_stays_at_the_one_that_was_loaded(client):
    page = client.get("/scenario?preset=smart_factory").text
    assert page.count("<option selected>") == 1 and "<option selected>smart_factory</option>" in page
    assert "selected" not in client.get("/scenario").text.partition("</form>")[0]


def test_a_form_without_a_script_does_the_same(client):
    headers = {"origin": "http://127.0.0.1:7717"}
    page = client.post("/scenario", data={"scenario": "schema = 1"}, headers=headers).text
    assert "What is wrong" in page


def test_a_pipeline_shows_schedule_and_memory(client_of, tmp_path):
    from relaytrain import load_scenario
    from relaytrain.store import RunStore

    store = RunStore.open(tmp_path / "runs")
    body = {"scenario": dict(load_scenario("far_pipeline").resolved), "clock": "emulated", "initial_loss": 2.3}
    with store.create_run("far-pipeline", body, start=b"start"):
        pass
    page = client_of(store).get("/runs/far-pipeline/pipeline").text
    assert 'data-testid="schedule"' in page and 'data-testid="memory"' in page
    assert "minibatches under way" in page and "far-3" in page
    for place in ("", "/why"):
        assert 'href="/runs/far-pipeline/pipeline"' in client_of(store).get(f"/runs/far-pipeline{place}").text, place


def test_an_empty_folder_is_no_error(client_of, tmp_path):
    from relaytrain.store import RunStore

    client = client_of(RunStore.open(tmp_path / "nothing"))
    assert "No runs yet" in client.get("/").text
    assert client.get("/audit").status_code == 200
    assert client.get("/runs/not-there-1").status_code == 404
    assert not (tmp_path / "nothing").exists()


def test_a_damaged_run_is_said_to_be_and_the_others_are_shown(client_of, tmp_path):
    import sqlite3

    from dashboards import fill

    store = fill(tmp_path / "runs")
    with sqlite3.connect(store.folder / "runs.sqlite") as connection:
        connection.execute("UPDATE event SET body = '{}' WHERE run = 'stub-met-1' AND seq = 4")
    client = client_of(store)
    assert client.get("/").status_code == 200 and "damaged" in client.get("/").text
    assert client.get("/runs/stub-met-1").status_code == 409
    assert client.get("/runs/stub-met-2").status_code == 200

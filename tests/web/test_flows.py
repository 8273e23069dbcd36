"""What people do with the dashboard in a real Chromium: watch, ask, compare; by mouse, keyboard, phone, in the dark."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import PATIENCE_S, dashboard, launched, live
from dashboards import fill
from sample_run import Sample, write_run

from relaytrain.report.run_view import RunView
from relaytrain.store import RunStore

pytest.importorskip("playwright")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
BEYOND = re.compile(r"^(?!http://127\.0\.0\.1:|data:|blob:|about:|file:)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("flows") / "runs").folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with dashboard(folder) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


class Visit:
    """A page that was let in; what it complained of and asked for beyond our own server is kept."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.base = address.partition("/?")[0]
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.complaints: list[str] = []
        self.beyond: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.complaints.append(m.text))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("request", lambda r: BEYOND.match(r.url) and self.beyond.append(r.url))
        self.page.goto(address)
        self.page.wait_for_url(f"{self.base}/")

    def open(self, path: str) -> Any:
        self.page.goto(self.base + path)
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.complaints == [] and self.beyond == []


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Visit]]:
    made: list[Visit] = []

    def visited(**options: Any) -> Visit:
        made.append(Visit(browser, address, **options))
        return made[-1]

    yield visited
    for one in made:
        one.close()


def shown(page: Any, test_id: str) -> Any:
    return page.get_by_test_id(test_id)


def until(page: Any, words: str) -> None:
    """Wait for what `words` say of the page; asked from outside, for inside our policy forbids to evaluate texts."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not page.evaluate(words):
        assert time.monotonic() < give_up_s, words
        page.wait_for_timeout(50)


# --- six that every change is held to


def test_a_live_run_is_watched_from_start_to_verdict(visit, folder):
    with live(folder, "live-run-1") as going:
        seen = visit()
        page = seen.open("/runs/live-run-1")
        assert shown(page, "verdict").inner_text().strip("● ") == "running"
        assert re.search(r"\d+% sure to reach loss 0.45 in time", shown(page, "line").inner_text())
        assert "emulated time left of 35s" in shown(page, "line").inner_text()
        for _ in range(3):
            going.step()
        until(page, "document.getElementById('run').dataset.epochs >= 3")
        assert page.locator("#chart-loss canvas").count() == 1
        while not going.ended:
            going.step()
        until(page, "document.getElementById('run').dataset.status !== 'running'")
        view = RunView.of(RunStore.open(folder).events("live-run-1"))
        assert view.status == "met" and shown(page, "verdict").inner_text() == "target met"
        until(page, f"document.getElementById('run').dataset.epochs == {len(view.epochs)}")
        assert f"after {len(view.epochs)} epochs" in shown(page, "line").inner_text()


def test_a_slider_plans_again(visit):
    page = visit().open("/runs/stub-met-1/why?epoch=1")
    before = shown(page, "answer").inner_text()
    slider = shown(page, "slider-loss")
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    chosen = float(slider.input_value())
    assert chosen > 0.45
    until(page, f"document.querySelector('[data-testid=answer]').innerText.includes('reach loss {chosen:g} ')")
    until(page, "document.getElementById('took').dataset.resting === 'true'")
    assert "planned again in" in page.locator("#took").inner_text()
    shown(page, "reset").click()
    page.wait_for_url("**/why?epoch=1")
    assert shown(page, "answer").inner_text() == before


def test_three_runs_side_by_side(visit):
    page = visit().open("/")
    for run in ("stub-met-1", "stub-met-2", "stub-missed"):
        page.get_by_label(f"compare {run}").check()
    shown(page, "compare").click()
    page.wait_for_url("**/compare?*")
    heads = shown(page, "compared").locator("thead a").all_inner_texts()
    assert sorted(heads) == ["stub-met-1", "stub-met-2", "stub-missed"]
    assert shown(page, "compared").locator("tr", has_text="outcome").inner_text().count("target met") == 2
    assert shown(page, "by-energy").locator("polyline").count() == 3


def test_a_killed_run_is_shown_as_interrupted(visit, folder):
    with live(folder, "killed-run-1") as going:
        page = visit().open("/runs/killed-run-1")
        going.step()
        going.step()
        until(page, "document.getElementById('run').dataset.epochs >= 2")
        going.kill()
        until(page, "document.getElementById('run').dataset.status === 'interrupted'")
        assert shown(page, "verdict").inner_text() == "interrupted"
        assert "relaytrain resume killed-run-1" in shown(page, "line").inner_text()
    page.goto(page.url.replace("/runs/killed-run-1", "/"))
    assert "interrupted" in page.locator("[data-run=killed-run-1]").inner_text()


def test_a_lost_node_is_marked(visit, folder):
    with live(folder, "lost-node-1") as going:
        page = visit().open("/runs/lost-node-1")
        while going.nodes != "bronze":
            going.step()
        going.step("lose")
        node = page.locator("[data-node=bronze]")
        until(page, "document.querySelector('[data-node=bronze]')?.dataset.state === 'lost'")
        assert "killed by signal 9" in node.inner_text()
        assert "killed by signal 9" in shown(page, "trouble").inner_text()


PAGES = (
    "/",
    "/runs/stub-met-1",
    "/runs/sample-trouble",
    "/runs/stub-met-1/why",
    "/compare?run=stub-met-1&run=stub-met-2",
    "/audit",
    "/scenario?preset=far_pipeline",
    "/runs/stub-met-1/pipeline",
    "/runs/stub-met-1/report",
)


def test_every_page_opens_without_a_complaint_and_asks_nobody_else(visit):
    seen = visit()
    for path in PAGES:
        page = seen.open(path)
        assert page.locator("h1").count() == 1
        if path.startswith("/runs/stub-met-1") and path.count("/") == 2:
            until(page, "document.getElementById('run').dataset.ready === 'yes'")


# --- and those of the long tier


@pytest.mark.soak
def test_the_list_filters_as_one_types(visit):
    page = visit().open("/")
    shown(page, "filter").fill("missed")
    until(page, "[...document.querySelectorAll('#runs tbody tr')].filter((row) => !row.hidden).length === 1")
    assert page.locator("#runs tbody tr:visible").get_attribute("data-run") == "stub-missed"


@pytest.mark.soak
def test_colours_are_chosen_and_kept(visit):
    seen = visit(color_scheme="light")
    page = seen.open("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        page.locator("#theme").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark and page.evaluate("document.documentElement.dataset.theme") == "dark"
    page = seen.open("/audit")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


@pytest.mark.soak
def test_the_systems_dark_is_followed(visit):
    light = visit(color_scheme="light").open("/").evaluate("getComputedStyle(document.body).backgroundColor")
    assert visit(color_scheme="dark").open("/").evaluate("getComputedStyle(document.body).backgroundColor") != light


@pytest.mark.soak
def test_everything_is_reached_by_keyboard(visit):
    page = visit().open("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/audit")
    page.goto(page.url.replace("/audit", "/"))
    link = page.locator("#runs a").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")


@pytest.mark.soak
def test_tables_work_without_a_script(visit):
    seen = visit(java_script_enabled=False)
    page = seen.open("/?q=stub-met&status=met")
    assert page.locator("#runs tbody tr").count() == 2
    page.get_by_label("compare stub-met-1").check()
    page.get_by_label("compare stub-met-2").check()
    shown(page, "compare").click()
    assert page.locator("[data-testid=compared] thead a").count() == 2
    page = seen.open("/runs/stub-met-1")
    assert page.locator("noscript svg, svg").count() > 0 and shown(page, "verdict").inner_text() == "target met"
    page = seen.open("/runs/stub-met-1/why?epoch=1&loss=0.9")
    assert "reach loss 0.9" in shown(page, "answer").inner_text()
    page = seen.open("/scenario?preset=smart_factory")
    shown(page, "check").click()
    assert shown(page, "answer").is_visible()


@pytest.mark.soak
def test_a_phone_shows_all_of_it(visit):
    seen = visit(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    for path in PAGES[:-1]:
        page = seen.open(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 361, (path, wide)


@pytest.mark.soak
def test_a_scenario_is_checked_then_planned(visit):
    page = visit().open("/scenario?preset=smart_factory")
    text = shown(page, "text").input_value()
    shown(page, "text").fill(text.replace("[target]", "[target]\nlos = 3", 1))
    shown(page, "check").click()
    assert "los" in shown(page, "faults").inner_text()
    shown(page, "text").fill(text)
    shown(page, "check").click()
    shown(page, "answer").wait_for()
    assert "sure to reach" in shown(page, "answer").inner_text()


@pytest.mark.soak
def test_a_pipeline_is_drawn(visit):
    page = visit().open("/scenario?preset=far_pipeline")
    shown(page, "check").click()
    shown(page, "schedule").wait_for()
    assert "B0" in shown(page, "schedule").inner_text() and "KiB" in shown(page, "memory").inner_text()


@pytest.mark.soak
def test_words_of_users_stay_words_in_the_page(visit, folder):
    attack = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    write_run(RunStore.open(folder), "attack-1", Sample(name=attack, description=attack, notes=(attack,)))
    seen = visit()
    for path in ("/", "/runs/attack-1", "/compare?run=attack-1&run=stub-met-1", "/runs/attack-1/report"):
        page = seen.open(path)
        page.wait_for_load_state()
        assert page.locator("img").count() == 0 and page.title() not in ("1", "2")


@pytest.mark.soak
def test_a_report_opens_from_disk_and_prints(visit, folder, tmp_path):
    from relaytrain.report.run_html import report_html

    file = tmp_path / "report.html"
    file.write_text(report_html(RunView.of(RunStore.open(folder).events("stub-met-1"))), encoding="utf-8")
    seen = visit()
    seen.page.goto("about:blank")
    seen.context.set_offline(True)
    seen.page.goto(file.as_uri())
    assert seen.page.locator("#verdict").inner_text() == "target met"
    assert seen.page.pdf()[:5] == b"%PDF-"


@pytest.mark.soak
def test_the_list_follows_a_run_that_begins(visit, folder):
    page = visit().open("/")
    with live(folder, "begun-later-1") as going:
        until(page, "!!document.querySelector('[data-run=begun-later-1]')")
        going.step()
        until(page, "document.querySelector('[data-run=begun-later-1]').innerText.includes('running')")

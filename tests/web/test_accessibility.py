"""axe-core on every page, light and dark, wide and narrow: nothing serious may be found."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import dashboard, launched
from dashboards import fill

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright")
pytestmark = [pytest.mark.slow, pytest.mark.soak]

VERSION = "4.14.0"
SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
PAGES = (
    "/",
    "/runs/stub-met-1",
    "/runs/sample-trouble",
    "/runs/stub-met-1/why?epoch=1",
    "/compare?run=stub-met-1&run=stub-met-2",
    "/compare",
    "/audit",
    "/scenario?preset=far_pipeline",
    "/runs/not-there-1",
)
LOOKS: tuple[dict[str, Any], ...] = (
    {"color_scheme": "light", "viewport": {"width": 1200, "height": 900}},
    {"color_scheme": "dark", "viewport": {"width": 390, "height": 800}},
)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of the npm package, as published."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here to fetch axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    got = subprocess.run(
        ["npm", "pack", f"axe-core@{VERSION}"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    if got.returncode != 0:
        pytest.skip(f"npm cannot fetch axe-core {VERSION}: {got.stderr.strip().splitlines()[-1:]}")
    file = folder / f"axe-core-{VERSION}.tgz"
    with tarfile.open(file) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member is not None
        script = member.read()
    assert hashlib.sha256(script).hexdigest() == SHA256
    return script.decode("utf-8")


def still_reading() -> str:
    """The page that is shown while a long run, or all of them, are being read."""
    from relaytrain.report.page_templates import environment
    from relaytrain.web.dashboard import HERE

    words = {"here": "/audit", "store": "runs", "words": "all runs, to audit them"}
    return environment(HERE / "templates").get_template("reading.html").render(words)


def serious(page: Page, axe: str) -> list[str]:
    """What axe objects to in a page, in words."""
    page.evaluate(axe)
    told = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    found = [rule for rule in told["violations"] if rule["impact"] in ("serious", "critical")]
    places = [(rule["nodes"][0]["target"], rule["nodes"][0]["failureSummary"].splitlines()[-1]) for rule in found]
    return [f"{rule['id']} x{len(rule['nodes'])} {where}" for rule, where in zip(found, places, strict=True)]


def test_axe_finds_nothing_serious(axe: str, tmp_path: Path) -> None:
    found: list[str] = []
    checked = 0
    store = fill(tmp_path / "runs")
    with dashboard(store.folder) as address, launched() as browser:
        base = address.partition("/?")[0]
        for look in LOOKS:
            context = browser.new_context(bypass_csp=True, **look)
            page = context.new_page()
            page.goto(address)
            page.wait_for_url(f"{base}/")
            for path in PAGES:
                page.goto(base + path)
                page.wait_for_function("!document.querySelector('[data-testid=reading]')")
                if path.startswith("/scenario"):
                    page.get_by_test_id("check").click()
                    page.get_by_test_id("answer").wait_for()
                found += [f"{look['color_scheme']} {path}: {words}" for words in serious(page, axe)]
                checked += 1
            page.route("**/audit", lambda asked: asked.fulfill(body=still_reading(), content_type="text/html"))
            page.goto(f"{base}/audit")
            page.get_by_test_id("reading").wait_for()
            found += [f"{look['color_scheme']} still reading: {words}" for words in serious(page, axe)]
            context.close()
    print(f"{checked} pages checked")
    assert found == []

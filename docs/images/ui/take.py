"""Take the pictures of this folder anew: every page, light and dark, on a desktop and on a phone.

    python docs/images/ui/take.py STORE

STORE holds at least three finished runs. Run it from the project's folder; Chromium is found as by the tests.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "web"))

from browser import dashboard, launched

HERE = Path(__file__).parent
LOOKS = {
    "desktop-dark": {"viewport": {"width": 1200, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True},
    "desktop": {"viewport": {"width": 1200, "height": 860}, "color_scheme": "light"},
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "is_mobile": True},
}


def main(folder: str) -> None:
    """Every page in every look."""
    from relaytrain.store import RunStore

    names = [row.run for row in RunStore.open(folder).runs() if row.status in ("met", "missed")]
    piped = next((name for name in names if name.startswith("far")), names[0])
    run = next((name for name in names if name.startswith("quickstart")), names[0])
    pages = {
        "runs": "/",
        "run": f"/runs/{run}",
        "why": f"/runs/{run}/why?epoch=12",
        "compare": "/compare?" + "&".join(f"run={name}" for name in names[:3]),
        "audit": "/audit",
        "scenario": "/scenario?preset=smart_factory",
        "pipeline": f"/runs/{piped}/pipeline",
    }
    with dashboard(Path(folder)) as address, launched() as browser:
        base = address.partition("/?")[0]
        for look, options in LOOKS.items():
            context = browser.new_context(**options)
            context.set_default_timeout(120_000)
            page = context.new_page()
            page.goto(address)
            page.wait_for_url(f"{base}/")
            for name, path in pages.items():
                page.goto(base + path)
                page.locator("main:not(:has([data-testid=reading])) footer").wait_for(state="attached")
                if name == "run":
                    page.wait_for_selector("#run[data-ready=yes]")
                if name == "scenario":
                    page.get_by_test_id("check").click()
                    page.get_by_test_id("answer").wait_for()
                    page.get_by_test_id("answer").scroll_into_view_if_needed()
                page.evaluate("document.querySelector('footer').remove()")  # it names the store's folder
                # on a busy machine the picture would else be of the page before
                page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                page.wait_for_timeout(1000)
                page.screenshot(path=HERE / f"{name}-{look}.png", scale="css")
            context.close()


if __name__ == "__main__":
    main(sys.argv[1])

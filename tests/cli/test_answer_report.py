"""`--report FILE.html`: an answer as one page that needs nothing else, for every verb that answers."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.slow
ANSWERS = {
    "plan": (("plan", "smart_factory"), ("L on gold", "92.4")),
    "compare": (("compare", "smart_factory"), ("one-switch", "static-learn", "92.4")),
    "front": (("front", "epoch_example"), ("deadline",)),
    "simulate": (("simulate", "worlds", "--worlds", "4", "--rule", "robust", "--mode", "tight"), ("robust",)),
    "pipeline plan": (("pipeline", "plan", "cnn"), ("stage",)),
}
NEED_TORCH = ("pipeline plan",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.train if name in NEED_TORCH else ()) for name in ANSWERS]
)
def test_an_answer_is_written_as_one_page(relaytrain, tmp_path, name):
    words, told = ANSWERS[name]
    file = tmp_path / "answer.html"
    plain = relaytrain(*words)
    written = relaytrain(*words, "--report", str(file))
    assert written.status == plain.status == 0
    assert written.out == plain.out
    page = file.read_text()
    assert page.lower().startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "@media print" in page and "<table" in page
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert f"relaytrain {' '.join(words)} --report" in page
    for word in told:
        assert word.lower() in page.lower(), word


def test_a_page_that_cannot_be_written_is_said_before_the_work(relaytrain, tmp_path):
    ended = relaytrain("plan", "smart_factory", "--report", str(tmp_path / "nowhere" / "answer.html"))
    assert ended.status == 2 and "nowhere" in ended.err

"""The report: one file without scripts or outside resources, every string of the user's escaped, small for long
runs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from sample_run import Sample, started, write_run

from relaytrain.core.errors import ScenarioError
from relaytrain.report.baselines import Baseline, read_baselines
from relaytrain.report.run_html import MAX_BYTES, command, report_html
from relaytrain.report.run_view import RunView
from relaytrain.scenario import load_scenario
from relaytrain.store import Clock, Event, RunStore

ATTACK = "<script>alert('{0}')</script>\"'><img src=x onerror={0}()> & {{{{ {0} }}}} \x00\x1b\ud800"
WORDS = ("full", "medium", "small", "gold", "silver", "bronze", "cloud", "edge-1", "edge-2", "far-1", "far-2", "far-3")
REASONS = ("killed by signal 9", "loss became non-finite")


class Page(HTMLParser):
    """What a browser would make of it: tags, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def hostile() -> Sample:
    names = {word: ATTACK.format(word.replace("-", "")) for word in (*WORDS, *REASONS)}
    extra = {
        "planner": ATTACK.format("planner"),
        "seed": ATTACK.format("seed"),
        "machine": ATTACK.format("machine"),
        "preset": ATTACK.format("preset"),
        "packages": {ATTACK.format("package"): ATTACK.format("version")},
        "versions": {ATTACK.format("network"): {"parameters": ATTACK.format("parameters")}},
    }
    return Sample(
        name=ATTACK.format("name"),
        description=ATTACK.format("description"),
        rename=names,
        notes=(ATTACK.format("note"),),
        extra=extra,
        planner=ATTACK.format("planner"),
    )


def test_hostile_strings_stay_text(play):
    view = play(hostile())
    rows = [Baseline(ATTACK.format("baseline"), 1.0, 1.0, "trained")]
    html = report_html(view, baselines=rows)
    html.encode()  # no lone surrogate is left
    assert "\x00" not in html and "\x1b" not in html
    page = Page(html)
    assert not {"script", "img", "iframe", "object", "embed", "link", "base", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    for word in (
        "name",
        "description",
        "full",
        "small",
        "gold",
        "edge2",
        "note",
        "planner",
        "package",
        "network",
        "baseline",
    ):
        assert f"alert('{word}')" in page.text, word
    assert "{{ full }}" in page.text  # templates inside strings are not followed
    for reason in REASONS:
        assert f"alert('{reason.replace('-', '')}')" in page.text


def test_nothing_is_fetched(play):
    page = Page(report_html(play()))
    assert not [pair for pair in page.attributes if pair[0] in ("src", "href", "srcset", "data", "action", "poster")]
    assert not [value for name, value in page.attributes if "://" in value and name != "xmlns"]
    style = "".join(page.words)
    assert "url(" not in style and "@import" not in style
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in page.attributes


def test_it_says_what_came(play):
    view = play(Sample(notes=("target reached",)))
    page = Page(report_html(view))
    below = view.asked.loss - view.loss
    assert "target met" in page.text and f"{below:.3g} below the target 0.4" in page.text
    assert "useful + wasted = total" in page.text and "modelled" in page.text and "target reached" in page.text
    assert "node edge-2 failed: killed by signal 9" in page.text
    assert "rolled back to epoch 17: loss became non-finite" in page.text
    assert "full on gold ×7 → medium on silver ×10 → small on bronze ×16" in page.text, "the first plan"
    assert command(view) == "relaytrain run quickstart.json" and command(view) in page.text
    assert "torch 2.13.0" in page.text and '"charge' not in page.text
    inside = sum(e.in_band for e in view.epochs)
    assert f"{inside} of {len(view.epochs)} epochs" in page.text


def test_the_scenario_in_it_is_the_runs(play):
    resolved = load_scenario("quickstart", overrides=["target.deadline=inf"]).resolved
    html = report_html(play(Sample(extra={"scenario": resolved})))
    inside = unescape(html.partition("Save it under the name")[2].partition("<pre>")[2].partition("</pre>")[0])
    assert load_scenario(json.loads(inside)).resolved == resolved


def test_the_command_says_what_the_scenario_does_not(play):
    other = play(Sample(name="my run", extra={"seed": 8, "planner": "single"}))
    assert command(other) == "relaytrain run 'my run.json' --set training.seed=8 --set planner.name=single"
    kept = play(Sample(extra={"command": "relaytrain run my.toml --seed 7"}), "quickstart-0002")
    assert command(kept) == "relaytrain run my.toml --seed 7"


def test_a_missed_target_says_by_how_much(play):
    page = Page(report_html(play(Sample(target=0.1, deadline_s=100.0))))
    assert "target missed" in page.text and "above the target 0.1" in page.text and "too late" in page.text


@pytest.mark.parametrize("stop_after", [0, 1, 4])
def test_a_run_that_is_not_finished(play, stop_after):
    page = Page(report_html(play(Sample(stop_after=stop_after))))
    assert "interrupted" in page.text and "relaytrain resume quickstart-0001" in page.text


def test_figures_do_not_hang_on_units(play):
    view = play()
    plain = replace(view, asked=replace(view.asked, time_unit="", energy_unit="cost", deadline_s=math.inf, loss=None))
    page = Page(report_html(plain))
    assert "824.5 cost" in page.text and "no deadline" in page.text and " J " not in page.text


def test_the_same_run_gives_the_same_bytes(store, play):
    view = play()
    assert report_html(view) == report_html(RunView.of(store.events(view.run)))


def test_baselines_stand_beside_the_run(play, tmp_path):
    file = tmp_path / "others.json"
    file.write_text(
        '[{"name": "single/full", "energy": 1649.0, "success": false, "how": "trained"}, {"name": "x", "success": 0.7}]'
    )
    rows = read_baselines(file)
    assert rows[1] == Baseline("x", None, 0.7, "predicted")
    view = play()
    page = Page(report_html(view, baselines=rows))
    assert "single/full no 1.65 kJ" in page.text and f"{1649.0 / view.totals.energy_j:.2f}×" in page.text
    assert "70%" in page.text and "predicted" in page.text


@pytest.mark.parametrize(
    "text", ["{}", "[1]", '[{"name": "a", "how": "guessed"}]', '[{"name": "a", "success": 3}]', "[", "\xff"]
)
def test_wrong_baselines_are_refused(tmp_path, text):
    file = tmp_path / "others.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ScenarioError, match="expected"):
        read_baselines(file)


def long_run(epochs: int) -> RunView:
    """Many epochs, a handover every ten, a new plan each time, long names and reasons."""
    name = "version-" + "x" * 300
    rows = [("run_started", None, {**started(Sample()), "scenario": {"name": "n" * 5000, "law": list(range(200_000))}})]
    for epoch in range(1, epochs + 1):
        pair = {"version": f"{name}-{epoch // 10 % 7}", "nodes": f"nodes-{epoch // 10 % 50}"}
        legs = [{**pair, "first_epoch": epoch, "last_epoch": epoch + epoch % 13, "elapsed_s": 1.0, "energy_j": 1.0}]
        predicted = {"loss": 1.0, "guaranteed": 1.1, "elapsed_s": 1.0, "energy_j": 1.0, "level": 0.95}
        rows.append(("planned", epoch, {"decision": pair, "plan": {"legs": legs}, "predicted": predicted}))
        if epoch % 10 == 0:
            rows.append(
                ("handover", epoch, {"kind": "prune", "before": ["a", "b"], "after": [pair["version"], pair["nodes"]]})
            )
            rows.append(("node_failed", epoch, {"node": name, "reason": "r" * 2000}))
        nodes = [{"node": f"node-{n}-{epoch % 300}", "energy_j": 0.1} for n in range(3)]
        rows.append(
            ("epoch_done", epoch, {"decision": pair, "loss": 1.0, "energy_j": 1.0, "elapsed_s": 1.0, "nodes": nodes})
        )
    return RunView.of(Event("long-run-1", n, k, e, b, 1, float(n), float(n)) for n, (k, e, b) in enumerate(rows, 1))


@pytest.mark.slow
def test_long_runs_make_small_files():
    view = long_run(3000)
    html = report_html(view)
    assert len(html.encode()) <= MAX_BYTES
    page = Page(html)
    assert "2800 of 3000 epochs are left out" in page.text and "and 860 more nodes" in page.text
    assert "The scenario is not shown here" in page.text


def test_when_it_ran_is_said_and_a_clock_of_another_world_is_unknown(play, tmp_path):
    assert "started 2026-01-01 00:00:0" in Page(report_html(play())).text
    store = RunStore.open(tmp_path / "wild", clock=Clock(wall_s=lambda: 1e18))
    write_run(store, "quickstart-0002")
    page = Page(report_html(RunView.of(store.events("quickstart-0002"))))
    assert "started unknown last event unknown" in page.text

"""Bugs that users met, each in its smallest form."""

from __future__ import annotations

import json
import math
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from forked import relaytrain
from mistakes import MODULE, SCENARIO
from torch import nn

import relaytrain as rt

HERE = Path(__file__).parent
TINY = 1e-9


# --- "no plan needs less than 14.5 J" above an alternative of 12.6 J


def _check_bound(plan: rt.Plan) -> None:
    """The bound is below every plan there is, the gap is the distance to it, and exact means no gap."""
    said = plan.to_dict()
    others = [other["energy_j"] for other in said["alternatives"] if other["energy_j"] is not None]
    if not said["feasible"]:
        return
    assert said["bound_j"] <= said["energy_j"] + TINY
    assert said["bound_j"] <= min(others, default=math.inf) + TINY, f"an alternative needs {min(others):.4g} J only"
    assert said["gap"] == pytest.approx((said["energy_j"] - said["bound_j"]) / said["bound_j"], abs=1e-9)


def test_no_alternative_is_below_the_proven_bound():
    """A cheaper first step is shown as not sure enough; the bound still has to be true of all plans it speaks of."""
    _check_bound(rt.plan(str(HERE / "bound.toml")))


@pytest.mark.parametrize("grid", [False, True])
def test_bounds_hold_in_a_comparison_too(grid):
    """No planner may say that nothing needs less than it while another one needs less; on a grid, it speaks of that."""
    coarse = ("planner.grid.loss_step=0.02", "planner.grid.time_step=1s") if grid else ()
    plans = rt.compare(str(HERE / "bound.toml"), overrides=coarse).plans
    for name, plan in plans.items():
        everywhere = "grid" not in plan.bounded
        assert everywhere or (grid and name.startswith("pact/"))
        if everywhere and plan.feasible and math.isfinite(plan.bound_j):
            _check_bound(plan)
            assert plan.bound_j <= plans["optimum"].energy_j + TINY, name


def test_the_words_of_the_bound_do_not_contradict_the_alternatives(tmp_path):
    said = relaytrain("plan", HERE / "bound.toml", folder=tmp_path).out
    bound = re.search(r"no (.*) needs less than ([\d.]+) J", said)
    assert bound is not None
    cheaper = [line for line in said.splitlines() if re.match(r"  net on \w+ +[\d.]+ J", line)]
    for line in cheaper:
        found = re.search(r"([\d.]+) J", line)
        assert found is not None
        assert float(found[1]) >= float(bound[2]) or re.search(r"sure|level", line), f"{bound[0]!r} but {line!r}"


@pytest.mark.parametrize("loss", [1.6, 1.2, 0.8])
def test_bounds_hold_under_a_fitted_law(loss):
    shipped = next(Path(str(rt.__file__)).parent.rglob("zero-trace.npz"))
    changes = ["estimator.name=zero-trace", f"estimator.fitted={json.dumps(str(shipped))}", f"target.loss={loss}"]
    for deadline in ("30s", "5h"):
        _check_bound(rt.plan("quickstart", rule="adaptive", overrides=[*changes, f"target.deadline={deadline}"]))


# --- a negative expected loss


@pytest.mark.parametrize("preset", ["depl_digits", "depl_alexnet", "depl_mobilenet"])
def test_no_loss_is_expected_below_zero(preset):
    plan = rt.plan(preset)
    assert min(plan.losses) >= 0.0
    assert min(leg.loss for leg in plan.legs) >= 0.0
    assert not re.search(r"loss (-> )?-\d", plan.explain())


# --- rt.train without data for a node


def _part(count: int) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(count) % 3
    images = np.random.default_rng(count).normal(labels[:, None, None, None], 0.3, (count, 1, 4, 4))
    return images.astype(np.float32), labels


def test_train_names_the_node_that_has_no_data(tmp_path):
    (tmp_path / "mine.toml").write_text(SCENARIO.partition("[data]")[0].replace('factory = "mine:net"\n', ""))
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    data = {"server": _part(30), "box-1": _part(20), "validation": _part(12), "test": _part(12)}
    with pytest.raises(rt.RelayTrainError, match="box-2") as caught:
        rt.train(network, data, tmp_path / "mine.toml", store=tmp_path / "runs")
    assert getattr(caught.value, "exit_status", 1) in (2, 3)


def test_train_names_data_that_no_node_takes(tmp_path):
    (tmp_path / "mine.toml").write_text(SCENARIO.partition("[data]")[0].replace('factory = "mine:net"\n', ""))
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    data = {name: _part(20) for name in ("server", "box-1", "bocks-2", "validation", "test")}
    with pytest.raises(rt.RelayTrainError, match=r"bocks-2|box-2"):
        rt.train(network, data, tmp_path / "mine.toml", store=tmp_path / "runs")


def test_train_says_whose_arrays_are_empty(tmp_path):
    (tmp_path / "mine.toml").write_text(SCENARIO.partition("[data]")[0].replace('factory = "mine:net"\n', ""))
    data = {name: _part(20) for name in ("server", "box-1", "validation", "test")}
    with pytest.raises(rt.RelayTrainError, match="box-2: no images at all"):
        rt.train(nn.Linear(16, 3), {**data, "box-2": _part(0)}, tmp_path / "mine.toml", store=tmp_path / "runs")


# --- Session.tell with something that is no number


@pytest.mark.parametrize("loss", ["0.5", None, [0.5], {}, b"1"])
def test_a_wrong_tell_keeps_the_open_decision(loss):
    with rt.Session("fig5") as session:
        decision = session.ask()
        with pytest.raises(rt.RelayTrainError, match="loss"):
            session.tell(loss)
        assert session.ask() == decision, "still open"
        assert session.tell(0.5)


@pytest.mark.parametrize("name", ["elapsed_s", "energy_j", "handover_loss"])
def test_a_wrong_cost_keeps_the_open_decision(name):
    with rt.Session("fig5") as session:
        session.ask()
        with pytest.raises(rt.RelayTrainError, match=name):
            session.tell(0.5, **{name: "many"})
        assert session.tell(0.5)


# --- evaluate calls its own training traces held out


@pytest.mark.soak
def test_evaluate_says_when_a_file_was_fitted_on_these_very_traces(tmp_path):
    assert relaytrain("fit", "depl-small", "fit.npz", "--estimator", "paper", folder=tmp_path).status == 0
    said = relaytrain("evaluate", "depl-small", "--fitted", "fit.npz", folder=tmp_path)
    assert said.status == 0, said.said
    assert "held out" not in said.out, said.out.splitlines()[0]
    assert re.search(r"fitted on (these|depl-small)|not held out|seen in training", said.said), said.said


@pytest.mark.slow
def test_evaluate_of_a_given_file_holds_nothing_out(tmp_path):
    """Nothing is fitted, so nothing can be held out of it: the title must not say so."""
    shipped = next(Path(str(rt.__file__)).parent.rglob("zero-trace.npz"))
    said = relaytrain("evaluate", "digits", "--fitted", shipped, folder=tmp_path)
    assert said.status == 0 and "held out" not in said.out.splitlines()[0], said.out.splitlines()[0]


# --- the report


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reported")
    (folder / "mine.py").write_text(MODULE)
    (folder / "mine.toml").write_text(SCENARIO)
    words = ("--name", "mine-reported", "--seed", "5", "--set", "target.loss=0.95")
    assert relaytrain("run", "mine.toml", *words, folder=folder).status == 0
    assert relaytrain("report", "mine-reported", "--out", "r.html", folder=folder).status == 0
    return folder


@pytest.mark.slow
def test_the_reports_command_reproduces_the_run(reported):
    """As printed, from the folder the run was started in."""
    found = re.search(r'<pre id="command">(.*?)</pre>', (reported / "r.html").read_text(), re.DOTALL)
    assert found is not None
    words = shlex.split(found[1].replace("&#34;", '"').replace("&#39;", "'").replace("&amp;", "&"))
    assert words[:2] == ["relaytrain", "run"]
    again = relaytrain(*words[1:], "--name", "mine-again", folder=reported)
    assert again.status == 0, f"{found[1]}: {again.said}"
    first, second = (
        json.loads(relaytrain("show", run, "--format", "json", folder=reported).out)["epochs"]
        for run in ("mine-reported", "mine-again")
    )
    assert first == second


PHONE_PX = 360
LEGIBLE_PX = 9.0


def test_text_in_the_chart_is_legible_on_a_narrow_page(reported):
    """A chart drawn for 960 points and squeezed into 360 has letters of four pixels."""
    page = (reported / "r.html").read_text()
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    charts = re.findall(r'<svg [^>]*viewBox="0 0 ([\d.]+) [\d.]+".*?</svg>', page, re.DOTALL)
    assert charts
    wide = re.search(r"svg[^{}]*\{[^}]*min-width: *(\d+)px", style[1])
    for drawing in re.finditer(r'<svg [^>]*viewBox="0 0 ([\d.]+) [\d.]+".*?</svg>', page, re.DOTALL):
        smallest = min(float(size) for size in re.findall(r'font-size="([\d.]+)"', drawing[0]))
        shown = max(PHONE_PX - 52.0, float(wide[1]) if wide else 0.0)
        assert smallest * shown / float(drawing[1]) >= LEGIBLE_PX, f"{smallest * shown / float(drawing[1]):.1f} px"


class _Tables(HTMLParser):
    """Counts tables that no element with a scroll bar of its own holds; a table itself never scrolls."""

    BOXES = ("div", "section", "figure", "main", "details")

    def __init__(self, scrolling: set[str], inside: set[str]) -> None:
        super().__init__()
        self.scrolling, self.inside, self.cut = scrolling, inside, 0
        self.open: list[tuple[set[str], bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = set((dict(attrs).get("class") or "").split())
        self.cut += tag == "table" and not any(scrolls for _, scrolls in self.open)
        if tag in self.BOXES:
            parent = self.open[-1][0] if self.open else set()
            self.open.append((classes, bool(classes & self.scrolling or parent & self.inside)))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.BOXES:
            self.open.pop()


def test_no_table_of_the_report_is_cut_on_a_narrow_page(reported):
    page = (reported / "r.html").read_text()
    scrolling = set(re.findall(r"\.([\w-]+) \{[^}]*overflow-x: *auto", page))
    inside = set(re.findall(r"\.([\w-]+) > \* \{[^}]*overflow-x: *auto", page))
    parser = _Tables(scrolling, inside)
    parser.feed(page)
    assert parser.cut == 0, f"{parser.cut} tables wider than a phone have nothing to scroll in"


# --- front --figure


def test_the_axis_of_front_reaches_the_deadlines_asked_for(tmp_path):
    words = ("--deadline", "2m", "--deadline", "5m", "--figure", "front.svg")
    assert relaytrain("front", "quickstart", *words, folder=tmp_path).status == 0
    drawn = (tmp_path / "front.svg").read_text()
    ticks = re.findall(r'text-anchor="middle">(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s?)?</text>', drawn)
    last_s = max(3600 * float(h or 0) + 60 * float(m or 0) + float(s or 0) for h, m, s in ticks)
    assert last_s >= 240, f"the axis ends near {last_s:g} s"

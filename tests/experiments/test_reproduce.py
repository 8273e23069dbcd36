"""Files, determinism and the registry: what the command line relies on."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relaytrain import experiments
from relaytrain.core.errors import UsageError
from relaytrain.core.state import Grid
from relaytrain.experiments import Reproduction, available, run, run_all
from relaytrain.experiments.pact import fig6, fig8, fig9
from relaytrain.experiments.pact.graph import reachable_graph
from relaytrain.experiments.pact.smart_factory_runs import TARGETS, benchmark, closed_loop, factory, paper_grid
from relaytrain.experiments.pact.sweep import Sweep
from relaytrain.experiments.result import Finding, findings_markdown

Reproduced = Callable[[str], Reproduction]
PNG = b"\x89PNG\r\n\x1a\n"


def test_available_names_every_figure() -> None:
    assert [name for name in available() if name.startswith("pact")] == [
        "pact-fig2",
        "pact-fig4",
        "pact-table1",
        "pact-table1-mixed",
        *(f"pact-fig{number}" for number in (5, 6, 7, 8, 9)),
        "pact-algorithm3",
        "pact-gamma-t",
    ]
    assert [name for name in available() if name.startswith("depl")] == [
        "depl-fig2",
        "depl-fig4",
        "depl-table1",
        *(f"depl-fig{number}" for number in (5, 6, 7, 8, 9)),
    ]
    assert "mcpipe-fig1" in available()
    assert all(line and "\n" not in line for line in available().values())


@pytest.mark.parametrize("name", ["pact-fig5", "pact-fig6", "pact-fig7", "mcpipe-fig1"])
def test_files_are_there_and_of_their_kind(reproduced: Reproduced, name: str) -> None:
    made = reproduced(name)
    png, svg, table = made.files
    assert [path.name for path in made.files] == [f"{name}.png", f"{name}.svg", f"{name}.csv"]
    assert png.read_bytes().startswith(PNG)
    assert b"<svg" in svg.read_bytes()[:2000]
    assert table.read_text().splitlines()[0] == ",".join(made.rows[0])
    assert len(table.read_text().splitlines()) == len(made.rows) + 1
    assert sorted(path.name for path in png.parent.iterdir()) == sorted(path.name for path in made.files)


@pytest.mark.slow
def test_another_rule_stands_beside_pact(tmp_path: Path) -> None:
    made = run("pact-fig7", tmp_path, formats=("svg",), rule="sampled")
    assert [path.name for path in made.files] == ["pact-fig7-sampled.svg", "pact-fig7-sampled.csv"]
    cost = {(row["l_max"], row["strategy"]): row["cost"] for row in made.rows}
    for target in (0.15, 0.3, 0.45):
        best = cost[target, "Optimum"]
        assert best - 1e-9 <= cost[target, "sampled"] <= 1.02 * best < cost[target, "StaticLearn"]
    assert made.as_expected  # the paper's findings are judged without it


@pytest.mark.slow
@pytest.mark.parametrize("number", [6, 8, 9])
def test_rules_are_drawn_in_the_other_figures_too(tmp_path: Path, number: int) -> None:
    made = run(f"pact-fig{number}", tmp_path, formats=("svg",), rule="adaptive")
    assert made.files[0].name == f"pact-fig{number}-adaptive.svg" and made.as_expected
    assert any("`adaptive" in note and "cost over the optimum" in note for note in made.notes)


def test_a_rule_is_refused_where_it_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"got a rule, expected none.*pact-fig6"):
        run("mcpipe-fig1", tmp_path, rule="sampled")
    with pytest.raises(UsageError, match=r"got 'bold'.*sampled"):
        run("pact-fig7", tmp_path, rule="bold")


@pytest.mark.slow
def test_same_files_each_time(reproduced: Reproduced, tmp_path: Path) -> None:
    """Also from a process of its own, where hashes are salted differently."""
    formats = "formats=('png', 'svg', 'pdf')"
    code = f"import sys; from relaytrain.experiments import run; run('pact-fig5', sys.argv[1], {formats})"
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-W", "error", "-c", code, str(other)], check=True, timeout=300)
    again = run("pact-fig5", tmp_path / "again", formats=("pdf",))
    for path in {*reproduced("pact-fig5").files, *again.files}:
        assert path.read_bytes() == (other / path.name).read_bytes()


def test_to_dict_is_json(reproduced: Reproduced) -> None:
    plain = reproduced("pact-fig5").to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["schema"] == "relaytrain.reproduction/1"
    assert {"figure", "finding", "holds", "why"} <= plain["findings"][0].keys()


@pytest.mark.slow
def test_all_closes_with_one_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the two quickest experiments: the loop and its table do not depend on which they are."""
    for name in set(available()) - {"pact-fig5", "pact-fig7"}:
        monkeypatch.delitem(experiments._EXPERIMENTS, name)
    lines: list[str] = []
    made = run_all(tmp_path / "figures", lines.append, formats=("png",))
    assert [line[:16] for line in lines] == ["[1/2] pact-fig5:", "[2/2] pact-fig7:"]
    assert [one.name for one in made.reproductions] == ["pact-fig5", "pact-fig7"]
    assert [list(row) for row in made.rows] == [["figure", "finding", "holds", "why"]] * len(made.findings)
    assert all(path.is_file() for path in made.files)
    assert made.summary.read_text() == findings_markdown(made.findings)
    assert json.loads(json.dumps(made.to_dict(), allow_nan=False)) == made.to_dict()


def test_unknown_names_and_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"got 'pact-fig55', expected one of .*did you mean 'pact-fig5'"):
        run("pact-fig55", tmp_path)
    with pytest.raises(UsageError, match=r"no option 'dpi', expected one of formats"):
        run("pact-fig5", tmp_path, dpi=300)
    with pytest.raises(UsageError, match=r"formats: got 'jpg', expected some of png, svg, pdf"):
        run("pact-fig5", tmp_path, formats=("jpg",))
    assert list(tmp_path.iterdir()) == []


def test_names_may_be_written_with_underscores(tmp_path: Path) -> None:
    assert run("pact_fig5", tmp_path, formats=("svg",)).name == "pact-fig5"


def test_without_matplotlib_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=r"need matplotlib.*relaytrain\[figures\]"):
        run("pact-fig5", tmp_path)


def test_listing_needs_no_heavy_import() -> None:
    code = (
        "import sys; from relaytrain.experiments import available; available();"
        "print([m for m in ('matplotlib', 'numba', 'torch', 'sklearn', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "[]"


def test_a_verdict_that_changes_is_seen() -> None:
    """A world in which PACT is the optimum contradicts a shipped finding; its shipped reason is then left out."""
    runs = {target: dict.fromkeys(fig6.STRATEGIES, benchmark("Optimum", factory(target))) for target in TARGETS}
    expected = fig6.expected_of(fig6.__file__)
    found = fig6.judged("Fig. 6", expected, fig6.checks(runs, expected))
    by_text = {one.finding: one for one in found}
    dearer = by_text[expected["earlier-but-dearer"].finding]
    assert (dearer.holds, dearer.expected) == (False, True)
    assert expected["earlier-but-dearer"].why not in dearer.why
    assert dearer.why.endswith("Differs from the shipped run: yes there.")


def test_what_one_point_or_no_change_decides_is_not_shown() -> None:
    """One resolution says nothing of several, and biases that change no decision nothing of biases."""
    best = {target: benchmark("Optimum", factory(target)) for target in TARGETS}
    others = {"Optimum": best, "StaticLearn": best}
    expected = fig6.expected_of(fig8.__file__)
    one = fig8.checks(Sweep({1e-5: best}, others), expected)
    assert [one[key][0] for key in ("later-switches", "higher-cost", "not-longer")] == [None] * 3
    expected = fig6.expected_of(fig9.__file__)
    same = fig9.checks(Sweep(dict.fromkeys((-0.6, 0.0, 0.6), best), others), expected)
    assert {key for key, (holds, _) in same.items() if holds is None} >= {"small-harm", "similar", "sign", "not-dearer"}
    found = fig6.judged("Fig. 9", expected, same)
    assert {one.word for one in found if one.holds is None} == {"not shown"}
    assert "| **not shown** |" in findings_markdown(found)


def test_closed_loop_without_a_grid_is_the_optimum() -> None:
    """Property 3: with exact expected predictions PACT decides as the optimum does."""
    for target in (0.15, 0.35, 0.45):
        where = factory(target)
        exact = closed_loop("exact", where, grid=None)
        assert exact.reached
        assert exact.cost == pytest.approx(benchmark("Optimum", where).cost)


def test_closed_loop_stops_where_the_grid_leaves_no_path() -> None:
    where = factory(0.15)
    lost = closed_loop("coarse", where, grid=paper_grid(3e-4))
    assert (lost.reached, lost.cost, lost.switches) == (False, float("inf"), ())
    # A graph that can be built in full agrees: with steps above every gain nothing is ever won.
    easy = factory(0.9)
    assert reachable_graph(easy, Grid(0.01, 50.0, 1.2)).feasible
    assert not reachable_graph(easy, Grid(0.3, 50.0, 1.2)).feasible


def test_markdown_marks_what_the_paper_does_not_state() -> None:
    text = findings_markdown(
        (Finding("Fig. 8", "a cliff", True, "seen.", source="here"), Finding("Fig. 9", "b", False, "no."))
    )
    assert "a cliff *(seen here, not stated in the paper)* | yes | seen. |" in text
    assert "| Fig. 9 | b | **no** | no. |" in text


@pytest.mark.train
@pytest.mark.slow
def test_fig2_trains_every_choice_and_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny network on digits: what is drawn is there and adds up; its verdicts say nothing."""
    pytest.importorskip("torch")
    from relaytrain.experiments.pact import fig2

    monkeypatch.setattr(fig2, "FULL", fig2.QUICK)
    monkeypatch.setattr(fig2, "SOURCES", ("nowhere", "digits"))
    for name in set(available()) - {"pact-fig2", "pact-fig5"}:
        monkeypatch.delitem(experiments._EXPERIMENTS, name)
    lines: list[str] = []
    every = {one.name: one for one in run_all(tmp_path, lines.append, formats=("svg",)).reproductions}
    assert set(every) == {"pact-fig2", "pact-fig5"}
    made = every["pact-fig2"]
    assert "minutes" in lines[0] and lines[1].startswith("[1/2] pact-fig5") and lines[2].startswith("[2/2] pact-fig2")
    assert "trains on digits (nowhere, which the paper used, is not on this machine" in lines[3]
    assert len(lines) == 4 + len(made.rows)  # one for each curve
    assert [(row["K1"], row["F"], row["joining"]) for row in made.rows] == [
        (k, f, j) for k in (1, 3) for f in (0.5, 0.9) for j in ("silver", "bronze")
    ]
    assert {found.finding.partition(":")[0] for found in made.findings} == {f"Observation {i}" for i in (1, 2, 3)}
    half, tenth = (next(row for row in made.rows if row["F"] == f) for f in (0.5, 0.9))
    assert tenth["epoch_s"] < half["epoch_s"] < half["seconds"]
    shared = [row["accuracy_before"] for row in made.rows if row["K1"] == 3]
    assert len(set(shared)) == 1, "branches start from one trained prefix"
    assert any("8000 : 2500 : 750" in note for note in made.notes)

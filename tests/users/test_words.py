"""Words that a newcomer knows, help that helps, completion."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked import relaytrain
from mistakes import MODULE, SCENARIO

VERBS = (
    "run",
    "plan",
    "compare",
    "simulate",
    "front",
    "validate",
    "new",
    "schema",
    "reproduce",
    "resume",
    "stop",
    "ls",
    "show",
    "rm",
    "report",
    "audit",
    "export",
    "doctor",
    "profile",
    "atlas",
    "collect",
    "fit",
    "evaluate",
)
PRESETS = (
    "deeper",
    "depl_alexnet",
    "depl_digits",
    "depl_mobilenet",
    "depl_placement",
    "epoch_example",
    "far_pipeline",
    "fashion",
    "fig5",
    "quickstart",
    "smart_factory",
    "worlds",
)
JARGON = ("instead, next", "level expected", "legs alone", "as if", "booked")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One small run: its folder, and what it said at its end."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "mine.py").write_text(MODULE)
    (folder / "mine.toml").write_text(SCENARIO)
    ran = relaytrain("run", "mine.toml", "--name", "mine-in-words", folder=folder)
    assert ran.status == 0, ran.said
    return folder, ran.out


# --- what runs and plans say


@pytest.mark.slow
def test_the_forecast_total_comes_with_its_interval_and_does_not_jump(tmp_path):
    """`12.3 J of 64.2 J`, then 22.6, then 63.2: the middle of the forecast, with what it may come to beside it."""
    ran = relaytrain("run", "quickstart", "--seed", "0", "--set", "target.loss=0.5", folder=tmp_path)
    assert ran.status == 0, ran.said
    totals = []
    for line in ran.err.splitlines():
        found = re.search(r"J of ([\d.]+) ?(?:J )?\(([\d.]+)( ?to ?|\.\.|-|–)([\d.]+)", line)
        if line.startswith("k "):
            assert found is not None, f"no interval: {line}"
            low, middle, high = float(found[2]), float(found[1]), float(found[4])
            assert low <= middle <= high
            totals.append(middle)
    jumps = [max(a, b) / min(a, b) for a, b in itertools.pairwise(totals)]
    assert max(jumps) < 2.0, f"the forecast jumps by a factor of {max(jumps):.1f}"


def test_prediction_sets_have_their_interval_and_count(trained):
    """`0.87 classes, the truth in 82.3 %` at 90 %: of how many images, and how sure is that figure itself?"""
    said = next(line for line in trained[1].splitlines() if "prediction sets" in line)
    assert re.search(r"of \d+ (test )?images", said), said
    assert re.search(r"truth in [\d.]+ ?% \([\d.]+ ?%? ?(to|-|–) ?[\d.]+ ?%", said), said


def test_a_picture_of_a_plan_never_says_target_met(tmp_path):
    assert relaytrain("plan", "quickstart", "--figure", "plan.svg", folder=tmp_path).status == 0
    assert "target met" not in (tmp_path / "plan.svg").read_text()


@pytest.mark.parametrize("probability", ["0.999", "0.9999"])
def test_a_probability_below_one_is_not_printed_as_certainty(tmp_path, probability):
    said = relaytrain("plan", "quickstart", "--set", f"target.probability={probability}", folder=tmp_path).out
    assert not re.search(r"\b100 ?% (sure|can)|for 100 ?%|from 100 ?%", said), said
    assert f"{float(probability) * 100:g}" in said


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "quickstart"),
        ("front", "quickstart"),
        ("compare", "fig5"),
        ("plan", "depl_digits"),
        ("profile", "--help"),
    ],
    ids=" ".join,
)
def test_no_jargon_in_answers(tmp_path, words):
    said = relaytrain(*words, folder=tmp_path).out
    assert [word for word in JARGON if re.search(rf"\b{word}\b", said)] == [], said


def test_no_jargon_in_the_report(trained):
    folder, _ = trained
    assert relaytrain("report", "mine-in-words", "--out", "r.html", folder=folder).status == 0
    page = re.sub(r"<details>.*?</details>", "", (folder / "r.html").read_text(), flags=re.DOTALL)
    assert [word for word in JARGON if re.search(rf"\b{word}\b", page)] == []


@pytest.mark.soak
def test_compiling_once_is_said_once(tmp_path):
    """On a machine without compiled code: once in all, not once a verb and again in the middle of a run."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "RELAYTRAIN_STORE": str(tmp_path / "runs")}
    said = ""
    for words in (["plan", "fig5"], ["plan", "quickstart"], ["run", "quickstart"], ["compare", "fig5"]):
        ended = subprocess.run(
            [sys.executable, "-m", "relaytrain", *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        said += ended.stderr
    assert said.count("compiling") == 1, said


# --- help


def test_relaytrain_alone_shows_help(tmp_path):
    call = relaytrain(folder=tmp_path)
    assert call.status == 0 and call.out.startswith("Usage: relaytrain") and call.err == "", call.said[:300]


def test_help_lists_all_presets(tmp_path):
    said = re.sub(r"\s+", " ", relaytrain("--help", folder=tmp_path).out)
    assert [name for name in PRESETS if not re.search(rf"\b{name}\b", said)] == []


def test_presets_are_listed_here_as_they_are(tmp_path):
    said = relaytrain("new", "a.toml", "--from", "nothing", folder=tmp_path).err
    listed = re.search(r"expected one of ([\w, -]+)", said)
    assert listed is not None and sorted(listed[1].split(", ")) == sorted(PRESETS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_prints_no_markup(tmp_path, verb):
    call = relaytrain(verb, "--help", folder=tmp_path)
    assert call.status == 0 and "\\[" not in call.out, call.out


# --- completion


def _completed(folder: Path, *words: str, env: dict[str, str] | None = None) -> list[str]:
    """What bash is offered after `words`; the last of them is being typed."""
    asked = {
        **os.environ,
        "_RELAYTRAIN_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("relaytrain", *words)),
        "COMP_CWORD": str(len(words)),
        **(env or {}),
    }
    code = "import sys; sys.argv[0] = 'relaytrain'; from relaytrain.cli.app import main; sys.exit(main([]))"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=asked, capture_output=True, text=True, timeout=300, check=False
    )
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("pl",), "plan"),
        (("plan", "quick"), "quickstart"),
        (("plan", "min"), "mine.toml"),
        (("run", "--planner", "one"), "one-switch"),
        (("plan", "--planner", "pa"), "pact"),
        (("show", "mine"), "mine-in-words"),
        (("resume", "mine"), "mine-in-words"),
        (("plan", "quickstart", "--set", "target.dead"), "target.deadline="),
        (("run", "mine.toml", "--set", "training.opt"), "training.optimizer="),
        (("plan", "quickstart", "--without", "sil"), "silver"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_completion(trained, words, offered):
    assert offered in _completed(trained[0], *words)


# --- the README


def test_the_readme_shows_what_any_machine_prints_or_says_what_differs():
    text = (Path(__file__).parents[2] / "README.md").read_text()
    trained = text.partition("relaytrain run quickstart")[2]
    assert re.search(
        r"(last digits|another machine|other machines|other processors|your machine).{0,80}(differ|other)",
        trained,
        re.DOTALL,
    )

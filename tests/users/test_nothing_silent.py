"""Nothing happens in silence: failures, devices that are not there, plans and bounds that broke, fallbacks, waiting."""

from __future__ import annotations

import itertools
import json
import re
import time
from pathlib import Path

import pytest
from fitted_file import write_fitted
from forked import Call, relaytrain
from mistakes import MODULE, SCENARIO

EPOCH = re.compile(r"^(k +\d+ .*)$", re.MULTILINE)


def _furnish(folder: Path) -> Path:
    (folder / "mine.py").write_text(MODULE)
    (folder / "mine.toml").write_text(SCENARIO)
    return folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return _furnish(tmp_path)


def _edit(folder: Path, before: str, after: str, file: str = "mine.toml") -> None:
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))


# --- nodes and devices


@pytest.fixture(scope="module")
def one_box_fails(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Call]:
    """A run of a network that fails wherever it meets a batch of box-2 alone; half of the edge is a quorum."""
    mine = _furnish(tmp_path_factory.mktemp("one-box-fails"))
    _edit(mine, "import torch\n", "import torch\n\nPOISON = 9.5\n", "mine.py")
    _edit(mine, '"few": draw(40, 1)', '"few": draw(40, 1), "bad": bad()', "mine.py")
    _edit(
        mine,
        "def data():",
        "def bad():\n    images, labels = draw(20, 5)\n    images[:, 0, 0, 0] = POISON\n"
        "    return images, labels\n\n\ndef data():",
        "mine.py",
    )
    _edit(
        mine,
        "def net():\n    return nn.Sequential(",
        "class Net(nn.Sequential):\n    def forward(self, images):\n"
        "        if self.training and torch.is_grad_enabled() and (images[:, 0, 0, 0] == POISON).all():\n"
        "            raise OSError('the cable came loose')\n"
        "        return super().forward(images)\n\n\ndef net():\n    return Net(",
        "mine.py",
    )
    _edit(mine, 'box-2 = "few"', 'box-2 = "bad"')
    _edit(mine, "batch = 10", "batch = 10\nquorum = 0.5")
    _edit(mine, 'nodes = "cloud"\n[[versions]]', 'nodes = "edge"\n[[versions]]')
    return mine, relaytrain("run", "mine.toml", "--name", "mine-fails", "--without", "cloud", folder=mine)


def test_a_failed_node_is_told_when_it_happens_and_kept(one_box_fails):
    folder, ran = one_box_fails
    assert ran.status in (0, 5), ran.said
    lines = ran.err.splitlines()
    told = [index for index, line in enumerate(lines) if "box-2" in line and "the cable came loose" in line]
    assert told, f"the failure is not on stderr:\n{ran.err}"
    first_epoch = next(index for index, line in enumerate(lines) if EPOCH.match(line))
    assert told[0] <= first_epoch, "said when it happened, not at the end"
    shown = relaytrain("show", "mine-fails", folder=folder)
    assert "box-2" in shown.out and "the cable came loose" in shown.out
    report = relaytrain("report", "mine-fails", "--out", "r.html", folder=folder)
    assert report.status == 0
    page = (folder / "r.html").read_text()
    assert "box-2" in page and "the cable came loose" in page


def test_the_verdict_counts_failed_nodes(one_box_fails):
    _, ran = one_box_fails
    assert re.search(r"\d+[^\n.]*fail|fail[^\n.]*\d+", ran.out), ran.out


def test_a_device_that_is_not_there_is_refused_before_the_first_joule(mine):
    _edit(mine, "batch = 10", 'batch = 10\ndevices = {server = "cuda"}')
    doctor = relaytrain("doctor", "mine.toml", folder=mine)
    assert doctor.status == 3 and re.search(r"server.*cuda|cuda.*server", doctor.out), doctor.out
    ran = relaytrain("run", "mine.toml", folder=mine)
    assert ran.status == 3 and "cuda" in ran.err, ran.said
    assert not EPOCH.search(ran.err), "nothing was trained"
    assert "mine-" not in relaytrain("ls", folder=mine).out, "no run was started"


def test_preset_quickstart_with_a_cloud_that_has_no_cuda(tmp_path):
    ran = relaytrain("run", "quickstart", "--set", "training.devices.cloud=cuda", folder=tmp_path)
    assert ran.status == 3 and "cuda" in ran.err, ran.said[-800:]


# --- plans, bounds, estimators


@pytest.mark.slow
def test_a_plan_that_is_infeasible_is_said_when_it_becomes_so(mine):
    """No plan is feasible and the run goes on as well as possible: a word about it, not a dozen epochs of silence."""
    _edit(mine, 'deadline = "10m"', 'deadline = "0.6s"')
    _edit(mine, "loss = 0.9", "loss = 0.3")
    _edit(mine, "scale = 3\npower = 2", "scale = 90\npower = 1")
    assert relaytrain("plan", "mine.toml", folder=mine).status == 4, "or the test shows nothing"
    ran = relaytrain("run", "mine.toml", "--name", "mine-lost", folder=mine)
    assert ran.status in (4, 5) and len(EPOCH.findall(ran.err)) >= 3, ran.said
    said = [line for line in ran.err.splitlines() if re.search("infeasible|no plan|out of reach", line)]
    assert said, f"not a word in:\n{ran.err}"
    assert re.search("infeasible|no plan|out of reach", relaytrain("show", "mine-lost", folder=mine).out)
    relaytrain("report", "mine-lost", "--out", "r.html", folder=mine)
    page = re.sub(r"<details>.*?</details>", "", (mine / "r.html").read_text(), flags=re.DOTALL)
    assert re.search("infeasible|no plan|out of reach", page)


@pytest.fixture
def broken_bound(mine: Path) -> str:
    """Losses far above what the law says at the level asked for."""
    _edit(mine, "scale = 3\npower = 2", "scale = 1\npower = 3\nrobust_progress = 0.95")
    _edit(mine, "lr = 0.01", "lr = 0.002")
    return relaytrain("run", "mine.toml", folder=mine).said


@pytest.mark.slow
def test_a_broken_bound_is_marked_on_its_line_and_counted(broken_bound):
    band = re.compile(r"loss ([\d.]+) \(<=([\d.]+)")
    broken = 0
    for line in EPOCH.findall(broken_bound):
        found = band.search(line)
        if found is None:
            continue
        above = float(found[1]) > float(found[2])
        broken += above
        marked = "above" in line or "broke" in line or "!" in line
        assert marked == above, f"not marked: {line}"
    assert broken >= 1
    after = broken_bound.split(EPOCH.findall(broken_bound)[-1])[-1]
    assert re.search(rf"\b{broken}\b[^\n]*(bound|promise|above)", broken_bound.partition("k  ")[0] + after)


def test_a_fitted_file_that_forecasts_no_numbers_is_refused(mine):
    """What falls back while a run goes on is told there; what can be known before the run is not begun with."""
    write_fitted(mine / "wild.npz", wild=True)
    ran = relaytrain("run", "mine.toml", "--name", "mine-wild", "--fitted", "wild.npz", folder=mine)
    assert ran.status == 3 and "wild.npz: net" in ran.err and "expected numbers within" in ran.err
    assert "RuntimeWarning" not in ran.err, "our own arithmetic is nobody's warning"


def test_the_fitted_file_named_is_the_one_that_is_used(tmp_path):
    """A file that calls itself zero-trace must be read, or be refused: not be passed over for the shipped one."""
    shipped = write_fitted(tmp_path / "same.npz", name="zero-trace")
    wild = write_fitted(tmp_path / "wild.npz", name="zero-trace", wild=True)
    words = (
        "plan",
        "quickstart",
        "--set",
        "target.loss=1.6",
        "--set",
        "target.deadline=5h",
        "--format",
        "json",
        "--fitted",
    )
    first, second = (relaytrain(*words, file, folder=tmp_path) for file in (shipped, wild))
    assert first.status in (0, 4)
    assert second.status == 3 or second.out != first.out, "two different estimators, the same plan to the last digit"


# --- waiting


def _every_look_takes_a_second() -> None:
    """A clock on which whoever looks each world has to speak every ten."""
    looks = itertools.count(1)
    time.monotonic = lambda: float(next(looks))


def test_simulate_in_a_pipe_is_never_silent_for_long(tmp_path):
    words = ("simulate", "fig5", "--worlds", "6", "--workers", "1")
    ended = relaytrain(*words, folder=tmp_path, before=_every_look_takes_a_second)
    assert ended.status == 0, ended.err
    said = [line for line in ended.err.splitlines() if re.search(r"\d+ of \d+|\d+/\d+", line)]
    assert said, "six worlds without a line of progress"
    assert "\x1b" not in ended.err and "\r" not in ended.err, "plain lines in a pipe"


@pytest.mark.slow
def test_a_terminal_gets_a_bar_with_colour(mine):
    ran = relaytrain("run", "mine.toml", folder=mine, env={"TERM": "xterm-256color", "COLUMNS": "100"}, terminal=True)
    assert ran.status == 0, ran.said
    assert "\x1b[" in ran.err, "no colour and no bar on a terminal"


# --- what the numbers are


def test_emulated_seconds_and_joules_say_so_on_the_line(mine):
    ran = relaytrain("run", "mine.toml", folder=mine)
    lines = EPOCH.findall(ran.err)
    assert lines
    for line in lines:
        assert re.search(r"emulated|modelled", line), line


@pytest.mark.slow
def test_measured_ones_do_not(mine):
    _edit(mine, "batch = 10", 'batch = 10\nclock = "measured"')
    ran = relaytrain("run", "mine.toml", folder=mine)
    lines = EPOCH.findall(ran.err)
    assert lines and not any("emulated" in line for line in lines)


def test_events_are_told_in_json_too(one_box_fails):
    folder, _ = one_box_fails
    shown = json.loads(relaytrain("show", "mine-fails", "--format", "json", folder=folder).out)
    assert any(failure["node"] == "box-2" and "cable" in failure["reason"] for failure in shown["failures"])

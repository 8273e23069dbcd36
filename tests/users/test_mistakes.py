"""Thirty kinds of mistakes and more: what `validate`, `doctor`, `run` say; `python tests/users/mistakes_table.py`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from forked import Call, relaytrain
from mistakes import LAYERS, MISTAKES, MODULE, SCENARIO, Mistake

VERBS = ("validate", "doctor", "run")


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("mine.*")}


def _check_said(call: Call, status: int) -> None:
    """Never our bug, never our traceback; one message where something is in the way."""
    assert "bug of relaytrain" not in call.said
    assert "Traceback" not in call.said
    assert "site-packages" not in call.said
    if status and call.status == status and not call.out:
        assert call.err.count("error: ") == 1, "one message"


def test_the_package_without_a_mistake_is_sound(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "mine.toml").write_text(SCENARIO)
    for verb in VERBS:
        call = relaytrain(verb, "mine.toml", folder=tmp_path)
        assert call.status == 0, call.said


def test_there_are_thirty_kinds_with_names_of_their_own():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 30


def _marks(mistake: Mistake) -> list[pytest.MarkDecorator]:
    """`make fast` sees what the scenario alone shows; what takes the user's code to be run comes after it."""
    if mistake.slow:
        return [pytest.mark.soak]
    return [] if mistake.validate[0] else [pytest.mark.slow]


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(m, id=m.name.replace(" ", "-"), marks=_marks(m)) for m in MISTAKES],
)
def test_a_mistake_is_told_to_the_user(tmp_path: Path, mistake: Mistake) -> None:
    line = mistake.write(tmp_path)
    before = _digests(tmp_path)
    wrong = []
    for verb in VERBS:
        call = mistake.said(verb, tmp_path)
        status, pattern = mistake.expected(verb, line)
        _check_said(call, status)
        if call.status != status or not pattern.search(call.said):
            wrong.append(f"{verb}: expected {status} and /{pattern.pattern}/, got {call.status}:\n{call.said[-600:]}")
    assert not wrong, "\n".join(wrong)
    assert _digests(tmp_path) == before, "the user's files stay as they are"
    assert relaytrain("ls", folder=tmp_path).status == 0
    if (tmp_path / "relaytrain-runs").exists():
        assert relaytrain("store", "check", folder=tmp_path).status == 0, "the store stays sound"


def test_epochs_before_the_mistake_are_kept(tmp_path):
    """An exception of the user's in the middle: what was trained stays, and the run can go on once it is repaired."""
    later = next(mistake for mistake in MISTAKES if mistake.name == "exception in training only, later")
    later.write(tmp_path)
    relaytrain("run", "mine.toml", "--name", "mine-later", folder=tmp_path)
    shown = relaytrain("show", "mine-later", folder=tmp_path)
    assert "epochs    1-" in shown.out and "the scale slipped" in shown.out
    assert "relaytrain resume mine-later" in shown.out


def test_the_traceback_is_there_for_those_who_ask(tmp_path):
    missing = next(mistake for mistake in MISTAKES if mistake.name == "missing file")
    missing.write(tmp_path)
    call = relaytrain("run", "mine.toml", "-v", folder=tmp_path)
    assert call.status == 3 and "Traceback" in call.err and "np.load('images.npz')" in call.err
    assert "bug of relaytrain" not in call.err


STAGED = """\
class Scale(nn.Module):
    def forward(self, images):
        if torch.distributed.is_initialized():
            raise RuntimeError("the scale slipped")  # here
        return images


def net():
    return nn.Sequential(
        Scale(), """


@pytest.mark.slow
def test_a_network_that_fails_in_a_stage_of_a_pipeline_is_named_by_file_and_line(tmp_path):
    """In a process of its own, which finds the user's code wherever the command was called from."""
    small = SCENARIO.partition('[[versions]]\nname = "small"')[0]
    pipe = "[[nodes]]" + SCENARIO.partition("[[nodes]]")[2].replace('"box-2"]', '"box-2"]\nmode = "pipeline"')
    (tmp_path / "mine.toml").write_text((small + pipe).replace('"cloud"\n[[v', '"edge"\n[[v'))
    (tmp_path / "mine.py").write_text(MODULE.replace("def net():\n    return nn.Sequential(\n        ", STAGED))
    (tmp_path / "elsewhere").mkdir()
    options = ("--without", "cloud", "--set", "training.transport=processes")
    call = relaytrain("run", "../mine.toml", *options, folder=tmp_path / "elsewhere")
    _check_said(call, 3)
    assert call.status == 3, call.said
    before = (tmp_path / "mine.py").read_text().partition("# here")[0]
    assert f"mine.py:{before.count(chr(10)) + 1}: RuntimeError: the scale slipped" in call.err


def test_a_batch_of_one_under_batch_norm_is_refused_in_words(tmp_path):
    """vgg11 ends at one pixel: with one image there is nothing to take a mean over."""
    words = ("--width", "0.0625", "--batch", "1", "--minibatches", "2", "--simulate")
    call = relaytrain("pipeline", "run", "vgg11", *words, folder=tmp_path)
    _check_said(call, 3)
    assert call.status in (2, 3) and "batch norm" in call.said.lower(), call.said


@pytest.mark.slow
def test_doctor_raises_no_alarm_for_networks_that_nobody_prunes(tmp_path):
    """Versions reached by distillation alone: that a recurrent network cannot be pruned is nobody's concern."""
    recurrent = "nn.Flatten(), nn.Unflatten(1, (4, 4)), nn.LSTM(4, 8, batch_first=True), Last(), nn.Linear(8, 3)"
    last = "\n\nclass Last(nn.Module):\n    def forward(self, outputs):\n        return outputs[0][:, -1]\n"
    (tmp_path / "mine.py").write_text(MODULE.replace(LAYERS, recurrent) + last)
    (tmp_path / "mine.toml").write_text(SCENARIO.replace("ratio = 0.4", 'student = "mine:net"'))
    ran = relaytrain("run", "mine.toml", "--set", "target.loss=1.05", folder=tmp_path)
    assert ran.status == 0, f"it does train: {ran.said}"
    call = relaytrain("doctor", "mine.toml", folder=tmp_path)
    assert call.status == 0 and call.out.rstrip().endswith("healthy"), call.said
    assert "prun" not in call.out.partition("scenario\n")[2], "nothing is pruned here"


def test_remedies_name_only_what_can_be_done(tmp_path):
    """No scenario key leaves a layer out of pruning, so no remedy may ask for it."""
    tied = MODULE.replace("def net():\n    return nn.Sequential(", "def net():\n    made = nn.Sequential(")
    tied = tied.replace("    )\n\n\ndef draw", "    )\n    made[2].twin = made[5]\n    return made\n\n\ndef draw")
    (tmp_path / "mine.py").write_text(tied)
    (tmp_path / "mine.toml").write_text(SCENARIO)
    call = relaytrain("doctor", "mine.toml", folder=tmp_path)
    assert call.status == 3 and "same tensor" in call.out, call.out
    keys = relaytrain("schema", folder=tmp_path).out
    assert "leave" not in call.out or '"leave"' in keys, call.out

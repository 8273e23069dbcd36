"""What goes wrong: one message on stderr, the documented exit status, no traceback, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaytrain import api
from relaytrain.core.errors import NoSpace

MALFORMED = {
    "syntax": "[target\nloss = 1",
    "empty": "",
    "unknown key": (
        'targt = 1\n[target]\nloss = 0.1\n[[versions]]\nname="L"\n[[node_sets]]\nname="g"\n[law]\nkind="level"'
    ),
    "wrong type": '[target]\nloss = "low"\n[[versions]]\nname="L"\n[[node_sets]]\nname="g"\n[law]\nkind="level"',
    "no versions": '[target]\nloss = 0.1\n[[node_sets]]\nname="g"\n[law]\nkind="level"',
    "not utf-8": b"\xff\xfe\x00",
    "binary": bytes(range(256)),
    "a json list in toml": "[1, 2]",
}
VERBS = ("plan", "compare", "simulate", "front", "validate")


def _one_message(call, status):
    assert call.status == status
    assert call.out == ""
    assert call.err.startswith("error: ") and call.err.count("error: ") == 1
    assert "Traceback" not in call.err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_files_exit_3(relaytrain, tmp_path, monkeypatch, verb, what):
    monkeypatch.chdir(tmp_path)
    content = MALFORMED[what]
    Path("bad.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    call = relaytrain(verb, "bad.toml")
    _one_message(call, 3)
    assert "bad.toml" in call.err and "got" in call.err and "expected" in call.err
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["plan", "--planner", "pcat"], 2, "expected one of pact"),
        (["plan", "--rule", "bold"], 2, "expected one of adaptive"),
        (["plan", "quikstart"], 3, "did you mean 'quickstart'"),
        (["plan", "."], 3, "regular file"),
        (["plan", "--set", "target.loss=abc"], 3, "target.loss"),
        (["plan", "--set", "target.los=1"], 3, "did you mean"),
        (["plan", "--set", "nonsense"], 3, "key=value"),
        (["plan", "--without", "gol"], 3, "did you mean 'gold'"),
        (["plan", "--figure", "plan.png"], 2, ".svg"),
        (["plan", "--figure", "no/such/folder/plan.svg"], 2, "mkdir -p"),
        (["plan", "--format", "yaml"], 2, "'text', 'json'"),
        (["plan", "--fromat", "json"], 2, "--format"),
        (["plan", "quickstart", "smart_factory"], 2, "unexpected extra argument"),
        (["plann"], 2, "Did you mean 'plan'?"),
        (["front", "--level", "1.5"], 2, "probability"),
        (["front", "--deadline", "soon"], 2, "5m"),
        (["front", "--loss", "low"], 2, "--loss"),
        (["simulate", "--worlds", "0"], 2, "at least 1"),
        (["simulate", "--worlds", "many"], 2, "--worlds"),
        (["simulate", "--workers", "0"], 2, "at least 1"),
        (["simulate", "--rule", "bold"], 2, "expected one of"),
        (["simulate", "--mode", "hard"], 2, "slack"),
        (["new", "a.json"], 2, ".toml"),
        (["new", "a.toml", "--from", "quikstart"], 2, "did you mean 'quickstart'"),
        (["new", "a.toml", "--from", "fig5", "--model", "m:net"], 2, "one or the other"),
        (["new", "a.toml", "--model", "no reference"], 3, "module"),
        (["new", "a\nb.toml"], 2, "file name"),
        (["new", "no/such/a.toml"], 2, "mkdir -p"),
        (["schema", "--out", "no/such/s.json"], 2, "No such file"),
        (["reproduce", "pact-fig66"], 2, "did you mean 'pact-fig6'"),
    ],
)
def test_wrong_calls(relaytrain, tmp_path, monkeypatch, arguments, status, words):
    monkeypatch.chdir(tmp_path)
    call = relaytrain(*arguments)
    _one_message(call, status)
    assert words in call.err
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_error_exits_1_and_tells_how_to_see_more(relaytrain, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the moon is full")

    monkeypatch.setattr(api, "plan", broken)
    call = relaytrain("plan")
    _one_message(call, 1)
    assert "the moon is full" in call.err and "-v" in call.err
    loud = relaytrain("plan", "-v")
    assert loud.status == 1 and "Traceback" in loud.err
    assert "Traceback" not in relaytrain("plan").err, "-v holds for one call"


def test_errors_keep_their_exit_status(relaytrain, monkeypatch):
    def full(*args, **kwargs):
        raise NoSpace("cannot write plan.svg: disk full")

    monkeypatch.setattr(api, "plan", full)
    _one_message(relaytrain("plan"), 10)


def test_ctrl_c_is_a_stop_by_the_user(relaytrain, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "plan", interrupted)
    call = relaytrain("plan")
    assert call.status == 6 and "stopped" in call.err and "Traceback" not in call.err

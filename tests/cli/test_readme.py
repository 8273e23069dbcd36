"""The README shows what really comes out, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relaytrain.report.plan_svg import plan_svg

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"```console\n\$ relaytrain (.*?)\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("command", "output"), SESSIONS)
def test_sessions_are_real(relaytrain, command, output):
    assert relaytrain(*command.split()).out == output


def test_python_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert str(names["plan"].summary()) in code  # type: ignore[attr-defined]
    assert not names["tight"].met  # type: ignore[attr-defined]


def test_every_verb_is_listed(relaytrain):
    for verb in re.findall(r"^  ([a-z]+) ", relaytrain("--help").out.partition("Commands:")[2], re.MULTILINE):
        assert f"`{verb}`" in README or verb == "relaytrain"


def test_the_two_commands_and_links_exist():
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "make demo" in README and "make test" in README
    assert re.search(r"^demo:", targets, re.MULTILINE) and re.search(r"^test:", targets, re.MULTILINE)
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_picture_is_todays_plan():
    import relaytrain as rt

    assert (ROOT / "docs/images/plan.svg").read_text(encoding="utf-8") == plan_svg(rt.plan("smart_factory"))

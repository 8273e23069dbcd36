"""`module:function` references: only their own form, only from the folder or the installation, and on record."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from relaytrain.core.errors import ScenarioError
from relaytrain.scenario import resolve


def test_a_function_of_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "rt_resolve_one.py"
    file.write_text("class Net:\n    depth = 3\ndef net():\n    return 42\n")
    assert resolve("rt_resolve_one:net", tmp_path)() == 42
    assert resolve("rt_resolve_one:Net.depth", tmp_path) == 3
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    "reference",
    [
        "", ":", "a", "a:", ":b", "a:b:c", "a;b", "os:system", "subprocess:run", "os.path:join", "builtins:eval",
        "sys:exit",
        "a.b.:c", ".a:b", "a..b:c", "a:b()", "a:b c", "a b:c", "a/b:c", "../a:b", "a:b\n", "a\0:b", "a\u2024b:c",
        "\u0430:b",
        "a:__class__", "__main__:x", "a:b.__globals__", "a-b:c", "1a:b", "a:1b", "x" * 300 + ":a", "http://x:y",
        "a:b#c",
        "importlib:import_module", "ctypes:CDLL", "pickle:loads",
    ],
)  # fmt: skip
def test_other_forms_are_refused(reference: str, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    (tmp_path / "a.py").write_text(f"open({str(sentinel)!r}, 'w')\n")
    with pytest.raises(ScenarioError, match="expected"):
        resolve(reference, tmp_path)
    assert not sentinel.exists()


def test_missing_and_broken_modules(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="rt_resolve_nowhere"):
        resolve("rt_resolve_nowhere:x", tmp_path)
    (tmp_path / "rt_resolve_broken.py").write_text("1 / 0\n")
    with pytest.raises(ScenarioError, match="ZeroDivisionError"):
        resolve("rt_resolve_broken:x", tmp_path)
    (tmp_path / "rt_resolve_two.py").write_text("def train():\n    pass\n")
    with pytest.raises(ScenarioError, match="train"):
        resolve("rt_resolve_two:trian", tmp_path)


def test_a_module_loaded_from_elsewhere_does_not_stand_in(tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rt_resolve_same.py").write_text(f"x = {value}\n")
    assert resolve("rt_resolve_same:x", tmp_path / "one") == 1
    with pytest.raises(ScenarioError, match="already loaded"):
        resolve("rt_resolve_same:x", tmp_path / "two")


@pytest.mark.parametrize(
    "reference",
    ["click.utils:os.system", "click.utils:os", "rt_borrowed:system", "rt_borrowed:os.system", "rt_borrowed:os",
     "rt_borrowed:call", "rt_borrowed:ndarray", "click.utils:sys.exit"],
)  # fmt: skip
def test_what_a_module_only_borrows_is_refused(reference: str, tmp_path: Path) -> None:
    borrowed = "import os\nfrom functools import partial\nfrom os import system\nfrom numpy import ndarray\n"
    (tmp_path / "rt_borrowed.py").write_text(borrowed + "call = partial(system, 'true')\n")
    with pytest.raises(ScenarioError, match=r"expected what .* defines"):
        resolve(reference, tmp_path)
    sys.modules.pop("rt_borrowed", None)


def test_what_a_package_or_the_folder_defines_is_found_wherever_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "rt_helper.py").write_text("def net():\n    return 1\nclass Loss:\n    def __call__(self): ...\n")
    (tmp_path / "rt_front.py").write_text(
        "from functools import partial\nfrom rt_helper import Loss, net\nloss = Loss()\nhalf = partial(net)\n"
    )
    for name in ("net", "Loss", "loss", "half"):
        assert callable(resolve(f"rt_front:{name}", tmp_path))
    assert resolve("click:echo") is resolve("click.utils:echo")


def test_the_first_use_of_a_reference_is_said_once(tmp_path: Path) -> None:
    from relaytrain.core.notices import hearing

    said: list[str] = []
    for text in ("def net(): ...\n", "def net(): ...\n", "def net(): return 2\n"):
        (tmp_path / "rt_said.py").write_text(text)
        with hearing(said.append):
            resolve("rt_said:net", tmp_path)
    file = tmp_path / "rt_said.py"
    assert len(said) == 2 and all("rt_said:net" in words and str(file) in words for words in said)
    assert hashlib.sha256(file.read_bytes()).hexdigest()[:12] in said[1]

"""Whose an exception is: file and line of the user's own code, whatever lies below it, and our own errors untouched."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from relaytrain.core.errors import ScenarioError, UsageError
from relaytrain.core.user_code import UserCodeError, told, user_code

CODE = """\
import json


def below():
    return json.loads("{")


def ends():
    raise SystemExit("enough")


def absent():
    open("images.npz")


def silent():
    raise ValueError
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    return _module(tmp_path / "mine.py")


def _module(file: Path) -> ModuleType:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(CODE)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("below", r"^mine\.py:5: JSONDecodeError: Expecting .* \(in mine:below\); correct it there"),
        ("ends", r"^mine\.py:9: SystemExit: enough .*; let the function return"),
        ("absent", r"^mine\.py:13: FileNotFoundError: .*images\.npz.*; check the path: it is looked for from /"),
        ("silent", r"^mine\.py:17: ValueError \(in mine:silent\); correct"),
    ],
)
def test_the_innermost_line_of_the_users_own_is_named(mine, name, words):
    with pytest.raises(UserCodeError, match=words) as caught, user_code(f"mine:{name}"):
        getattr(mine, name)()
    assert caught.value.exit_status == ScenarioError.exit_status == 3
    assert caught.value.__cause__ is not None


def test_a_package_that_is_installed_is_the_users_where_the_scenario_names_it(tmp_path):
    installed = _module(tmp_path / "site-packages" / "shop.py")
    with pytest.raises(UserCodeError, match=r"site-packages/shop\.py:9: SystemExit"), user_code("shop:ends"):
        installed.ends()


def test_what_only_libraries_did_is_told_by_the_name_that_was_called():
    error = TypeError("net() missing 1 required positional argument: 'width'")
    assert told(error, "mine:net").startswith("mine:net: TypeError: net() missing 1 required positional argument")


@pytest.mark.parametrize("error", [UsageError("ours"), KeyboardInterrupt()])
def test_our_own_errors_and_ctrl_c_pass(error):
    with pytest.raises(type(error)) as caught, user_code("mine:net"):
        raise error
    assert caught.value is error

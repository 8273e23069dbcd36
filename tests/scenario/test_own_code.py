"""Which files of the user's own count as a run's code, and how a change of one is noticed."""

from __future__ import annotations

import sys

import pytest

from relaytrain.scenario.own_code import changed_code, loaded_code, references_of
from relaytrain.scenario.resolve import resolve


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A package with a helper, and an environment inside the same folder, as many projects have it."""
    files = {
        "own_code_pkg/__init__.py": "",
        "own_code_pkg/net.py": "from own_code_helper import SIZE\n\ndef net():\n    return SIZE\n",
        "own_code_helper.py": "SIZE = 3\n",
        ".venv/lib/site-packages/own_code_dependency.py": "",
        "env/lib/site-packages/own_code_other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for entry in (".venv", "env"):
        monkeypatch.syspath_prepend(tmp_path / entry / "lib" / "site-packages")
    import own_code_dependency  # noqa: F401
    import own_code_other  # noqa: F401

    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_code_")]:
        del sys.modules[name]


def test_all_modules_of_the_folder_count_and_none_of_an_environment_in_it(project):
    resolve("own_code_pkg.net:net", project)
    kept = loaded_code(project, ["own_code_pkg.net:net"])
    assert list(kept) == ["own_code_helper.py", "own_code_pkg/__init__.py", "own_code_pkg/net.py"]
    assert changed_code(kept, project) == []


def test_changed_and_missing_files_are_named(project):
    resolve("own_code_pkg.net:net", project)
    kept = loaded_code(project, ["own_code_pkg.net:net"])
    (project / "own_code_helper.py").write_text("SIZE = 4\n")
    (project / "own_code_pkg" / "net.py").unlink()
    assert changed_code(kept, project) == [str(project / "own_code_helper.py"), "own_code_pkg/net.py"]


def test_an_installed_module_counts_when_it_is_named(project):
    kept = loaded_code(None, ["own_code_other:thing"])
    assert list(kept) == ["own_code_other.py"] and changed_code(kept, None) == []
    (project / "env" / "lib" / "site-packages" / "own_code_other.py").write_text("X = 1\n")
    assert changed_code(kept, None) == [str(project / "env" / "lib" / "site-packages" / "own_code_other.py")]


def test_references_are_those_of_networks_data_and_loss():
    resolved = {
        "versions": [{"name": "a", "factory": "m:a"}, {"name": "b", "student": "m:b"}, {"name": "c", "family": "cnn"}],
        "data": {"source": "d:data"},
        "training": {"loss": "cross-entropy"},
    }
    assert references_of(resolved) == ("m:a", "m:b", "d:data")
    assert references_of({"versions": [], "data": None}) == ()

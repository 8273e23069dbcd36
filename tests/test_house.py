"""The rules of the house, checked on the source itself: who may import whom, what is never used, what is public."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

import relaytrain
from relaytrain.cli import app

ROOT = Path(relaytrain.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Folders and root modules in the order of the flow: each imports only what stands before it. A name with a dot is a
# part of a folder that stands apart from it: the one module that writes is needed early, and so is the arithmetic of
# pipelines.
ORDER = (
    "core",
    "store.files",
    "crew",
    "launcher",
    "planners.pipeline",
    "costs",
    "scenario",
    "traces",
    "estimators",
    "planners",
    "simulate",
    "data",
    "compression",
    "models",
    "training",
    "pipeline",
    "executors",
    "store",
    "loggers",
    "relay",
    "campaigns",
    "report",
    "export",
    "doctor",
    "api",
    "experiments",
    "testing",
    "web",
    "cli",
    "__main__",
    "__init__",
)
TRAIN = ("models", "data", "compression", "training", "executors", "pipeline", "export", "doctor")
# package -> where it may be imported at all
ONLY_IN: dict[str, tuple[str, ...]] = {
    "torch": (*(f"{folder}/" for folder in TRAIN), "estimators/learned/paper.py", "experiments/mcpipe/"),
    "torch_pruning": ("compression/",),
    "flwr": ("executors/flower/",),
    "fastapi": ("web/",),
    "matplotlib": ("experiments/",),
    "tensorboard": ("loggers/",),
    "mlflow": ("loggers/",),
    "wandb": ("loggers/",),
    "networkx": (),
    "rustworkx": (),
    "typer": ("cli/",),
    "click": ("cli/",),
    "rich": ("cli/", "report/"),
}
NEVER = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "jsonpickle", "joblib"}


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _type_only(file: Path) -> set[ast.AST]:
    """Everything under `if TYPE_CHECKING:`; names for a type checker are no dependency."""
    blocks = [n for n in _nodes(file) if isinstance(n, ast.If) and ast.unparse(n.test).endswith("TYPE_CHECKING")]
    return {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}


@cache
def _nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_tree(file)))


@cache
def _imports(file: Path) -> frozenset[str]:
    """Absolute dotted names of all that `file` imports at run time, wherever in the file."""
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    ignored = _type_only(file)
    package = ["relaytrain", *file.relative_to(ROOT).parts[:-1]]
    for node in _nodes(file):
        if node in ignored:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _ours(file: Path) -> set[str]:
    return {name.removeprefix("relaytrain.") for name in _imports(file) if name.startswith("relaytrain.")}


def _place(name: str) -> int:
    """Where a module stands in `ORDER`; parts that stand apart come before their folder's own place."""
    parts = name.split(".")
    for depth in (2, 1):
        room = ".".join(parts[:depth])
        if room in ORDER:
            return ORDER.index(room)
    raise AssertionError(f"{name} has no place in ORDER")


def test_every_room_stands_in_the_list():
    rooms = {_name(file).split("/")[0].removesuffix(".py") for file in FILES}
    assert rooms - set(ORDER) == set()


def test_each_room_imports_only_what_stands_before_it():
    wrong = []
    for file in FILES:
        here = _place(_name(file).removesuffix(".py").replace("/", "."))
        wrong += [f"{_name(file)} imports {name}" for name in sorted(_ours(file)) if _place(name) > here]
    assert wrong == []


def test_no_class_name_means_two_things():
    places: dict[str, list[str]] = {}
    for file in FILES:
        for node in _nodes(file):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(_name(file))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_only_the_entry_point_knows_the_command_line():
    users = {_name(f) for f in FILES if not _name(f).startswith("cli/") and any(n.startswith("cli") for n in _ours(f))}
    assert users == {"__main__.py"}


def test_packages_stay_where_they_belong():
    wrong = []
    for file in FILES:
        for package in {name.partition(".")[0] for name in _imports(file)}:
            homes = ONLY_IN.get(package)
            if homes is not None and not any(_name(file).startswith(home) for home in homes):
                wrong.append(f"{_name(file)} imports {package}")
            if package in NEVER:
                wrong.append(f"{_name(file)} imports {package}, which is never used")
    assert wrong == []


def _faults(file: Path) -> Iterator[str]:
    for node in _nodes(file):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        words = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        place = f"{_name(file)}:{node.lineno}: {called}"
        if called in {
            "eval",
            "exec",
            "compile",
            "__import__",
            "builtins.eval",
            "builtins.exec",
            "os.system",
            "os.popen",
        }:
            yield place
        if called == "torch.load" and words.get("weights_only") != "True":
            yield f"{place} without weights_only=True"
        if called.endswith("np.load") and words.get("allow_pickle", "False") != "False":
            yield f"{place} with pickles"
        if words.get("shell") == "True":
            yield f"{place} with shell=True"
        if _name(file) != "store/files.py" and _writes(node, called, words):
            yield f"{place} writes a file outside store/files.py"


def _writes(node: ast.Call, called: str, words: dict[str | None, str]) -> bool:
    arguments = [ast.unparse(argument) for argument in node.args]
    last = called.rpartition(".")[2]
    if last in {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "tofile"}:
        return True
    if called == "os.open":
        flags = " ".join(arguments[1:])
        return arguments[0] != "os.devnull" and any(f in flags for f in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND"))
    if called in {"open", "io.open", "gzip.open", "bz2.open", "lzma.open"}:
        mode = words.get("mode") or (arguments[1] if len(arguments) > 1 else "'r'")
    elif last == "open" and isinstance(node.func, ast.Attribute):
        mode = words.get("mode") or (arguments[0] if arguments else "'r'")
        if not (mode.startswith(("'", '"')) and len(mode) <= 5):
            return False  # not a mode: some other object's open
    else:
        return False
    return any(letter in mode for letter in "wax+")


def test_source_keeps_to_what_is_safe():
    assert [fault for file in FILES for fault in _faults(file)] == []


@pytest.mark.parametrize(
    "line",
    [
        "eval('1')",
        "open('f', 'w')",
        "open('f', mode='ab')",
        "path.open('w')",
        "path.write_text('x')",
        "os.open('f', os.O_CREAT | os.O_WRONLY)",
        "torch.load('f')",
        "subprocess.run('ls', shell=True)",
        "np.load('f', allow_pickle=True)",
    ],
)
def test_the_checks_see_what_they_look_for(monkeypatch, tmp_path, line):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "bad.py").write_text(line)
    assert len(list(_faults(tmp_path / "bad.py"))) == 1


@pytest.mark.parametrize(
    "line", ["model.eval()", "open('f', 'rb')", "path.open('rb')", "RunStore.open(path)", "re.compile('x')"]
)
def test_the_checks_leave_the_rest_alone(monkeypatch, tmp_path, line):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "good.py").write_text(line)
    assert list(_faults(tmp_path / "good.py")) == []


def test_public_names_are_alphabetical_and_exist():
    assert relaytrain.__all__ == sorted(relaytrain.__all__)
    assert set(relaytrain._HOME) == set(relaytrain.__all__)
    assert all(callable(getattr(relaytrain, name)) for name in relaytrain.__all__)
    assert dir(relaytrain) == relaytrain.__all__


def test_no_public_name_is_a_subpackage():
    """Importing a subpackage would put the module in the name's place."""
    modules = {module.name for module in pkgutil.iter_modules(relaytrain.__path__)}
    assert modules.isdisjoint(relaytrain.__all__)


def test_every_package_exports_what_it_says():
    for file in FILES:
        if file.name != "__init__.py" or file.parent == ROOT:
            continue
        parts = ("relaytrain", *file.relative_to(ROOT).parts[:-1])
        if parts[1] in TRAIN:
            continue  # their names need torch
        module = importlib.import_module(".".join(parts))
        assert all(hasattr(module, name) for name in getattr(module, "__all__", ())), module.__name__


def test_import_is_instant():
    """`import relaytrain` loads nothing but itself."""
    code = "import sys; before = set(sys.modules); import relaytrain; print(*sorted(set(sys.modules) - before))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert not {"numpy", "pydantic", "numba", "torch", "rich", "typer"} & set(ended.stdout.split())


def test_quick_verbs_open_no_database():
    code = "import sys; import relaytrain.cli.app, relaytrain.cli.validate, relaytrain.scenario; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"sqlite3", "relaytrain.store", "numba", "torch"} & set(ended.stdout.split())


@pytest.mark.train
def test_a_worker_reads_no_scenario_where_no_code_of_the_users_own_is_named():
    code = (
        "import sys; from relaytrain.executors.worker import prepare; prepare();"
        "from relaytrain.training.own_training import own_training; from relaytrain.training.step import step_of;"
        "from relaytrain.training.settings import TrainingSettings as Settings;"
        "own_training(Settings(lr_schedule='cosine')); step_of(Settings().loss); print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert not {"pydantic", "relaytrain.scenario"} & set(ended.stdout.split())


def test_every_module_says_what_it_is():
    assert [_name(file) for file in FILES if not ast.get_docstring(_tree(file))] == []


def _parts(folder: Path) -> set[str]:
    """Modules and packages in a package."""
    files = {file.stem for file in folder.glob("*.py")} - {"__init__", "__main__"}
    return files | {inner.parent.name for inner in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("file", [f for f in FILES if f.name == "__init__.py" and f.parent != ROOT], ids=_name)
def test_every_package_says_in_which_order_it_is_read(file):
    """Its docstring names each of its parts, or says `*_svg`; verbs of the command line are listed in `cli.app`."""
    words = re.findall(r"`([\w*]+)/?`", ast.get_docstring(_tree(file)) or "")
    listed = {*app.VERBS, *app.GROUPS} if file.parent.name == "cli" else set()
    assert sorted(p for p in _parts(file.parent) - listed if not any(fnmatchcase(p, w) for w in words)) == []


def test_the_map_names_every_room():
    drawn = (ROOT.parent.parent / "ARCHITECTURE.md").read_text("utf-8")
    assert sorted(part for part in _parts(ROOT) if not re.search(rf"`{part}(/|\.py)`", drawn)) == []


def test_every_printed_schema_is_described() -> None:
    printed = {name for file in FILES for name in re.findall(r'"(relaytrain\.[a-z-]+/\d+)"', file.read_text("utf-8"))}
    described = (ROOT.parent.parent / "docs" / "formats.md").read_text("utf-8")
    assert printed
    assert sorted(name for name in printed if name not in described) == []

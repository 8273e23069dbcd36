"""`module:function` references: code of the user's own, named in a scenario.

Resolving one runs the user's code, by design. It is done for scenarios of the local command line or of Python, and for
nothing that came over a network or out of a store. What is named must be defined by the package that the reference
begins with, or by a file of the user's folder: a module holds much that it only borrows (`torch:os.system`).
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.errors import ScenarioError
from ..core.notices import say
from ..core.user_code import INSTALLED, UserCodeError, place_of, told
from .fields import shown

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = rf"({_WORD}(?:\.{_WORD})*):({_WORD}(?:\.{_WORD})*)"
_LONGEST = 200
_used: set[tuple[str, str]] = set()
"""References that were announced, with the hash of their file: each is said once."""
_FORM = "dotted.module:name, found in the scenario's folder or installed"


def split_reference(reference: str) -> tuple[str, str]:
    """Module and name of `module:name`; nothing is imported."""
    short = isinstance(reference, str) and len(reference) <= _LONGEST
    match = re.fullmatch(_REFERENCE, reference, re.ASCII) if short else None
    if match is None or "__" in reference:
        raise ScenarioError(f"reference: got {shown(reference)}, expected {_FORM}")
    if match[1].partition(".")[0] in sys.stdlib_module_names:
        raise ScenarioError(f"reference: got {shown(reference)}, a module of Python itself, expected your own {_FORM}")
    return match[1], match[2]


def resolve(reference: str, folder: Path | None = None) -> Any:
    """What `reference` names, imported, looking in `folder` first."""
    module_name, name = split_reference(reference)
    with _first_on_path(folder):
        module = _import(reference, module_name)
    _check_shadow(reference, module, module_name, folder)
    value: Any = module
    for part in name.split("."):
        if isinstance(value, ModuleType):
            _check_owner(reference, value.__name__, part, module_name, folder)
        if not hasattr(value, part):
            names = [n for n in dir(module) if not n.startswith("_")][:12]
            raise ScenarioError(f"reference: got {shown(reference)}, expected a name in the module: {', '.join(names)}")
        value = getattr(value, part)
    _check_owner(reference, _definer(value, module), name, module_name, folder)
    file = Path(str(module.__file__)) if getattr(module, "__file__", None) else None
    if file is None:
        raise ScenarioError(f"reference: got {shown(reference)}, a module without a file, expected a Python file")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if (reference, digest) not in _used:
        _used.add((reference, digest))
        say(f"code of your own: {reference} in {file} (sha256 {digest[:12]})")
    return value


def function_at(reference: str, folder: Path | None, what: str, expected: str = "a function") -> Callable[..., Any]:
    """The function that `reference` names; in messages `what` says for what, and `expected` what it should be."""
    value = resolve(reference, folder)
    if not callable(value):
        raise ScenarioError(f"{what}: {reference} is a {type(value).__name__}, expected {expected}")
    function: Callable[..., Any] = value
    return function


def _definer(value: Any, module: ModuleType) -> str:
    """The module that defines a value; of one that is neither function nor class, the module that holds it."""
    if isinstance(value, partial):
        return _definer(value.func, module)
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None)) if hasattr(value, "__qualname__") else module.__name__


def _check_owner(reference: str, definer: str, name: str, module_name: str, folder: Path | None) -> None:
    if definer.partition(".")[0] == module_name.partition(".")[0] or _in_folder(definer, folder):
        return
    there = f"; name it there: {definer}:{name.rpartition('.')[2]}" if definer in sys.modules else ""
    if definer.partition(".")[0] in sys.stdlib_module_names or definer == "None":
        there = ""
    raise ScenarioError(
        f"reference: got {shown(reference)}, which is defined in {definer}, expected what "
        f"{module_name.partition('.')[0]} itself or a file of the scenario's folder defines{there}"
    )


def _in_folder(module_name: str, folder: Path | None) -> bool:
    """Whether a module is a file of the user's own, not of packages that are installed below the folder."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if folder is None or file is None:
        return False
    path, root = Path(file).resolve(), folder.resolve()
    return path.is_relative_to(root) and INSTALLED.isdisjoint(path.relative_to(root).parts)


def _import(reference: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if place_of(error) is None:  # it is the module itself that is not there
            raise ScenarioError(f"reference: got {shown(reference)} ({error}), expected {_FORM}") from None
        raise UserCodeError(told(error, reference)) from error
    except (Exception, SystemExit) as error:  # the user's module may fail in any way while it is imported
        raise UserCodeError(told(error, reference)) from error


def _check_shadow(reference: str, module: ModuleType, module_name: str, folder: Path | None) -> None:
    """A module of that name loaded earlier from elsewhere must not stand in for the scenario's own."""
    if folder is None or not getattr(module, "__file__", None):
        return
    own = folder.resolve().joinpath(*module_name.split("."))
    for candidate in (own.with_suffix(".py"), own / "__init__.py"):
        if candidate.is_file() and candidate.resolve() != Path(str(module.__file__)).resolve():
            raise ScenarioError(
                f"reference: got {shown(reference)}, already loaded from {module.__file__}, expected {candidate}; "
                "rename one of the two"
            )


@contextmanager
def _first_on_path(folder: Path | None) -> Iterator[None]:
    if folder is None:
        yield
        return
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        importlib.invalidate_caches()
        yield
    finally:
        sys.path.remove(entry)

"""Exceptions of code that users bring: whose they are, where they were raised, and what helps.

A user's loader, factory, network or loss may fail in any way. What reaches the user is one sentence with the file and
the line of their own code, whatever lies below it, and never a traceback of ours:

    with user_code("mine:data"):
        parts = function()
"""

from __future__ import annotations

import inspect
import os
import re
import stat
import sysconfig
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from traceback import walk_tb
from typing import Any

from .errors import RelayTrainError, ScenarioError

LONGEST = 300
"""Characters of an exception's own words that are passed on."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of other people's packages."""

_WORKERS = r'File "([^"\n]+)", line ([0-9]+)'
"""Places in the text with which a process of a data loader reports what happened to it."""
_PLACE = r"([^\n\0]{1,4096}?):([1-9][0-9]{0,6}): "


class UserCodeError(ScenarioError):
    """Code that the scenario names failed; the message begins with its file and line where they are known."""


@contextmanager
def user_code(reference: str, beside: Callable[[], str | None] | None = None) -> Iterator[None]:
    """Any exception inside, `SystemExit` too, becomes a `UserCodeError`; our own errors and Ctrl-C pass.

    Args:
        reference: what is called, words that end with `module:name`: that module is the user's even where it is
            installed among other packages.
        beside: names file and line where only libraries were at work when it failed.
    """
    try:
        yield
    except RelayTrainError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(told(error, reference, beside)) from error


def told(error: BaseException, reference: str, beside: Callable[[], str | None] | None = None) -> str:
    """`file:line: Type: words; what to do`, or with the reference in the place of a file that is not known."""
    if isinstance(error, UserCodeError):
        return str(error)
    place = place_of(error, reference) or (None if beside is None else beside())
    named = "" if place is None or ":" not in reference else f" (in {reference})"
    words = " ".join((error.msg if isinstance(error, SyntaxError) else _last_words(error)).split())[:LONGEST]
    kind = type(error).__name__
    return f"{place or reference}: {kind}{': ' if words else ''}{words}{named}; {_remedy(error)}"


def is_evident(message: str, references: Collection[str], folder: Path | None = None) -> bool:
    """Whether what somebody else tells of the user's code names code that is here: a line of a file, or a reference.

    Args:
        message: as `told` writes it, or no such thing.
        references: what of the user's is in use.
        folder: where files are looked for that are not below the present folder.
    """
    place = re.match(_PLACE, message)
    if place is None:
        return any(reference in message.partition("; ")[0] for reference in references)
    file, line = place.groups()
    packages = {reference.partition(":")[0].partition(".")[0] for reference in references}
    for path in dict.fromkeys((Path(file), (folder or Path()) / file)):
        own = not _ours_or_installed(str(path)) or not packages.isdisjoint((*path.parts, path.stem))
        with suppress(OSError, ValueError):
            if own and stat.S_ISREG(os.stat(path).st_mode) and _has_line(path, int(line)):
                return True
    return False


def _has_line(path: Path, number: int) -> bool:
    with path.open("rb") as file:
        return any(count == number for count, _ in enumerate(islice(file, number), 1))


def place_of(error: BaseException, reference: str = "") -> str | None:
    """File and line of the innermost frame that is the user's own; None where only libraries were at work."""
    if isinstance(error, SyntaxError) and error.filename and not _ours_or_installed(error.filename):
        return f"{_short(error.filename)}:{error.lineno}"
    package = reference.rpartition(" ")[2].partition(":")[0].partition(".")[0]
    place = None
    for frame, line in walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        own = package and str(frame.f_globals.get("__name__", "")).partition(".")[0] == package != "relaytrain"
        if own or not _ours_or_installed(file):
            place = f"{_short(file)}:{line}"
    for file, number in re.findall(_WORKERS, str(error)) if _from_worker(error) else ():
        place = place if _ours_or_installed(file) else f"{_short(file)}:{number}"
    return place


def defined_at(*candidates: Any) -> str | None:
    """File and line of the first of these, a function or an object, whose code is the user's own."""
    for candidate in candidates:
        code = candidate if inspect.isroutine(candidate) or inspect.isclass(candidate) else type(candidate)
        with suppress(TypeError, OSError):
            file, line = inspect.getsourcefile(code), inspect.getsourcelines(code)[1]
            if file is not None and not _ours_or_installed(file):
                return f"{_short(file)}:{line}"
    return None


def _from_worker(error: BaseException) -> bool:
    return "Original Traceback" in str(error)


def _last_words(error: BaseException) -> str:
    """An exception's own words; of one out of a loader's worker, those of the exception it had."""
    if not _from_worker(error):
        return str(error)
    return str(error).strip().rpartition("\n")[2].removeprefix(f"{type(error).__name__}: ")


def _remedy(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "install that package into this environment"
    if isinstance(error, FileNotFoundError):
        return f"check the path: it is looked for from {_here()}"
    if isinstance(error, SystemExit):
        return "let the function return or raise instead of ending the process"
    if isinstance(error, SyntaxError):
        return "correct that line"
    return "correct it there; `relaytrain doctor` tries it without training"


@cache
def _ours_or_installed(file: str) -> bool:
    if file.startswith("<"):  # made by importlib or by exec
        return True
    path = os.path.realpath(file)
    return path.startswith(_roots()) or not INSTALLED.isdisjoint(Path(path).parts)


@cache
def _roots() -> tuple[str, ...]:
    """Folders of relaytrain and of Python itself; a virtual environment borrows the latter from elsewhere."""

    ours, borrowed = str(Path(__file__).parents[1]), os.path.dirname(os.__file__)
    places = (ours, borrowed, sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return tuple({os.path.join(os.path.realpath(place), "") for place in places})


def _short(file: str) -> str:
    """Relative to the present folder where it lies below it."""
    path = os.path.realpath(file)
    below = os.path.join(_here(), "")
    return path.removeprefix(below)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "a folder that is no more"

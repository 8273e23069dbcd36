"""Compiled searches in a command: where their cache goes, what is said while it is built, what is not imported."""

from __future__ import annotations

import importlib
import os
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import RelayTrainError
from .output import note, talk

if TYPE_CHECKING:
    from ..scenario import Scenario

FIRST_TIME = "compiling the searches, once: about 20 s"
SAID = "relaytrain-compiled"
"""A file beside the compiled code: its making was announced, and what other searches add to it is not news."""
PATIENCE_CPU_S = 6.0
"""So much of one core is given to a search that is not compiled yet, before it is compiled after all."""
COMPILE = "RELAYTRAIN_COMPILE"
"""Set to 1: no search is tried uncompiled."""
SLOW = "no folder for compiled code can be written: searching uncompiled, which is slow; set NUMBA_CACHE_DIR to one"


UNUSED = ("scipy.linalg.cython_blas", "cffi", "yaml")
"""What numba imports in case somebody uses it, and no search does: BLAS, and with it all of scipy.linalg; functions of
C; a file of settings. A quarter of the time of a `plan`. Whoever needs one of them still finds it afterwards."""
NUMBA_SETTINGS = ".numba_config.yaml"


def needs_all_imports(scenario: Scenario) -> bool:
    """Whether planning this scenario needs what numba has no use for: DepL's epochs that hang together need scipy."""
    return scenario.depl is not None and not scenario.depl.belief.independent


@contextmanager
def compiled(*, all_imports: bool = False, small: str | None = None) -> Iterator[None]:
    """Plan inside this block: start-up stays short and compilation is announced.

    `all_imports`: somebody needs what is in `UNUSED`, as code of users may; verbs that import such code say so.
    `small`: a single plan by the exact search of this module, which as plain Python is mostly done in a second or two,
    where compiling takes twenty. So while that module is not compiled it is searched uncompiled; if that takes long,
    the command begins anew and compiles. It must not have told or kept anything by then.
    """
    _choose_cache()
    if small is not None and _better_uncompiled(small):
        with _uncompiled():
            yield
        return
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}:
        yield
        return
    unused = () if all_imports else tuple(name for name in UNUSED if name not in sys.modules)
    if Path(NUMBA_SETTINGS).exists():
        unused = tuple(name for name in unused if name != "yaml")
    for name in unused:
        sys.modules[name] = None  # type: ignore[assignment]
    events: Any = importlib.import_module("numba.core.event")
    listener = _announcer(events.Listener)
    events.register("numba:compile", listener)
    try:
        yield
    finally:
        events.unregister("numba:compile", listener)
        for name in unused:
            sys.modules.pop(name, None)


def _better_uncompiled(module: str) -> bool:
    """The module was never compiled here, and this process can still do without."""
    asked = os.environ.get(COMPILE) == "1" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}
    alone = "numba" not in sys.modules and threading.current_thread() is threading.main_thread()
    alone = alone and talk.arguments == tuple(sys.argv[1:])  # else somebody else's program would begin anew
    if asked or not alone or not hasattr(signal, "setitimer"):
        return False
    folder = _folder()
    root = folder.parent if folder.name == "__pycache__" else folder
    return not any(root.rglob(f"{module}.*.nbi"))


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Plain Python for a while; then this process becomes one that compiles."""

    def begin_anew(number: int, frame: object) -> None:
        os.environ.pop("NUMBA_DISABLE_JIT", None)
        os.environ[COMPILE] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    os.environ["NUMBA_DISABLE_JIT"] = "1"
    before = signal.signal(signal.SIGVTALRM, begin_anew)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
        os.environ.pop("NUMBA_DISABLE_JIT", None)


def _announcer(listener: Any) -> Any:
    """Says that something is being compiled; loading from the cache makes no such event."""

    class Announcer(listener):  # type: ignore[misc]
        said = False

        def on_start(self, event: Any) -> None:
            if not self.said:
                self.said = True
                _announce()

        def on_end(self, event: Any) -> None:
            """Nothing to say."""

    return Announcer()


def _announce() -> None:
    """Say that something is compiled, unless that was said when the first of it was."""
    from ..store.files import make_dir, write_atomic

    said = _folder() / SAID
    if talk.quiet or said.exists():
        return
    note(FIRST_TIME)
    with suppress(RelayTrainError, OSError):
        make_dir(said.parent)
        write_atomic(said, FIRST_TIME + "\n")


def _folder() -> Path:
    """Where numba keeps what it compiles."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    package = Path(__file__).parent.parent / "planners" / "__pycache__"
    return package if _writable(package) else _users() / "numba"


def _users() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) if os.environ.get("XDG_CACHE_HOME") else Path.home() / ".cache"


def _choose_cache() -> None:
    """Point numba at a private folder when neither the package's nor the user's can be written."""
    if "numba" in sys.modules or os.environ.get("NUMBA_CACHE_DIR"):
        return
    package = Path(__file__).parent.parent / "planners"
    if _writable(package / "__pycache__") or _writable(_users() / "numba"):
        return
    from ..store.files import make_dir

    private = Path(tempfile.gettempdir()) / f"relaytrain-compiled-{os.getuid() if hasattr(os, 'getuid') else 0}"
    with suppress(RelayTrainError, OSError):
        make_dir(private, private=True)
        facts = private.lstat()
        # numba unpickles what lies there, so it has to be ours alone
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077:
            os.environ["NUMBA_CACHE_DIR"] = str(private)
            return
    note(SLOW)
    os.environ["NUMBA_DISABLE_JIT"] = "1"


def _writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

"""Compiled searches in a command: where their cache goes, what is said while it is built, what is not imported."""

from __future__ import annotations

import importlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..core.errors import RelayTrainError
from .output import note, talk

FIRST_TIME = "compiling the searches, once: about 20 s"
SAID = "relaytrain-compiled"
"""A file beside the compiled code: its making was announced, and what other searches add to it is not news."""
SLOW = "no folder for compiled code can be written: searching uncompiled, which is slow; set NUMBA_CACHE_DIR to one"


@contextmanager
def compiled(*, scipy: bool = False) -> Iterator[None]:
    """Plan inside this block: start-up stays short and compilation is announced.

    `scipy`: somebody needs all of it, as code of the user's own may, which is why verbs that import such code say so.
    """
    _choose_cache()
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}:
        yield
        return
    # numba looks for BLAS when its array functions load, which imports all of scipy.linalg. No search needs BLAS, and
    # the import would be a fifth of the time of a `plan`. Code that does need it still finds it afterwards.
    blocked = "scipy.linalg.cython_blas"
    block = not scipy and blocked not in sys.modules
    if block:
        sys.modules[blocked] = None  # type: ignore[assignment]
    events: Any = importlib.import_module("numba.core.event")
    listener = _announcer(events.Listener)
    events.register("numba:compile", listener)
    try:
        yield
    finally:
        events.unregister("numba:compile", listener)
        if block:
            sys.modules.pop(blocked, None)


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

"""The command line as a user meets it, in processes of their own that cost milliseconds.

Each call is forked from a process that has torch, scikit-learn and the compiled searches loaded already. The user's
modules are imported in the child alone, a death by `kill -9` is real, and the working folder is the user's.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

LIMIT_S = 600
"""A child that hangs is ended by its own alarm; one that compiles on a busy machine takes minutes."""


class Call(NamedTuple):
    """How a command ended and what it said; a killed one has the negative number of its signal as status."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


def warm() -> None:
    """Load once, in the parent, what every child would load: packages, and the compiled searches by a short run."""
    import io

    import sklearn.datasets
    import sklearn.model_selection  # noqa: F401
    from mistakes import MODULE, SCENARIO

    from relaytrain.cli.app import main

    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        (folder / "warming_up.py").write_text(MODULE)
        (folder / "warm.toml").write_text(SCENARIO.replace("mine:", "warming_up:"))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for words in (["doctor"], ["run", "--name", "warming-up"]):
                main([words[0], str(folder / "warm.toml"), "--store", str(folder / "runs"), *words[1:]])


def relaytrain(
    *arguments: str | Path,
    folder: Path,
    env: Mapping[str, str] | None = None,
    kill_when: Callable[[str], bool] | None = None,
    before: Callable[[], None] | None = None,
    terminal: bool = False,
) -> Call:
    """Run a verb in `folder`; `kill_when` is asked after every line of stderr whether to SIGKILL the process.

    `before` is called in the child; `terminal` makes stderr a terminal instead of a pipe.
    """
    from relaytrain.cli.app import main

    read_fd, write_fd = pty.openpty() if terminal else os.pipe()
    with tempfile.TemporaryFile() as out:
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads: the child only runs `main`
            pid = os.fork()
        if pid == 0:
            code = 99
            try:
                signal.alarm(LIMIT_S)
                _become(folder, out.fileno(), write_fd, env or {})
                if before is not None:
                    before()
                code = main([str(word) for word in arguments])
                sys.stdout.flush()
                sys.stderr.flush()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            finally:
                os._exit(code)
        os.close(write_fd)
        lines = []
        ending = contextlib.suppress(OSError if terminal else ())  # so Linux ends a terminal
        with os.fdopen(read_fd, encoding="utf-8", errors="replace") as err, ending:
            for line in err:
                lines.append(line)
                if kill_when is not None and kill_when(line):
                    os.kill(pid, signal.SIGKILL)
                    kill_when = None
        _, ended_as = os.waitpid(pid, 0)
        out.seek(0)
        said = out.read().decode("utf-8", errors="replace")
    return Call(os.waitstatus_to_exitcode(ended_as), said, without_compiling("".join(lines)))


def without_compiling(words: str) -> str:
    """On a machine that has no compiled code yet, any first search announces it."""
    return re.sub(r"^compiling the searches.*\n", "", words, flags=re.MULTILINE)


def _become(folder: Path, out_fd: int, err_fd: int, env: Mapping[str, str]) -> None:
    """Streams, folder, environment, warnings and signals of a fresh process."""
    os.dup2(out_fd, 1)
    os.dup2(err_fd, 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    for name in ("RELAYTRAIN_STORE", "NO_COLOR"):
        os.environ.pop(name, None)
    os.environ.update(env)
    warnings.resetwarnings()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def hint_of(said: str) -> list[str]:
    """The words of the command that `show`, `ls` or a stopped run prints to go on, without `relaytrain`."""
    import shlex

    found = re.search(r"relaytrain (resume [^\n`]+)", said)
    assert found is not None, f"no hint to go on in:\n{said}"
    return shlex.split(found[1].rstrip(". "))


def epoch_is(k: int) -> Callable[[str], bool]:
    """Whether a line of stderr is the one of epoch `k` or a later one."""

    def asked(line: str) -> bool:
        found = re.search(r"\bk +(\d+)\b", line)
        return found is not None and int(found[1]) >= k

    return asked

"""Where words go: results to stdout, everything else to stderr; plain when nobody watches."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import NoSpace, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

PIPE_WIDTH = 200
"""Columns for tables that go to a file or pipe, where no terminal says how wide it is."""


@dataclass
class Talk:
    """How much this call says beside its result."""

    quiet: bool = False
    verbose: bool = False


talk = Talk()


_UNPRINTED = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for low, high in (
        *((0x00, 0x09), (0x0B, 0x20), (0x7F, 0xA0)),  # controls but tab and line feed
        *((0x061C, 0x061D), (0x200E, 0x2010), (0x2028, 0x202F), (0x2066, 0x206A)),  # direction, line separators
        (0xD800, 0xE000),  # bytes that were no text
    )
    for code in range(low, high)
    if code != 0x09
}


def harmless(text: str) -> str:
    """`text` with control and bidirectional characters spelt out: what a store says must not steer the terminal."""
    return text.translate(_UNPRINTED)


def note(words: str) -> None:
    """A line on stderr for whoever watches; `-q` keeps it away."""
    if not talk.quiet:
        print(harmless(words), file=sys.stderr, flush=True)


def complain(words: str) -> None:
    """An error that does not end the verb, on stderr."""
    with suppress(BrokenPipeError):
        print(f"error: {harmless(words)}", file=sys.stderr, flush=True)


def emit(text: str) -> None:
    """The result, on stdout. A reader that has gone (`| head`) is no error."""
    _emit(harmless(text))


def _emit(text: str) -> None:
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _discard_stdout()
        raise NoSpace("no space left where the result is written; it is not complete there") from error


def _discard_stdout() -> None:
    """Or the interpreter's last flush would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit_json(value: Any) -> None:
    """The result as JSON."""
    emit(json.dumps(value, indent=2, allow_nan=False))


def emit_view(view: RenderableType, plain: str | None = None) -> None:
    """The result as a rich view on a terminal; elsewhere `plain`, or the view without lines and colours."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    watched = Console(highlight=False)
    if plain is not None and not watched.is_terminal:
        emit(plain)
        return
    width = None if watched.is_terminal else PIPE_WIDTH
    shown = Console(
        file=io.StringIO(), force_terminal=watched.is_terminal, width=width or watched.width, highlight=False
    )
    if not watched.is_terminal:
        _plain_boxes(view)
    parts = [Segment(harmless(part.text), part.style, part.control) for part in shown.render(view)]
    shown.print(Segments(parts))
    assert isinstance(shown.file, io.StringIO)
    _emit("\n".join(line.rstrip() for line in shown.file.getvalue().splitlines()).strip("\n"))


def _plain_boxes(view: Any) -> None:
    from rich.console import Group
    from rich.table import Table

    if isinstance(view, Table):
        view.box = None
        view.padding = (0, 2, 0, 0)
    elif isinstance(view, Group):
        for part in view.renderables:
            _plain_boxes(part)


def check_figure(path: Path | None) -> None:
    """Refuse a picture's path before the work, not after it."""
    if path is not None and path.suffix.lower() != ".svg":
        raise UsageError(f"--figure: got '{path}', expected a file name that ends in .svg")
    check_folder("--figure", path)


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a file whose folder is not there before the work, not after it."""
    if path is not None and not path.parent.is_dir():
        raise UsageError(
            f"{option}: got '{path}', expected a folder that exists; make it first: mkdir -p {path.parent}"
        )


def write_figure(path: Path | None, svg: str) -> None:
    """Write a picture that was asked for, and say where it is."""
    if path is not None:
        from ..store.files import write_atomic

        write_atomic(path, svg)
        note(f"picture: {path}")


@contextmanager
def progress(words: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr while the block runs; None when nobody watches."""
    if talk.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=None)

        def step(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield step

"""Where words go: results to stdout, everything else to stderr; plain when nobody watches."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import NoSpace, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

PIPE_WIDTH = 200
"""Columns for tables that go to a file or pipe, where no terminal says how wide it is."""


SILENT_S = 5.0
"""Whoever waits hears a word this often, so that a pipe is never silent for 10 s."""

COLOURS = {"bad": "31", "good": "32", "warn": "33", "dim": "2"}


@dataclass
class Talk:
    """How much this call says beside its result. `spoken_s`: when it last said something. `arguments`: its words."""

    quiet: bool = False
    verbose: bool = False
    spoken_s: float = 0.0
    arguments: tuple[str, ...] = ()


talk = Talk()


@cache
def _unprinted() -> dict[int, str]:
    """What stands for characters that are not printed as they are."""
    spans = (
        *((0x00, 0x09), (0x0B, 0x20), (0x7F, 0xA0)),  # controls but tab and line feed
        *((0x061C, 0x061D), (0x200E, 0x2010), (0x2028, 0x202F), (0x2066, 0x206A)),  # direction, line separators
        (0xD800, 0xE000),  # bytes that were no text
    )
    return {
        code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for low, high in spans for code in range(low, high)
    }


def harmless(text: str) -> str:
    """`text` with control and bidirectional characters spelt out: what a store says must not steer the terminal."""
    return text if text.isascii() and text.isprintable() else text.translate(_unprinted())


def note(words: str, colour: str | None = None) -> None:
    """A line on stderr for whoever watches, in a colour of `COLOURS` if need be; `-q` keeps it away."""
    if not talk.quiet:
        talk.spoken_s = time.monotonic()
        said = harmless(words)
        print(said if colour is None else paint(said, colour), file=sys.stderr, flush=True)


def complain(words: str) -> None:
    """An error that does not end the verb, on stderr."""
    with suppress(BrokenPipeError):
        print(f"error: {harmless(words)}", file=sys.stderr, flush=True)


def watched() -> bool:
    """Whether stderr is a terminal, with somebody before it."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def paint(words: str, colour: str) -> str:
    """`words` in a colour of `COLOURS` where stderr shows colours, as they are elsewhere."""
    if not words or os.environ.get("NO_COLOR") or not watched():
        return words
    return f"\x1b[{COLOURS[colour]}m{words}\x1b[0m"


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

    console = Console(highlight=False)
    if plain is not None and not console.is_terminal:
        emit(plain)
        return
    width = None if console.is_terminal else PIPE_WIDTH
    shown = Console(
        file=io.StringIO(), force_terminal=console.is_terminal, width=width or console.width, highlight=False
    )
    if not console.is_terminal:
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


def check_file(option: str, path: Path | None, *suffixes: str) -> None:
    """Refuse a file before the work, not after it: its name ends in one of `suffixes`, if any, its folder is there."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise UsageError(f"{option}: got '{path}', expected a file name that ends in {suffixes[0]}")
    if not path.parent.is_dir():
        raise UsageError(
            f"{option}: got '{path}', expected a folder that exists; make it first: mkdir -p {path.parent}"
        )


def write_figure(path: Path | None, svg: str) -> None:
    """Write a picture that was asked for, and say where it is."""
    if path is not None:
        from ..store.files import write_atomic

        write_atomic(path, svg)
        note(f"picture: {path}")


def write_report(path: Path | None, page: Callable[[Sequence[str]], str]) -> None:
    """Write a page that was asked for, with the words of this call in it, and say where it is."""
    if path is not None:
        from ..store.files import write_atomic

        write_atomic(path, page(["relaytrain", *talk.arguments]))
        note(f"report: {path}")


Step = Callable[[int, int], None]
"""Hears how many are done, of how many."""


@contextmanager
def progress(words: str) -> Iterator[Step | None]:
    """A bar on a terminal while the block runs, a line every few seconds elsewhere; None with `-q`.

    Work that cannot be counted never calls what it gets: then only the time that has passed is told.
    """
    if talk.quiet:
        yield None
    elif watched():
        with _bar(words) as step:
            yield step
    else:
        with _Waiting(words) as waiting:
            yield waiting.step


@contextmanager
def _bar(words: str) -> Iterator[Step]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(words, total=None)

        def step(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield step


class _Waiting:
    """Plain lines in a pipe: from the work as it counts, or, while it counts nothing, from a thread beside it."""

    def __init__(self, words: str) -> None:
        self.words, self.counted = words, ""
        self.began_s = talk.spoken_s = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def step(self, done: int, total: int) -> None:
        self.counted = f"{done} of {total}, "
        self._speak()

    def _speak(self) -> None:
        now_s = time.monotonic()
        if now_s - talk.spoken_s >= SILENT_S:
            note(f"{self.words}: {self.counted}{now_s - self.began_s:.0f} s so far")

    def _watch(self) -> None:
        while not self._over.wait(SILENT_S):
            self._speak()

    def __enter__(self) -> _Waiting:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

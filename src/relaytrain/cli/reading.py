"""What the verbs that read runs share: the store's option, the run's argument, and how a run is found by its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import UsageError, need_packages
from . import completion

if TYPE_CHECKING:
    from ..report.run_view import RunView
    from ..store import RunStore

_STORE_HELP = "The folder of runs ($RELAYTRAIN_STORE, else ./relaytrain-runs)."
Store = Annotated[Path | None, typer.Option("--store", metavar="DIR", help=_STORE_HELP, show_default=False)]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's name, or the beginning of it.",
        show_default=False,
        autocompletion=completion.runs,
    ),
]
LastRun = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="A run's name or its beginning; the last one without it.",
        show_default=False,
        autocompletion=completion.runs,
    ),
]


def need_torch(verb: str) -> None:
    """Refuse in words where torch is not installed."""
    need_packages(f"{verb} needs", {"torch": "train"})


def store_folder(folder: Path | None) -> Path:
    """Where the store to read is; it, or what is left of it, must be there."""
    from ..store import store_path
    from ..store.database import exists

    place = store_path(folder)
    if not exists(place):
        raise UsageError(f"{place}: no runs here; give their folder with --store or RELAYTRAIN_STORE")
    return place


def open_store(folder: Path | None) -> RunStore:
    """The store to read; it must be there."""
    from ..store import RunStore

    return RunStore.open(store_folder(folder))


def find_run(store: RunStore, wanted: str | None) -> str:
    """The run called `wanted`, or the only one that begins so; without a name the one written last."""
    names = [row.run for row in store.runs()]
    if not names:
        raise UsageError(f"{store.folder}: it holds no run yet; start one with relaytrain run")
    if wanted is None or wanted in names:
        return wanted or names[0]
    fits = [name for name in names if name.startswith(wanted)]
    if len(fits) == 1:
        return fits[0]
    shown = ", ".join((fits or names)[:5]) + (" ..." if len(fits or names) > 5 else "")
    what = "fits several" if fits else "is none of the runs"
    raise UsageError(f"'{wanted[:60]}' {what} in {store.folder}: {shown}")


def read_run(store: RunStore, run: str) -> RunView:
    """A run put together from its events."""
    from ..report.run_view import RunView

    return RunView.of(store.events(run), live=store.sound(run).status == "running")

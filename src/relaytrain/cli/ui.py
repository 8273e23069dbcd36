"""`relaytrain ui`: the runs of a store in the browser, live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import need_packages
from .output import emit, note
from .reading import Store

SHORT = "The runs of a store in the browser, live."
HELP = """Show the runs of a store in the browser: live, side by side, why each decision was taken, and what if.

It only reads. It listens on this machine alone, and only for whoever has the address that it prints, which carries a
token. --host for other machines needs --cert and --key. Ctrl-C ends it.
"""
EXAMPLES = """\b
Examples:
  relaytrain ui
  relaytrain ui --store /data/runs --port 8080 --no-open
  ssh -L 7717:127.0.0.1:7717 machine relaytrain ui --no-open
"""

Port = Annotated[
    int | None,
    typer.Option("--port", metavar="N", help="Where to listen (7717, or any that is free).", show_default=False),
]
Host = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="Beyond 127.0.0.1 only with TLS.", show_default=False)
]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")]
Certificate = Annotated[
    Path | None, typer.Option("--cert", metavar="FILE.pem", help="TLS certificate.", show_default=False)
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE.pem", help="Its key.", show_default=False)]
Names = Annotated[
    list[str] | None, typer.Option("--name", metavar="HOST", help="What this host is called (repeatable).")
]


def ui(
    store: Store = None,
    port: Port = None,
    host: Host = "127.0.0.1",
    no_open: NoOpen = False,
    certificate: Certificate = None,
    key: Key = None,
    names: Names = None,
) -> int:
    """Open the store, listen, say where."""
    need_packages("ui needs", {"fastapi": "web", "uvicorn": "web"})
    from ..store import RunStore
    from ..web.serving import ListenAt, serve

    opened = RunStore.open(store)
    place = ListenAt(host, port, certificate, key, tuple(names or ()))

    def told(address: str) -> None:
        emit(f"dashboard: {address}")
        note(f"  {opened.folder}; Ctrl-C ends it")
        if not place.local:
            note("  warning: other machines can reach it; whoever has the address can read every run", "warn")
        if not no_open and sys.stdout.isatty():
            import webbrowser

            webbrowser.open(address)

    serve(opened, place, told=told)
    return 0

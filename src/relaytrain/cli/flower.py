"""`relaytrain flower`: certificates for development, and a SuperLink that uses them."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import StoppedByUser, WorkerLost
from .output import emit, note
from .signals import signals

app = typer.Typer(help="Certificates, and a SuperLink that uses them.", no_args_is_help=True)
LOOK_S = 0.2
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of certificates.", show_default=False)]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="A name or address of the SuperLink's machine (repeatable)."),
]
Names = Annotated[list[str] | None, typer.Option("--node", metavar="NODE", help="A node that gets a key (repeatable).")]


@app.command(
    short_help="Development certificates and node keys.",
    epilog="\b\nExamples:\n  relaytrain flower certs DIR --host 10.0.0.1 --node cloud --node edge-1",
)
def certs(folder: Folder, host: Hosts = None, node: Names = None) -> int:
    """Make development certificates and node keys; call it again to add nodes or hosts.

    DIR/nodes/NAME is for the machine of node NAME; the rest stays where the SuperLink runs. They are valid for a year.
    For production, bring certificates of your own authority under the same names.
    """
    from ..executors.flower.environment import need_flower
    from ..executors.flower.security import make_certificates

    need_flower()
    for path in make_certificates(folder, host or (), node or ()):
        emit(str(path))
    return 0


Address = Annotated[
    str, typer.Option("--address", metavar="HOST:PORT", help="Where it listens (127.0.0.1:8000).", show_default=False)
]
Certs = Annotated[Path | None, typer.Option("--certs", metavar="DIR", help="Of `relaytrain flower certs`.")]
Database = Annotated[
    Path | None, typer.Option("--database", metavar="FILE", help="Flower's own state; in memory else.")
]


@app.command(
    short_help="A SuperLink as relaytrain needs it, until Ctrl-C.",
    epilog="\b\nExamples:\n  relaytrain flower superlink --address 10.0.0.1:8000 --certs DIR",
)
def superlink(
    address: Address = "127.0.0.1:8000",
    certs: Certs = None,
    database: Database = None,
) -> int:
    """Start a SuperLink as relaytrain needs it, until Ctrl-C or SIGTERM: TLS, registered nodes only, no telemetry.

    Without certificates it listens on loopback only. Keys in DIR/nodes are registered under their names.
    """
    from ..executors.flower.environment import environment, need_flower
    from ..executors.flower.local import is_healthy, last_words
    from ..executors.flower.nodes_here import Tethered
    from ..executors.flower.security import Link, register_nodes, superlink_command

    need_flower()
    command = superlink_command(address, certs, database)
    link = Link(address, certs)
    with (
        tempfile.TemporaryDirectory(prefix="rts-", ignore_cleanup_errors=True) as home,
        signals.stopping(says=False) as stop,
    ):
        log = Path(home) / "superlink.log"
        running = Tethered("the SuperLink", command, log, environment(Path(home) / "flwr"))
        try:
            known = False
            while not stop.asked:
                ended = running.ended()
                if ended is not None:
                    raise WorkerLost(f"{ended}; it said: {last_words(log)}")
                if not known and is_healthy(link):
                    known = True
                    names = register_nodes(link, certs, Path(home) / "register") if certs is not None else []
                    note(f"SuperLink at {address}" + (f", registered: {', '.join(names)}" if names else ""))
                time.sleep(LOOK_S)
        finally:
            running.end()
    note("stopped")
    return StoppedByUser.exit_status

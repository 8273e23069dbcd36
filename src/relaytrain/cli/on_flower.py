"""What `run` and `resume` share when nodes are Flower's: the same command line, run inside a ServerApp."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import UsageError, WorkerLost
from .output import note, talk
from .signals import signals

if TYPE_CHECKING:
    from ..scenario import Scenario

LocalFlower = Annotated[
    int | None,
    typer.Option(
        "--local-flower",
        metavar="N",
        min=1,
        max=256,
        help="Start a SuperLink and N SuperNodes on this machine, and stop them again.",
        show_default=False,
    ),
]


SuperLinkAddress = Annotated[
    str | None,
    typer.Option(
        "--superlink", metavar="HOST:PORT", help="A SuperLink that runs, on this machine.", show_default=False
    ),
]
Certificates = Annotated[
    Path | None,
    typer.Option("--certs", metavar="DIR", help="Certificates of `relaytrain flower certs`.", show_default=False),
]
ProfileNodes = Annotated[
    bool,
    typer.Option("--profile-nodes", help="Time all versions on the nodes first, and plan with that (Flower)."),
]
PATIENCE_S = 10.0
"""How long a SuperLink may not answer before it counts as gone."""


@dataclass(frozen=True)
class Where:
    """Which Flower: one of our own with so many SuperNodes, or a SuperLink that runs."""

    local: int | None = None
    superlink: str | None = None
    certs: Path | None = None

    def is_outside(self, scenario: Scenario) -> bool:
        """Whether this is the command line of a run whose loop has to be in a ServerApp.

        Raises:
            UsageError: options for Flower, but the transport is another.
        """
        from ..executors.flower.inside import is_serverapp

        flower = (scenario.training or {}).get("transport") == "flower"
        given = {"--local-flower": self.local, "--superlink": self.superlink, "--certs": self.certs}
        for option, value in given.items():
            if value is not None and not flower:
                raise UsageError(f"{option}: the transport is not flower; add --transport flower")
        if self.local is not None and self.superlink is not None:
            raise UsageError("--local-flower and --superlink: one of them; the first starts a SuperLink of its own")
        if self.certs is not None and self.superlink is None:
            raise UsageError("--certs: for a SuperLink that runs; add --superlink HOST:PORT")
        return flower and not is_serverapp()


def on_flower(scenario: Scenario, where: Where) -> int:
    """This very command inside a ServerApp; its exit status."""
    from ..executors.flower.environment import need_flower
    from ..executors.flower.local import LocalFlower as Here
    from ..executors.flower.security import Link
    from ..executors.flower.submission import submit
    from ..executors.shares import divide

    need_flower()
    groups = scenario.problem.node_sets
    names = {name for group in groups for name in group.nodes}
    sizes = {node.name: int(node.samples or 1) for node in scenario.problem.nodes if node.name in names}
    if not sizes:
        raise UsageError("transport flower: no node set lists the nodes that train; add [[nodes]] and node_sets.nodes")
    if where.superlink is not None:
        return at_superlink(where.superlink, where.certs)
    if where.local is None:
        raise UsageError("transport flower: say where its nodes are: --local-flower N, or --superlink HOST:PORT")
    shares = divide(sizes, where.local, [group.nodes for group in groups if group.mode == "pipeline"])
    with _room() as room, signals.stopping(says=False) as stop:
        note(f"starting a SuperLink and {len(shares)} SuperNodes on this machine")
        with Here(scenario, shares, room) as here:
            return submit(talk.arguments, link=Link(here.address), room=room, lost=here.lost, asked=lambda: stop.asked)


def at_superlink(address: str, certs: Path | None) -> int:
    """This very command inside a ServerApp of a SuperLink that runs; its exit status."""
    from ..executors.flower.environment import need_flower
    from ..executors.flower.local import is_healthy
    from ..executors.flower.security import link_to
    from ..executors.flower.submission import submit

    need_flower()
    link = link_to(address, certs)
    answered = time.monotonic()
    if not is_healthy(link):
        how = "in the clear" if certs is None else f"with the certificate of {certs}"
        raise WorkerLost(f"no SuperLink answers at {address} {how}; start one with `relaytrain flower superlink`")
    looked = answered

    def lost() -> str | None:
        nonlocal answered, looked
        now = time.monotonic()
        if now - looked >= 2.0:
            looked = now
            answered = time.monotonic() if is_healthy(link) else answered
        gone = now - answered > PATIENCE_S
        return f"the SuperLink at {address} has not answered for {now - answered:.0f} s" if gone else None

    with _room() as room, signals.stopping(says=False) as stop:
        return submit(talk.arguments, link=link, room=room, lost=lost, asked=lambda: stop.asked)


def on_its_nodes(scenario: Scenario, batches: int = 12) -> Scenario:
    """`scenario` with the epochs that its nodes have measured in its cost table; this process is its ServerApp."""
    from ..executors.flower.inside import is_serverapp, the_grid

    if not is_serverapp():
        raise UsageError("--profile-nodes: nodes of their own are those of --transport flower")
    from ..executors.flower.profiling import profile_nodes, with_measured
    from ..executors.flower.transport import FIRST_WAIT_S

    groups = [group for group in scenario.problem.node_sets if group.mode != "pipeline"]
    names = sorted({name for group in groups for name in group.nodes})
    profiles = profile_nodes(the_grid(), names, batches=batches, wait_s=FIRST_WAIT_S)
    if not profiles:
        raise WorkerLost("no node has measured anything; `relaytrain nodes` says who is there")
    missing = [name for name in names if name not in profiles]
    if missing:
        note(f"not measured: {', '.join(missing)}; their costs stay as the scenario has them")
    return with_measured(scenario, profiles)


@contextmanager
def _room() -> Iterator[Path]:
    """A private folder with a short name, since sockets lie in it; kept when somebody was lost, for what is in it."""
    room = Path(tempfile.mkdtemp(prefix="rtf-"))
    keep = False
    try:
        yield room
    except WorkerLost as lost:
        keep = any(room.glob("*.log"))
        kept = f"\nwhat Flower's programs said is in {room}" if keep else ""
        raise WorkerLost(f"{lost}{kept}") from None
    finally:
        if not keep:
            shutil.rmtree(room, ignore_errors=True)

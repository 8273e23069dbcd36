"""What `run` and `resume` share when nodes are Flower's: the same command line, run inside a ServerApp."""

from __future__ import annotations

import shutil
import tempfile
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


def is_outside(scenario: Scenario, local: int | None) -> bool:
    """Whether this is the command line of a run whose loop has to be in a ServerApp.

    Raises:
        UsageError: options for Flower, but the transport is another.
    """
    from ..executors.flower.inside import is_serverapp

    flower = (scenario.training or {}).get("transport") == "flower"
    if local is not None and not flower:
        raise UsageError("--local-flower: the transport is not flower; add --transport flower")
    return flower and not is_serverapp()


def on_flower(scenario: Scenario, local: int | None) -> int:
    """This very command inside a ServerApp; its exit status."""
    from ..executors.flower.environment import need_flower
    from ..executors.flower.local import LocalFlower as Here
    from ..executors.flower.submission import submit
    from ..executors.shares import divide

    need_flower()
    if local is None:
        raise UsageError("transport flower: say where its nodes are: --local-flower N")
    names = {name for group in scenario.problem.node_sets if group.mode != "pipeline" for name in group.nodes}
    sizes = {node.name: int(node.samples or 1) for node in scenario.problem.nodes if node.name in names}
    if not sizes:
        raise UsageError("transport flower: no node set lists the nodes that train; add [[nodes]] and node_sets.nodes")
    room = Path(tempfile.mkdtemp(prefix="rtf-"))
    keep = False
    try:
        with signals.stopping(says=False) as stop:
            shares = divide(sizes, local)
            note(f"starting a SuperLink and {len(shares)} SuperNodes on this machine")
            with Here(scenario, shares, room) as here:
                return submit(talk.arguments, address=here.address, room=room, lost=here.lost, asked=lambda: stop.asked)
    except WorkerLost as lost:
        keep = True
        raise WorkerLost(f"{lost}\nwhat Flower's programs said is in {room}") from None
    finally:
        if not keep:
            shutil.rmtree(room, ignore_errors=True)

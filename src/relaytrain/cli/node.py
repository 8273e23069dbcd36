"""`relaytrain node`: this machine as a node of a relay."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import ScenarioError, StoppedByUser, UsageError, WorkerLost, did_you_mean
from . import completion
from .on_flower import Certificates
from .options import Sets
from .output import note
from .reading import need_torch
from .signals import signals

if TYPE_CHECKING:
    from ..executors.flower.nodes_here import NodeHere
    from ..executors.flower.security import Link
    from ..relay.stopping import Stop

SHORT = "This machine as a node of a relay on Flower."
HELP = """Join a SuperLink as one or several nodes of a scenario, and train what the relay hands to them.

Torch, memory and clock are looked at first. The scenario's data are opened here, on this machine, once; so is code of
your own, from the scenario's folder. What is done is said line by line. SIGTERM and Ctrl-C leave after the task at
hand, a second one at once. A SuperNode that dies is started again, one that loses the SuperLink comes back with it.
Stages of pipeline sets listen at this machine's address towards the SuperLink, or at --listen. Exit status: 6 left as
asked, 3 the scenario, its data or its code cannot be opened, 7 the SuperLink refuses this node.
"""
EXAMPLES = """\b
Examples:
  relaytrain node my.toml --as edge-1 --superlink 127.0.0.1:8000
  relaytrain node my.toml --as edge-1 --superlink 10.0.0.1:8000 --certs edge-1 --site lab
"""
As = Annotated[
    list[str] | None,
    typer.Option("--as", metavar="NODE", help="The node that this machine plays (repeatable).", show_default=False),
]
Site = Annotated[str, typer.Option("--site", metavar="WORDS", help="Where it stands, for people.", show_default=False)]
OwnMeter = Annotated[
    str | None,
    typer.Option("--meter", metavar="MODULE:FUNCTION", help="A meter of your own: it returns one.", show_default=False),
]
RelaysScenario = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="The relay's TOML or JSON file, or a preset's name.",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
RelaysSuperLink = Annotated[
    str | None,
    typer.Option("--superlink", metavar="HOST:PORT", help="Of the relay (127.0.0.1:8000).", show_default=False),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST[:PORT]",
        help="Where other stages of a pipeline reach this machine (its address towards the SuperLink).",
        show_default=False,
    ),
]
LOOK_S = 0.5
AGAIN_S = 3.0
REFUSALS = 3
"""How often a SuperLink may refuse this node before that is taken for its last word: keys may be registered late."""
WORDS_EVERY_S = 10.0
REPLY_S = 4.0
"""How long a SuperNode takes to send what its trainer has just handed over."""


def node(
    scenario: RelaysScenario,
    as_: As = None,
    superlink: RelaysSuperLink = None,
    certs: Certificates = None,
    site: Site = "",
    meter: OwnMeter = None,
    listen: Listen = None,
    sets: Sets = None,
) -> int:
    """Check, join, stay."""
    need_torch("node")
    from .. import api
    from ..executors.flower.environment import free_ports, need_flower
    from ..executors.flower.fitness import fitness
    from ..executors.flower.nodes_here import NodeHere
    from ..executors.flower.security import link_to, stage_address
    from ..executors.flower.trainer_link import TrainerPlace
    from ..store.files import write_atomic

    need_flower()
    loaded = api.scenario(scenario, overrides=sets or ())
    names = tuple(as_ or ())
    known = [one.name for one in loaded.problem.nodes]
    for name in names:
        if name not in known:
            raise UsageError(f"--as: got '{name[:60]}', expected one of {', '.join(known)}{did_you_mean(name, known)}")
    if not names:
        raise UsageError(f"--as: say which node this machine plays: {', '.join(known)}")
    if any('"' in words or "\\" in words for words in (site, meter or "", str(certs or ""))):
        raise UsageError("--site, --meter and --certs: no quotes or backslashes")
    link = link_to(superlink or "127.0.0.1:8000", certs, node=True)
    at = stage_address(link, listen)
    with (
        tempfile.TemporaryDirectory(prefix="rtn-", ignore_cleanup_errors=True) as folder,
        signals.stopping(says=False) as stop,
    ):
        room = Path(folder)
        tables = room / "scenario.json"
        write_atomic(tables, json.dumps(loaded.resolved), private=True, durable=False)
        known_by = None if certs is None else str(certs.resolve())
        code = None if loaded.folder is None else str(loaded.folder.resolve())
        place = TrainerPlace(names, str(tables), str(room / "trainer"), code, site or None, meter, at, known_by)
        if not _found(link, stop):
            return StoppedByUser.exit_status
        for words in fitness(link, loaded.problem, int((loaded.training or {}).get("batch", 32))):
            note(words)
        note(f"opening the data of {', '.join(names)}")
        here = NodeHere(
            "+".join(names),
            place,
            superlink=link.address,
            port=free_ports(1)[0],
            room=room,
            security=link.node_arguments(),
            aloud=True,
        )
        try:
            return _stay(here, stop, link.address)
        finally:
            here.end()


def _found(link: Link, stop: Stop) -> bool:
    """Wait for the SuperLink; False when the user has asked to stop before."""
    from ..executors.flower.local import is_healthy

    said = 0.0
    while not is_healthy(link):
        if stop.asked:
            return False
        if time.monotonic() - said > WORDS_EVERY_S:
            said = time.monotonic()
            note(f"waiting for a SuperLink at {link.address}")
        time.sleep(LOOK_S)
    return True


def _stay(here: NodeHere, stop: Stop, address: str) -> int:
    from ..executors.flower.local import last_words
    from ..executors.flower.trainer_link import describe

    began, joined, seen, refusals = time.monotonic(), False, "", 0
    while True:
        if stop.asked:
            break
        state = describe(here.place, start=False)
        if state["state"] == "broken":
            raise ScenarioError(f"this machine cannot train it: {state['words']}")
        if not joined and here.is_joined():
            joined = True
            note(f"joined the SuperLink at {address} after {time.monotonic() - began:.0f} s")
        ended = here.supernode.ended()
        if ended is not None:
            words = last_words(here.supernode.log)
            refusals += not joined
            if refusals >= REFUSALS:
                raise WorkerLost(f"the SuperLink at {address} does not take this node: {ended}; it said: {words}")
            if words != seen:
                note(f"{ended}; starting another ({words[-120:]})")
            seen = words
            time.sleep(AGAIN_S)
            here.revive(always=True)
        time.sleep(LOOK_S)
    if describe(here.place, start=False)["state"] == "training":
        note("leaving after this task; once more leaves at once")
        while stop.asked < 2 and describe(here.place, start=False)["state"] == "training":
            time.sleep(LOOK_S)
        until = time.monotonic() + REPLY_S
        while stop.asked < 2 and time.monotonic() < until and here.supernode.ended() is None:
            time.sleep(LOOK_S)
    note("leaving")
    return StoppedByUser.exit_status

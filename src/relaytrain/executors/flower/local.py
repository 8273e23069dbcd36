"""`--local-flower N`: a SuperLink and N SuperNodes on loopback: started, waited for, stopped to the last process."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ...core.errors import WorkerLost
from ...core.notices import say
from ...scenario import Scenario
from ...store.files import make_dir, write_atomic
from .environment import environment, free_ports
from .nodes_here import NodeHere, Tethered
from .security import Link, client_context, superlink_command
from .trainer_link import TrainerPlace

START_S = 180.0
LOOK_S = 0.1
HEALTH_S = 3.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ROUTINE = re.compile(r"FastAPI lifespan|Application (shutdown|startup)|server process|Uvicorn running|Shutting down")
HOST = "127.0.0.1"


class LocalFlower:
    """All of it as a context; `address` is the SuperLink's.

    Args:
        scenario: what the trainers open.
        shares: the nodes that each SuperNode plays.
        room: a private folder with a short name: sockets lie in it.
    """

    def __init__(self, scenario: Scenario, shares: Sequence[Sequence[str]], room: Path) -> None:
        self.room = room
        self._port, *ports = free_ports(1 + 2 * len(shares))
        self._node_ports, self._stage_ports = ports[: len(shares)], ports[len(shares) :]
        self.address = f"{HOST}:{self._port}"
        self._scenario, self._shares = scenario, shares
        self.superlink: Tethered | None = None
        self.nodes: list[NodeHere] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop exactly what was started."""
        for node in self.nodes:
            node.ask_to_end()
        for node in self.nodes:
            node.end()
        if self.superlink is not None:
            self.superlink.end()
        self.nodes, self.superlink = [], None

    def lost(self) -> str | None:
        """What keeps the whole from working, in words: the SuperLink has ended. A SuperNode that has is replaced."""
        if self.superlink is None:
            return "the SuperLink has not been started"
        words = self.superlink.ended()
        for node in self.nodes if words is None else ():
            ended = node.supernode.ended()
            if ended is not None and node.revive():
                say(f"{ended}; started another")
        return words

    def _start(self) -> None:
        command = superlink_command(self.address, None)
        log = self.room / "superlink.log"
        self.superlink = Tethered("SuperLink", command, log, environment(self.room / "flwr"))
        folder = self._scenario.folder
        tables = self.room / "scenario.json"
        write_atomic(tables, json.dumps(self._scenario.resolved), private=True, durable=False)
        shares = zip(self._shares, self._node_ports, self._stage_ports, strict=True)
        for i, (names, port, stages) in enumerate(shares):
            home = make_dir(self.room / f"n{i}", private=True)
            code = None if folder is None else str(folder.resolve())
            at = f"{HOST}:{stages}"
            place = TrainerPlace(tuple(names), str(tables), str(home / "trainer"), code, stages=at)
            self.nodes.append(NodeHere("+".join(names), place, superlink=self.address, port=port, room=home))
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            words = self.lost()
            if words is not None:
                raise WorkerLost(f"{words} as it started; it said: {last_words(self.room / 'superlink.log')}")
            if is_healthy(Link(self.address)):
                return
            time.sleep(LOOK_S)
        raise WorkerLost(f"no SuperLink at {self.address} within {START_S:g} s")


def is_healthy(link: Link) -> bool:
    """Whether a SuperLink answers there.

    Raises:
        WorkerLost: one does, but it is not the one that we have the certificate of.
    """
    connection = connection_to(link)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except ssl.SSLCertVerificationError as wrong:
        raise WorkerLost(f"the SuperLink at {link.address} has another certificate: {wrong.verify_message}") from None
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def connection_to(link: Link) -> http.client.HTTPConnection:
    """To the SuperLink, as its link says."""
    host, port = link.host_port
    context = client_context(link)
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=HEALTH_S)
    return http.client.HTTPSConnection(host, port, timeout=HEALTH_S, context=context)


def last_words(log: Path) -> str:
    """The end of what a process said."""
    with suppress(OSError):
        text = _COLOUR.sub("", log.read_text(encoding="utf-8", errors="replace"))
        lines = [line.strip() for line in text.splitlines()]
        return " / ".join([line for line in lines if line and not _ROUTINE.search(line)][-3:])[-600:] or "nothing"
    return "nothing"

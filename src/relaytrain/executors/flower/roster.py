"""Who is there: which Flower node plays which nodes of the scenario, asked of every Flower node once.

Flower's list of nodes has numbers only, so a node that is new is asked who it is. The list itself is looked at before
every epoch: who has gone is forgotten, who has come is asked.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from ...core.notices import say
from ...training.task import BadMessage
from .messages import of_about, to_about

ASK_S = 300.0
"""How long a node may take to say who it is: a ClientApp has to start, on a busy machine slowly."""
AGAIN_S, TIMES = 30.0, 5
"""A node that could not say is asked again, so much later and so often."""
LOOK_S = 0.5
WORDS_EVERY_S = 10.0
PULL_S = 0.1


@dataclass
class Roster:
    """The Flower nodes that are there, and what each says of itself."""

    grid: Grid
    about: dict[int, dict[str, Any]] = field(default_factory=dict)
    _asked: dict[str, tuple[int, float]] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _silent: dict[int, tuple[int, float]] = field(default_factory=dict)

    def plays(self) -> dict[str, int]:
        """The Flower node of each node of the scenario; of two that claim one, the one that came last.

        A SuperNode that was killed stays in Flower's list for a minute; the one in its place is there before.
        """
        return {name: number for number, about in self.about.items() for name in about["nodes"]}

    def refresh(self) -> dict[str, int]:
        """Look at Flower's list; nodes that are new are asked, and answers that have come are read."""
        listed = {node.node_id: node.name for node in self.grid.get_nodes()}
        present = set(listed)
        self._names = {number: name for number, name in listed.items() if name}
        self._silent = {number: told for number, told in self._silent.items() if number in present}
        for gone in set(self.about) - present:
            del self.about[gone]
        now = time.monotonic()
        waiting = self._asked.items()  # an answer of one who has gone would have no registered name to be held against
        self._asked = {key: (node, at) for key, (node, at) in waiting if node in present and now - at < ASK_S}
        waited_for = {node for node, _ in self._asked.values()}
        resting = {node for node, (times, at) in self._silent.items() if times >= TIMES or now - at < AGAIN_S}
        new = sorted(present - set(self.about) - waited_for - resting)
        if new:
            questions = [
                Message(of_about({}), dst_node_id=node, message_type=MessageType.QUERY, ttl=ASK_S) for node in new
            ]
            for node, key in zip(new, self.grid.push_messages(questions), strict=True):
                if key:
                    self._asked[key] = node, now
        if self._asked:
            self._read(self.grid.pull_messages(list(self._asked)))
        return self.plays()

    def wait_for(self, names: Collection[str], wait_s: float) -> dict[str, int]:
        """As `refresh`, until all of `names` are there or nobody has come for so long; answers on their way count."""
        began = told_s = time.monotonic()
        came = len(self.about)
        while True:
            there = self.refresh()
            missing = [name for name in names if name not in there]
            now = time.monotonic()
            if len(self.about) > came:
                began, came = now, len(self.about)
            if not missing or (now - began >= wait_s and not self._asked):
                return there
            if now - began >= wait_s + ASK_S:
                return there
            if now - told_s >= WORDS_EVERY_S:
                told_s = now
                say(f"waiting for nodes: {', '.join(missing)} ({now - began:.0f} of {wait_s:.0f} s)")
            time.sleep(PULL_S if self._asked else LOOK_S)

    def settle(self, wait_s: float) -> None:
        """As `refresh`, until everybody on Flower's list has answered or the time is over."""
        until = time.monotonic() + wait_s
        self.refresh()
        while self._asked and time.monotonic() < until:
            time.sleep(PULL_S)
            self.refresh()

    def _read(self, answers: Iterable[Message]) -> None:
        for answer in answers:
            asked = self._asked.pop(answer.metadata.reply_to_message_id, None)
            if asked is None:
                continue
            number = asked[0]
            if answer.has_error() or answer.metadata.src_node_id != number:
                words = answer.error.reason if answer.has_error() else "an answer in another node's name"
                say(f"Flower node {number} does not say who it is: {words}")
                self._silent[number] = self._silent.get(number, (0, 0.0))[0] + 1, time.monotonic()
                continue
            try:
                about = to_about(answer.content)
                names = about.get("nodes")
                if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                    raise BadMessage("it names no nodes")
            except BadMessage as wrong:
                say(f"Flower node {number} does not say who it is: {wrong}")
                about, names = {"nodes": []}, []
            self.about[number] = {**about, "nodes": self._believed(number, names)}

    def _believed(self, number: int, claimed: list[str]) -> list[str]:
        """Of nodes that a Flower node claims, the one that its key was registered for; all where keys have no names."""
        registered = self._names.get(number)
        if registered is None:
            return claimed
        for name in claimed:
            if name != registered:
                say(f"Flower node {number} has the key of {registered} and claims to be {name}: not believed")
        return [name for name in claimed if name == registered]

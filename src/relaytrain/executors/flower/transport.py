"""Tasks to Flower nodes and results back, under the contract of every transport.

Messages are pushed and pulled by us: Flower's own `send_and_receive` sleeps three seconds between two looks. A reply
counts only from the node that the task was sent to, and only with the key of its task.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from flwr.app import DEFAULT_TTL, Error, Message, MessageType
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException

from ...core.errors import UsageError, WorkerLost
from ...pipeline.host_links import StagePlace
from ...training.setup import TrainingSetup
from ...training.task import BadMessage, NodeResult, NodeTask, failed
from ..processes import FRAME_FACTOR, FRAME_SLACK
from .messages import of_frame, to_frame
from .roster import LOOK_S, PULL_S, Roster

FIRST_WAIT_S = 120.0
"""How long nodes may take to be there when a run starts."""
LATER_WAIT_S = 0.0
TTL_SLACK_S = 60.0
_FLOWER_ERRORS = (httpx.HTTPError, RunNotRunningException)
"""What the grid raises once the SuperLink has ended the run, or forgotten it."""


@dataclass(frozen=True)
class _Open:
    """A task that is out: to which Flower node, until when, and how long its answer may be."""

    task: NodeTask
    number: int
    due_s: float
    most_bytes: int


class FlowerTransport:
    """Nodes of a Flower federation.

    Args:
        setup: whose nodes they play.
        grid: Flower's, of the ServerApp that we are in.
        first_wait_s: how long to wait for all nodes before the first task.

    `metrics`: by node, what its last reply said for Flower's own tools; nothing here rests on it.
    """

    def __init__(self, setup: TrainingSetup, grid: Grid, *, first_wait_s: float = FIRST_WAIT_S) -> None:
        self.setup, self.grid = setup, grid
        self.roster = Roster(grid)
        self._wait_s = first_wait_s
        self.metrics: dict[str, dict[str, Any]] = {}
        self._names = {name for group in setup.problem.node_sets for name in group.nodes} or set(setup.datasets)

    def send(self, tasks: Iterable[NodeTask]) -> Iterator[NodeResult]:
        """Results as they arrive; a failure is a result, and every task gets exactly one."""
        ready: list[NodeTask] = []
        for task in tasks:
            if task.node in self._names:
                ready.append(task)
            else:
                words = f"no node {task.node!r} here; known: {', '.join(sorted(self._names))}"
                yield failed(task, "refused", words)
        if not ready:
            return
        try:
            there = self._present([task.node for task in ready])
        except _FLOWER_ERRORS as error:
            yield from (_forsaken(task, error) for task in ready)
            return
        away = [task for task in ready if task.node not in there]
        for task in away:
            yield failed(task, "lost", "no Flower node that plays it is connected")
        open_: dict[str, _Open] | None = None
        try:
            open_ = self._push([task for task in ready if task.node in there], there)
            yield from self._collect(open_)
        except _FLOWER_ERRORS as error:
            unsent = [task for task in ready if task.node in there]
            yield from (_forsaken(task, error) for task in (unsent if open_ is None else _tasks(open_)))

    def stage_places(self, nodes: Sequence[str]) -> list[StagePlace]:
        """Where the stages of a pipeline set listen, as their nodes say.

        Raises:
            WorkerLost: one is not there, or the others cannot reach it. UsageError: one Flower node plays several.
        """
        try:
            there = self._present(list(nodes))
        except _FLOWER_ERRORS as error:
            raise WorkerLost(f"Flower serves this run no longer: {type(error).__name__}: {error}"[:300]) from None
        return places_among(nodes, there, self.roster.about)

    def close(self) -> None:
        """Nothing is ours to end: the grid belongs to the ServerApp."""

    def _present(self, names: list[str]) -> dict[str, int]:
        wanted = self._names if self._wait_s else names
        there = self.roster.wait_for(sorted(wanted), self._wait_s)
        self._wait_s = LATER_WAIT_S
        return there

    def _push(self, tasks: list[NodeTask], there: dict[str, int]) -> dict[str, _Open]:
        if not tasks:
            return {}
        messages, opened, now = [], [], time.monotonic()
        for task in tasks:
            frame = task.to_bytes()
            ttl = DEFAULT_TTL if task.timeout_s is None else min(DEFAULT_TTL, task.timeout_s + TTL_SLACK_S)
            messages.append(
                Message(
                    of_frame(frame),
                    dst_node_id=there[task.node],
                    message_type=MessageType.TRAIN,
                    ttl=ttl,
                    group_id=str(task.epoch),
                )
            )
            due = math.inf if task.timeout_s is None else now + task.timeout_s
            opened.append(_Open(task, there[task.node], due, FRAME_FACTOR * len(frame) + FRAME_SLACK))
        keys = list(self.grid.push_messages(messages)) or [""] * len(messages)
        return {key or f"refused {i}": one for i, (key, one) in enumerate(zip(keys, opened, strict=True))}

    def _collect(self, open_: dict[str, _Open]) -> Iterator[NodeResult]:
        for key in [key for key in open_ if key.startswith("refused ")]:
            yield failed(open_.pop(key).task, "lost", "the SuperLink took no message for it")
        looked = time.monotonic()
        while open_:
            for reply in self.grid.pull_messages(list(open_)):
                one = open_.pop(reply.metadata.reply_to_message_id, None)
                if one is not None:
                    yield self._read(one, reply)
            now = time.monotonic()
            for key in [key for key, one in open_.items() if now >= one.due_s]:
                task = open_.pop(key).task
                yield failed(task, "late", f"no answer within {task.timeout_s:g} s")
            if open_ and now - looked >= LOOK_S * 4:
                looked = now
                there = self.roster.refresh()
                for key in [key for key, one in open_.items() if there.get(one.task.node) != one.number]:
                    yield failed(open_.pop(key).task, "lost", "its Flower node has gone, or another is in its place")
            if open_:
                time.sleep(PULL_S)

    def _read(self, one: _Open, reply: Message) -> NodeResult:
        task = one.task
        if reply.has_error():
            return failed(task, "lost", _words(reply.error))
        self.metrics[task.node] = dict(reply.content.get("metrics") or {})
        try:
            if reply.metadata.src_node_id != one.number:
                raise BadMessage("it comes from another node")
            result = NodeResult.from_bytes(to_frame(reply.content, one.most_bytes))
            if result.key != task.key:
                raise BadMessage(f"it answers another task: {'/'.join(map(str, result.key))[:80]}")
        except BadMessage as wrong:
            return failed(task, "corrupt", f"its answer is none: {wrong}")
        return result


def places_among(
    nodes: Sequence[str], there: Mapping[str, int], about: Mapping[int, Mapping[str, Any]]
) -> list[StagePlace]:
    """The places of `nodes`, of what Flower nodes say about themselves."""
    away = [node for node in nodes if node not in there]
    if away:
        raise WorkerLost(f"no Flower node that plays {', '.join(away)} is connected")
    if len({there[node] for node in nodes}) < len(nodes):
        raise UsageError(
            f"{', '.join(nodes)}: stages run at the same time and need a SuperNode each; start a `relaytrain node` for "
            "every one of them"
        )
    places = []
    for node in nodes:
        text = about[there[node]].get("stages")
        try:
            places.append(StagePlace.parse(f"{node}={text}", "relaytrain-stages"))
        except UsageError:
            raise WorkerLost(
                f"{node} does not say where its stages listen (relaytrain-stages in node-config)"
            ) from None
    near = [place for place in places if place.is_loopback]
    if len(near) not in (0, len(places)):
        raise WorkerLost(
            f"{', '.join(map(str, near))}: on loopback, where the other stages cannot reach it; start its `relaytrain "
            "node` with --listen"
        )
    return places


def _words(error: Error) -> str:
    return f"Flower says: {(error.reason or 'no reason')[:300]} (code {error.code})"


def _tasks(open_: dict[str, _Open]) -> list[NodeTask]:
    return [one.task for one in open_.values()]


def _forsaken(task: NodeTask, error: BaseException) -> NodeResult:
    return failed(task, "lost", f"Flower serves this run no longer: {type(error).__name__}: {error}"[:300])

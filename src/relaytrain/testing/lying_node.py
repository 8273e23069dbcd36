"""A loss function that makes the node it runs on lie, once, when it is told to: for `TransportSuite`.

It is cross-entropy, named in a scenario as `relaytrain.testing.lying_node:loss`, so any transport whose nodes train
brings it to them. The suite leaves word in a file; the first node that finds it takes it away and does what it says.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from ..training.losses import loss_named
from ..training.task import NodeResult

WORD = "RELAYTRAIN_TESTING_LIE"
"""The variable that names the file; in it stand the number of the suite's own process and the lie."""


def loss(outputs: Any, labels: Any) -> Any:
    """Cross-entropy, and the lie that was asked for."""
    asked = _take_word()
    if asked is not None:
        suite, lie = asked
        if suite == os.getpid():
            raise RuntimeError(f"as if: {lie}")  # a node in the suite's own process: no message of it can be wrong
        LIES[lie]()
    return loss_named("cross-entropy")(outputs, labels)


def _take_word() -> tuple[int, str] | None:
    path = os.environ.get(WORD)
    if path is None:
        return None
    try:
        suite, lie = Path(path).read_text(encoding="utf-8").split()
        os.unlink(path)
    except OSError:
        return None  # nothing was asked, or another node was first
    return int(suite), lie


def _die() -> NoReturn:
    os._exit(1)


def _once(change: Callable[[NodeResult], bytes]) -> Callable[[], None]:
    """The next result of this process goes out as `change` makes it."""

    def lie() -> None:
        honest = NodeResult.to_bytes

        def to_bytes(self: NodeResult) -> bytes:
            NodeResult.to_bytes = honest  # type: ignore[method-assign]
            return change(self)

        NodeResult.to_bytes = to_bytes  # type: ignore[method-assign]

    return lie


def _anothers(result: NodeResult) -> bytes:
    return replace(result, node="edge-1" if result.node == "cloud" else "cloud").to_bytes()


LIES: dict[str, Callable[[], None]] = {
    "dies": _die,
    "sends-noise": _once(lambda result: bytes(range(64))),
    "takes-anothers-name": _once(_anothers),
    "answers-late": _once(lambda result: replace(result, epoch=result.epoch - 1).to_bytes()),
}
"""What a node may be told to do."""

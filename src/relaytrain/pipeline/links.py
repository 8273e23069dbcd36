"""Links between stages: tensors in order from process to process, at the speed of a slower wire if asked. Here by gloo.

    sender    compute thread -> isend at once, or a thread of the link that waits as the wire would, then isend
    receiver  the next tensor is asked for before it is needed, so it travels while the stage computes

A wire is emulated on the sender alone: a message occupies it for bits / bandwidth, and arrives a random delay later,
never before the one sent earlier. Both directions between two processes are links, and wires, of their own.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from ..core.errors import UsageError, WorkerLost

Shape = tuple[tuple[int, ...], torch.dtype]
"""Shape and kind of a tensor to come."""


@dataclass(frozen=True)
class Wire:
    """An emulated wire: bits a second (None: as fast as it goes), and a delay drawn from [low, high] seconds."""

    bits_per_s: float | None = None
    delay_s: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        if self.bits_per_s is not None and not self.bits_per_s > 0:
            raise UsageError(f"wire: got {self.bits_per_s:g} bit/s, expected more than 0")
        if not 0.0 <= self.delay_s[0] <= self.delay_s[1] < 60.0:
            raise UsageError(
                f"wire: got delays from {self.delay_s[0]:g} to {self.delay_s[1]:g} s, expected 0 <= low <= high < 60"
            )

    @property
    def emulated(self) -> bool:
        """Whether anything has to wait."""
        return self.bits_per_s is not None or self.delay_s[1] > 0.0


class Traffic:
    """When messages arrive that are handed to a wire: pure bookkeeping, `now` comes from outside."""

    def __init__(self, wire: Wire, salt: int = 0) -> None:
        self._wire, self._free_s, self._last_s = wire, 0.0, 0.0
        self._chance = random.Random(salt)

    def arrival_s(self, now_s: float, size_bytes: int) -> float:
        """The time at which a message of `size_bytes`, handed over at `now_s`, is there."""
        taken = 8 * size_bytes / self._wire.bits_per_s if self._wire.bits_per_s else 0.0
        self._free_s = max(self._free_s, now_s) + taken
        self._last_s = max(self._last_s, self._free_s + self._chance.uniform(*self._wire.delay_s))
        return self._last_s


class Receiver(Protocol):
    """A link's receiving end."""

    def recv(self) -> Tensor:
        """Wait for the next tensor."""
        ...


class Links(Protocol):
    """All links of a process; `host_links` has those between hosts."""

    def sender(self, peer: int, tag: int, wire: Wire | None = None, *, room: int = 0) -> QueuedSender:
        """A link to the process `peer`, told apart from others by `tag`."""
        ...

    def receiver(self, peer: int, tag: int, shapes: Iterator[Shape]) -> Receiver:
        """A link from there; `shapes` says what comes, in order."""
        ...


class GlooLinks:
    """Links of the process group that this process is in: on loopback."""

    def sender(self, peer: int, tag: int, wire: Wire | None = None, *, room: int = 0) -> GlooSender:
        """A link to the process `peer`."""
        return GlooSender(peer, tag, wire, room=room)

    def receiver(self, peer: int, tag: int, shapes: Iterator[Shape]) -> GlooReceiver:
        """A link from there."""
        return GlooReceiver(peer, tag, shapes)


class QueuedSender:
    """A link's sending end: tensors in order, each when the wire lets it go, by a thread of the link's own.

    What a kind of link does: `_start` a tensor without waiting, `_finish` it, and at the end `_confirm` that all is
    there.
    """

    def __init__(self, peer: int, tag: int, wire: Wire | None = None, *, room: int = 0) -> None:
        self._peer, self._tag = peer, tag
        self._traffic = Traffic(wire, tag) if wire is not None and wire.emulated else None
        self._queue: queue.Queue[tuple[float | None, Any, Tensor] | None] = queue.Queue(room)
        self._failure: BaseException | None = None
        self.sent_bytes = 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def send(self, tensor: Tensor) -> None:
        """Start sending; waits only when `room` messages are under way already."""
        if self._failure is not None:
            raise link_lost(self._peer, self._failure)
        tensor = tensor.detach().contiguous()
        self.sent_bytes += tensor.nbytes
        if self._traffic is None:
            self._queue.put((None, self._start(tensor), tensor))
        else:
            self._queue.put((self._traffic.arrival_s(time.monotonic(), tensor.nbytes), None, tensor))

    def close(self) -> None:
        """Wait until all has arrived."""
        self._queue.put(None)
        self._thread.join()
        self._confirm()
        if self._failure is not None:
            raise link_lost(self._peer, self._failure)

    def _drain(self) -> None:
        """Waits for the wire, then for the peer, and lets go of the tensor."""
        while (item := self._queue.get()) is not None:
            if self._failure is not None:
                continue
            arrival_s, ticket, tensor = item
            try:
                if arrival_s is not None:
                    time.sleep(max(0.0, arrival_s - time.monotonic()))
                    ticket = self._start(tensor)
                self._finish(ticket, tensor)
            except (RuntimeError, OSError) as error:
                self._failure = error
            del item, ticket, tensor

    def _start(self, tensor: Tensor) -> Any:
        return None

    def _finish(self, ticket: Any, tensor: Tensor) -> None:
        raise NotImplementedError

    def _confirm(self) -> None:
        pass


class GlooSender(QueuedSender):
    """Tensors to the process `peer` of the group, told apart from other links by `tag`."""

    def _start(self, tensor: Tensor) -> Any:
        return dist.isend(tensor, self._peer, tag=self._tag)

    def _finish(self, ticket: Any, tensor: Tensor) -> None:
        ticket.wait()


class GlooReceiver:
    """Tensors from the process `peer`; `shapes` says what comes, in order."""

    def __init__(self, peer: int, tag: int, shapes: Iterator[Shape]) -> None:
        self._peer, self._tag, self._shapes = peer, tag, shapes
        self._posted: tuple[Any, Tensor] | None = None
        self._post()

    def recv(self) -> Tensor:
        """Wait for the next tensor, and ask for the one after it."""
        if self._posted is None:
            raise RuntimeError(f"link from process {self._peer}: nothing more was expected")
        work, tensor = self._posted
        try:
            work.wait()
        except RuntimeError as error:
            raise link_lost(self._peer, error) from None
        self._post()
        return tensor

    def _post(self) -> None:
        self._posted = None
        following = next(self._shapes, None)
        if following is not None:
            tensor = torch.empty(following[0], dtype=following[1])
            try:
                self._posted = dist.irecv(tensor, self._peer, tag=self._tag), tensor
            except RuntimeError as error:
                raise link_lost(self._peer, error) from None


def link_lost(peer: int, error: BaseException) -> WorkerLost:
    """What a broken link means to those who hold its other end."""
    return WorkerLost(f"link to process {peer}: {str(error).splitlines()[0][:200]}")

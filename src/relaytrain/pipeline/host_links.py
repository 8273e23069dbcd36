"""Links between stages that were not started by one supervisor: sockets, one a link, and nobody unknown at either end.

gloo in torch's CPU wheel neither authenticates nor encrypts, so beyond loopback tensors go this way. A stage listens at
its own place; whoever sends connects, and both ends prove that they have the key of the same job:

    listener   a challenge -> <- rank, tag, job, a challenge, proof    welcome with a proof ->
    sender     compute thread -> thread of the link: eight bytes of length, then the tensor
    receiver   thread of the link reads one tensor ahead -> compute thread; one byte back after the last tensor

Beyond loopback all of it goes through TLS: both ends need a certificate of the same authority (`relaytrain flower
certs`, nodes/NAME) with the name of the stage that they are taken for. A host answers for itself only.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import queue
import secrets
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.errors import UsageError, WorkerLost
from ..core.loopback import CA, TLS, TLS_KEY, is_loopback
from ..training.safetensors_bytes import flat
from .links import QueuedSender, Shape, Wire, link_lost

_SIZE = struct.Struct("<Q")
MOST_HELLO = 1000
PROOF_BYTES = 32
AGAIN_S = 0.2
HANDSHAKE_S = 20.0
WELCOME, OTHER_JOB, WRONG_KEY, ARRIVED = b"y", b"o", b"n", b"k"
DEAD_S = (10, 5, 3)
"""A host that is silent for ten seconds is asked whether it is there, every five seconds and three times."""


@dataclass(frozen=True)
class StagePlace:
    """Where a stage listens, and the name on its certificate."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str, option: str = "--at") -> StagePlace:
        """`NAME=HOST:PORT`.

        Raises:
            UsageError: it is not of that form.
        """
        name, _, address = text.partition("=")
        host, _, port = address.rpartition(":")
        if not name or not host or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise UsageError(f"{option}: got '{text[:80]}', expected NAME=HOST:PORT, for example edge-1=10.0.0.2:9000")
        return cls(name, host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"{self.name}={f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return is_loopback(self.host)


@dataclass(frozen=True)
class JobKey:
    """Which job links are about, and the secret that its stages share; a name alone says what, not who."""

    job: str
    key: bytes

    def proof(self, *words: Any) -> bytes:
        """That whoever says `words` has the key."""
        return hmac.digest(self.key, json.dumps([self.job, *words]).encode(), "sha256")


class _Refused(WorkerLost):
    """Somebody whom we do not take for a stage, and the byte that says so."""

    def __init__(self, words: str, answer: bytes) -> None:
        super().__init__(words)
        self.answer = answer


class HostLinks:
    """All links of one stage's process.

    Args:
        rank: this process's.
        places: of all processes, by rank.
        certs: folder with `ca.crt`, `tls.crt` and `tls.key`; without one all places must be on loopback.
        job: what both ends must be about, and prove.
        patience_s: how long another process may take to be there, and to send.
        connect_s: how long it may take to be there, if that is another time.
        moving: whether another process may still be about the job before, and is then waited for.
    """

    def __init__(
        self,
        rank: int,
        places: Sequence[StagePlace],
        certs: Path | None,
        job: JobKey,
        patience_s: float,
        *,
        connect_s: float | None = None,
        moving: bool = False,
    ) -> None:
        if not 0 <= rank < len(places):
            raise UsageError(f"--rank: got {rank}, expected 0 to {len(places) - 1}")
        self._inside, self._outside = _contexts(certs, places)
        self.rank, self.places, self.job, self.patience_s = rank, tuple(places), job, patience_s
        self._connect_s, self._moving = patience_s if connect_s is None else connect_s, moving
        self._came: dict[tuple[int, int], queue.Queue[socket.socket]] = {}
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._closed = False
        self.refused: list[str] = []
        try:
            self._listener = socket.create_server((places[rank].host, places[rank].port), backlog=16)
        except OSError as error:
            raise UsageError(f"cannot listen at {places[rank].host}:{places[rank].port}: {error}") from None
        threading.Thread(target=self._accept, daemon=True).start()

    def sender(self, peer: int, tag: int, wire: Wire | None = None, *, room: int = 0) -> HostSender:
        """A link to `peer`; it is waited for until it listens."""
        until = time.monotonic() + self._connect_s
        while True:
            link = self._connected(peer, until)
            if self._admitted(link, peer, tag):
                return HostSender(self._kept(link), peer, tag, wire, room=room)
            link.close()
            if time.monotonic() > until:
                raise link_lost(peer, WorkerLost("it is about another job"))
            time.sleep(AGAIN_S)

    def receiver(self, peer: int, tag: int, shapes: Iterator[Shape]) -> HostReceiver:
        """A link from `peer`, which has not to be there yet."""
        return HostReceiver(self._queue(peer, tag), peer, shapes, self._connect_s)

    def close(self) -> None:
        """Listen no more, and end what is open: whoever waits at it is told that it is lost."""
        with self._lock:
            self._closed, open_ = True, [*self._open, self._listener]
        for one in open_:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # a thread that waits at it notices this, not a close
            one.close()

    def _connected(self, peer: int, until: float) -> socket.socket:
        place = self.places[peer]
        while True:
            try:
                plain = socket.create_connection((place.host, place.port), timeout=HANDSHAKE_S)
                break
            except OSError as error:
                if time.monotonic() > until or self._closed:
                    raise link_lost(peer, error) from None
                time.sleep(AGAIN_S)
        if self._outside is None:
            return plain
        try:
            link = self._outside.wrap_socket(plain)
        except OSError as error:
            plain.close()
            raise link_lost(peer, error) from None
        try:
            _check_name(link, place.name)
        except WorkerLost as error:
            link.close()
            raise link_lost(peer, error) from None
        return link

    def _admitted(self, link: socket.socket, peer: int, tag: int) -> bool:
        """Say who we are and what about; False where the other end may be asked again."""
        try:
            theirs, ours = _exactly(link, PROOF_BYTES).hex(), secrets.token_hex(PROOF_BYTES)
            hello = {"rank": self.rank, "tag": tag, "job": self.job.job, "challenge": ours}
            proof = self.job.proof("sender", self.rank, peer, tag, theirs, ours)
            words = json.dumps({**hello, "proof": proof.hex()}).encode()
            link.sendall(_SIZE.pack(len(words)) + words)
            answer = _exactly(link, 1)
            if answer == OTHER_JOB and self._moving:
                return False
            if answer != WELCOME:
                raise WorkerLost("it is about another job" if answer == OTHER_JOB else "it refuses our key")
            if not hmac.compare_digest(_exactly(link, PROOF_BYTES), self.job.proof("listener", peer, ours)):
                raise WorkerLost("it has not the key of this job")
        except (OSError, WorkerLost) as error:
            link.close()
            raise link_lost(peer, error) from None
        return True

    def _kept(self, link: socket.socket) -> socket.socket:
        """`link`, as one that is ended when all is."""
        link.settimeout(self.patience_s)
        _notice_death(link)
        with self._lock:
            self._open.append(link)
            if self._closed:
                link.close()
        return link

    def _queue(self, peer: int, tag: int) -> queue.Queue[socket.socket]:
        with self._lock:
            return self._came.setdefault((peer, tag), queue.Queue())

    def _accept(self) -> None:
        while True:
            try:
                plain, address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(plain, address[0]), daemon=True).start()

    def _greet(self, plain: socket.socket, host: str) -> None:
        """Take a connection in, if it is whom it says it is."""
        plain.settimeout(HANDSHAKE_S)
        link: socket.socket = plain
        try:
            link = plain if self._inside is None else self._inside.wrap_socket(plain, server_side=True)
            peer, tag = self._greeted(link)
        except (OSError, WorkerLost) as error:
            self.refused.append(f"{host}: {error}")
            with contextlib.suppress(OSError):
                link.sendall(error.answer if isinstance(error, _Refused) else b"")
            link.close()
            return
        self._queue(peer, tag).put(self._kept(link))

    def _greeted(self, link: socket.socket) -> tuple[int, int]:
        ours = secrets.token_bytes(PROOF_BYTES)
        link.sendall(ours)
        (size,) = _SIZE.unpack(_exactly(link, _SIZE.size))
        if size > MOST_HELLO:
            raise WorkerLost("it says too much")
        peer, tag, job, theirs, proof = _hello(_exactly(link, size))
        if not 0 <= peer < len(self.places) or job != self.job.job:
            raise _Refused("it is about another job", OTHER_JOB)
        if isinstance(link, ssl.SSLSocket):
            _check_name(link, self.places[peer].name)
        wanted = self.job.proof("sender", peer, self.rank, tag, ours.hex(), theirs)
        if not hmac.compare_digest(wanted, proof):
            words = f"it says that it is {self.places[peer].name} and has not the key of this job"
            raise _Refused(words, WRONG_KEY)
        link.sendall(WELCOME + self.job.proof("listener", self.rank, theirs))
        return peer, tag


class HostSender(QueuedSender):
    """Tensors to the process `peer`, in order."""

    def __init__(self, link: socket.socket, peer: int, tag: int, wire: Wire | None = None, *, room: int = 0) -> None:
        self._link = link
        super().__init__(peer, tag, wire, room=room)

    def _finish(self, ticket: Any, tensor: Tensor) -> None:
        self._link.sendall(_SIZE.pack(tensor.nbytes))
        self._link.sendall(flat(tensor))

    def _confirm(self) -> None:
        """The other end says when all has arrived."""
        try:
            if self._failure is None and _exactly(self._link, 1) != ARRIVED:
                raise WorkerLost("it ends otherwise than agreed")
        except (OSError, WorkerLost) as error:
            self._failure = error
        finally:
            self._link.close()


class HostReceiver:
    """Tensors from the process `peer`; `shapes` says what comes, in order."""

    def __init__(self, came: queue.Queue[socket.socket], peer: int, shapes: Iterator[Shape], patience_s: float) -> None:
        self._came, self._peer, self._shapes, self._patience_s = came, peer, shapes, patience_s
        self._ahead: queue.Queue[Tensor | BaseException | None] = queue.Queue(1)
        threading.Thread(target=self._read, daemon=True).start()

    def recv(self) -> Tensor:
        """Wait for the next tensor; the one after it is on its way."""
        item = self._ahead.get()
        if item is None:
            raise RuntimeError(f"link from process {self._peer}: nothing more was expected")
        if isinstance(item, BaseException):
            raise link_lost(self._peer, item) from None
        return item

    def _read(self) -> None:
        try:
            try:
                link = self._came.get(timeout=self._patience_s)
            except queue.Empty:
                raise WorkerLost(f"it has not connected within {self._patience_s:g} s") from None
            with link:
                for shape, kind in self._shapes:
                    tensor = torch.empty(shape, dtype=kind)
                    (size,) = _SIZE.unpack(_exactly(link, _SIZE.size))
                    if size != tensor.nbytes:
                        raise WorkerLost(f"{size} bytes, expected {tensor.nbytes}")
                    _fill(link, flat(tensor))
                    self._ahead.put(tensor)
                link.sendall(ARRIVED)
            self._ahead.put(None)
        except (OSError, WorkerLost) as error:
            self._ahead.put(error)


def context(certs: Path, *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 with a certificate at both ends; names are checked by us, as they are nodes' and not hosts'."""
    ssl_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    ssl_context.minimum_version = ssl.TLSVersion.TLSv1_3
    ssl_context.check_hostname = False
    ssl_context.verify_mode = ssl.CERT_REQUIRED
    ssl_context.load_verify_locations(certs / CA)
    ssl_context.load_cert_chain(certs / TLS, certs / TLS_KEY)
    return ssl_context


def _contexts(certs: Path | None, places: Sequence[StagePlace]) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    if certs is None:
        for place in places:
            if not place.is_loopback:
                raise UsageError(
                    f"{place.name} is at {place.host}, which is not this machine; what goes there would not be "
                    "encrypted: make certificates with `relaytrain flower certs DIR --node NAME ...`, then add --certs"
                )
        return None, None
    for name in (CA, TLS, TLS_KEY):
        if not (certs / name).is_file():
            raise UsageError(f"--certs: {certs} has no {name}; `relaytrain flower certs DIR --node NAME` makes it")
    return context(certs, server=True), context(certs, server=False)


def _hello(data: bytes) -> tuple[int, int, str, str, bytes]:
    """Rank, tag, job, challenge and proof, as anybody may have written them."""
    try:
        hello = json.loads(data)
        rank, tag = (hello[key] for key in ("rank", "tag"))
        if type(rank) is not int or type(tag) is not int:
            raise TypeError("rank and tag are whole numbers")
        return rank, tag, str(hello["job"]), str(hello["challenge"]), bytes.fromhex(hello["proof"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        words = f"{type(error).__name__}: {str(error)[:80]}"
        raise WorkerLost(f"its hello is none ({words}), expected rank, tag, job, challenge and proof") from None


def _check_name(link: ssl.SSLSocket, name: str) -> None:
    subject: Any = (link.getpeercert() or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    if names != [name]:
        raise WorkerLost(f"it has the certificate of {', '.join(map(str, names)) or 'nobody'}, expected {name}")


def _notice_death(link: socket.socket) -> None:
    """A host that vanishes says nothing: have the kernel ask for it."""
    idle_s, every_s, times = DEAD_S
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", idle_s), ("TCP_KEEPINTVL", every_s), ("TCP_KEEPCNT", times)):
        if hasattr(socket, name):  # not everywhere
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _fill(link: socket.socket, room: memoryview) -> None:
    while len(room):
        got = link.recv_into(room)
        if got == 0:
            raise WorkerLost("its process ended")
        room = room[got:]


def _exactly(link: socket.socket, size: int) -> bytes:
    room = bytearray(size)
    _fill(link, memoryview(room))
    return bytes(room)

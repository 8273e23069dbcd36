"""Links between stages on several hosts: TLS sockets, one a link, each end known to the other by its certificate.

gloo in torch's CPU wheel neither authenticates nor encrypts, so beyond loopback tensors go this way. A stage listens at
its own address; whoever sends connects, says which link this is and for which job, then sends tensor after tensor:

    sender    compute thread -> thread of the link: eight bytes of length, then the tensor
    receiver  thread of the link reads one tensor ahead -> compute thread; one byte back after the last tensor

Both ends need a certificate of the same authority (`relaytrain flower certs`, nodes/NAME) with the name of the stage
that they are taken for: a host answers for itself only.
"""

from __future__ import annotations

import json
import queue
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
from .links import Shape, Traffic, Wire, lost

_SIZE = struct.Struct("<Q")
MOST_HELLO = 1000
AGAIN_S = 0.2
HANDSHAKE_S = 20.0
CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"


@dataclass(frozen=True)
class StagePlace:
    """Where a stage listens, and the name on its certificate."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> StagePlace:
        """`NAME=HOST:PORT`.

        Raises:
            UsageError: it is not of that form.
        """
        name, _, address = text.partition("=")
        host, _, port = address.rpartition(":")
        if not name or not host or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise UsageError(f"--at: got '{text[:80]}', expected NAME=HOST:PORT, for example edge-1=10.0.0.2:9000")
        return cls(name, host.strip("[]"), int(port))


class TlsLinks:
    """All links of one stage's process.

    Args:
        rank: this process's.
        places: of all processes, by rank.
        certs: folder with `ca.crt`, `tls.crt` and `tls.key`.
        job: what both ends must be about, such as the digest of the job's file.
        patience_s: how long another process may take to be there, and to send.
    """

    def __init__(self, rank: int, places: Sequence[StagePlace], certs: Path, job: str, patience_s: float) -> None:
        if not 0 <= rank < len(places):
            raise UsageError(f"--rank: got {rank}, expected 0 to {len(places) - 1}")
        for name in (CA, CERTIFICATE, KEY):
            if not (certs / name).is_file():
                raise UsageError(f"--certs: {certs} has no {name}; `relaytrain flower certs DIR --node NAME` makes it")
        self.rank, self.places, self.job, self.patience_s = rank, tuple(places), job, patience_s
        self._inside = context(certs, server=True)
        self._outside = context(certs, server=False)
        self._came: dict[tuple[int, int], queue.Queue[ssl.SSLSocket]] = {}
        self._lock = threading.Lock()
        self.refused: list[str] = []
        try:
            self._listener = socket.create_server((places[rank].host, places[rank].port), backlog=16)
        except OSError as error:
            raise UsageError(f"--at: cannot listen at {places[rank].host}:{places[rank].port}: {error}") from None
        threading.Thread(target=self._accept, daemon=True).start()

    def sender(self, peer: int, tag: int, wire: Wire | None = None, *, room: int = 0) -> TlsSender:
        """A link to `peer`; it is waited for until it listens."""
        place, until = self.places[peer], time.monotonic() + self.patience_s
        while True:
            try:
                plain = socket.create_connection((place.host, place.port), timeout=HANDSHAKE_S)
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise lost(peer, error) from None
                time.sleep(AGAIN_S)
        try:
            link = self._outside.wrap_socket(plain)
        except OSError as error:
            plain.close()
            raise lost(peer, error) from None
        try:
            _check_name(link, place.name)
            hello = json.dumps({"rank": self.rank, "tag": tag, "job": self.job}).encode()
            link.sendall(_SIZE.pack(len(hello)) + hello)
        except (OSError, WorkerLost) as error:
            link.close()
            raise lost(peer, error) from None
        link.settimeout(self.patience_s)
        return TlsSender(link, peer, tag, wire, room=room)

    def receiver(self, peer: int, tag: int, shapes: Iterator[Shape]) -> TlsReceiver:
        """A link from `peer`, which has not to be there yet."""
        return TlsReceiver(self._queue(peer, tag), peer, shapes, self.patience_s)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    def _queue(self, peer: int, tag: int) -> queue.Queue[ssl.SSLSocket]:
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
            link = wrapped = self._inside.wrap_socket(plain, server_side=True)
            (size,) = _SIZE.unpack(_exactly(wrapped, _SIZE.size))
            if size > MOST_HELLO:
                raise WorkerLost("it says too much")
            hello = json.loads(_exactly(wrapped, size))
            peer, tag = int(hello["rank"]), int(hello["tag"])
            if not 0 <= peer < len(self.places) or hello["job"] != self.job:
                raise WorkerLost("it is about another job")
            _check_name(wrapped, self.places[peer].name)
        except (OSError, ValueError, KeyError, TypeError, WorkerLost) as error:
            self.refused.append(f"{host}: {error}")
            link.close()
            return
        wrapped.settimeout(self.patience_s)
        self._queue(peer, tag).put(wrapped)


class TlsSender:
    """Tensors to the process `peer`, in order."""

    def __init__(self, link: ssl.SSLSocket, peer: int, tag: int, wire: Wire | None = None, *, room: int = 0) -> None:
        self._link, self._peer = link, peer
        self._traffic = Traffic(wire, tag) if wire is not None and wire.emulated else None
        self._queue: queue.Queue[tuple[float, Tensor] | None] = queue.Queue(room)
        self._failure: BaseException | None = None
        self.sent_bytes = 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def send(self, tensor: Tensor) -> None:
        """Start sending; waits only when `room` messages are under way already."""
        if self._failure is not None:
            raise lost(self._peer, self._failure)
        tensor = tensor.detach().contiguous()
        self.sent_bytes += tensor.nbytes
        at = 0.0 if self._traffic is None else self._traffic.arrival_s(time.monotonic(), tensor.nbytes)
        self._queue.put((at, tensor))

    def close(self) -> None:
        """Wait until all has arrived, which the other end says."""
        self._queue.put(None)
        self._thread.join()
        try:
            if self._failure is None and _exactly(self._link, 1) != b"k":
                raise WorkerLost("it ends otherwise than agreed")
        except (OSError, WorkerLost) as error:
            self._failure = error
        finally:
            self._link.close()
        if self._failure is not None:
            raise lost(self._peer, self._failure)

    def _drain(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._failure is not None:
                continue
            at, tensor = item
            try:
                if at:
                    time.sleep(max(0.0, at - time.monotonic()))
                self._link.sendall(_SIZE.pack(tensor.nbytes))
                self._link.sendall(_bytes_of(tensor))
            except OSError as error:
                self._failure = error
            del item, tensor


class TlsReceiver:
    """Tensors from the process `peer`; `shapes` says what comes, in order."""

    def __init__(self, came: queue.Queue[ssl.SSLSocket], peer: int, shapes: Iterator[Shape], patience_s: float) -> None:
        self._came, self._peer, self._shapes, self._patience_s = came, peer, shapes, patience_s
        self._ahead: queue.Queue[Tensor | BaseException | None] = queue.Queue(1)
        threading.Thread(target=self._read, daemon=True).start()

    def recv(self) -> Tensor:
        """Wait for the next tensor; the one after it is on its way."""
        item = self._ahead.get()
        if item is None:
            raise RuntimeError(f"link from process {self._peer}: nothing more was expected")
        if isinstance(item, BaseException):
            raise lost(self._peer, item) from None
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
                    _fill(link, _bytes_of(tensor))
                    self._ahead.put(tensor)
                link.sendall(b"k")
            self._ahead.put(None)
        except (OSError, WorkerLost) as error:
            self._ahead.put(error)


def context(certs: Path, *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 with a certificate at both ends; names are checked by us, as they are nodes' and not hosts'."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(certs / CA)
    made.load_cert_chain(certs / CERTIFICATE, certs / KEY)
    return made


def _check_name(link: ssl.SSLSocket, name: str) -> None:
    subject: Any = (link.getpeercert() or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    if names != [name]:
        raise WorkerLost(f"it has the certificate of {', '.join(map(str, names)) or 'nobody'}, expected {name}")


def _bytes_of(tensor: Tensor) -> memoryview:
    whole: Any = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b""
    return memoryview(whole)


def _fill(link: ssl.SSLSocket, room: memoryview) -> None:
    while len(room):
        got = link.recv_into(room)
        if got == 0:
            raise WorkerLost("its process ended")
        room = room[got:]


def _exactly(link: ssl.SSLSocket, size: int) -> bytes:
    room = bytearray(size)
    _fill(link, memoryview(room))
    return bytes(room)

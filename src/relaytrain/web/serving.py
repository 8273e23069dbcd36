"""The process behind `relaytrain ui`: a socket, a token, a server that ends when it is told to."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from ..core.errors import UsageError
from ..core.loopback import is_loopback
from ..store import RunStore
from .app import create_app
from .guard import Door, hosts_of

PORT = 7717
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ListenAt:
    """Where to listen. Beyond loopback only with `certificate` and `key`; `names`: what the host may be called."""

    host: str = "127.0.0.1"
    port: int | None = None
    certificate: Path | None = None
    key: Path | None = None
    names: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Nobody but this machine can ask."""
        return is_loopback(self.host)

    def check(self) -> None:
        """Refuse to be heard by others in the clear.

        Raises:
            UsageError: what is missing.
        """
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--cert and --key: got one of them, expected both or none")
        for option, path in (("--cert", self.certificate), ("--key", self.key)):
            if path is not None and not path.is_file():
                raise UsageError(f"{option}: got '{path}', expected a file")
        if self.certificate is not None and self.key is not None:
            try:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                context.load_cert_chain(self.certificate, self.key, password="")  # nobody is asked for one
            except OSError as error:
                why = getattr(error, "reason", None) or error.strerror or str(error)
                raise UsageError(
                    f"--cert and --key: cannot be used ({why}); expected a certificate and its own key as PEM, the key "
                    "without a password"
                ) from None
        if not self.local and self.certificate is None:
            raise UsageError(
                f"--host: got {self.host}, where others can listen to the token: expected --cert and --key with it "
                f"(TLS); or stay on 127.0.0.1 and come by ssh -L {self.port or PORT}:127.0.0.1:{self.port or PORT}"
            )


class _Server(uvicorn.Server):
    """Ends in order on the first signal, and at once on the second."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(store: RunStore, place: ListenAt, *, told: Callable[[str], None]) -> None:
    """Serve `store` until somebody ends it; `told` hears the address, token included, once it can be opened."""
    place.check()
    listening = _socket(place)
    port = listening.getsockname()[1]
    secure = place.certificate is not None
    token = secrets.token_urlsafe(32)
    names = {*LOOPBACK, place.host, *place.names} - {"0.0.0.0", "::"}
    door = Door(token, hosts_of(names, port), f"relaytrain-{port}", secure)
    shown = place.names[0] if place.names else "127.0.0.1" if place.host in ("0.0.0.0", "::") else place.host
    shown = f"[{shown}]" if ":" in shown else shown
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # pages that are left are no errors
    config = uvicorn.Config(
        create_app(store, door),
        log_level="error",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
        server_header=False,
        limit_concurrency=200,
        ssl_certfile=None if place.certificate is None else str(place.certificate),
        ssl_keyfile=None if place.key is None else str(place.key),
    )
    server = _Server(config)

    async def both() -> None:
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        while not (server.started or serving.done()):
            await asyncio.sleep(0.01)
        if server.started:
            told(f"{door.scheme}://{shown}:{port}/?token={token}")
        await serving

    asyncio.run(both())


def _socket(place: ListenAt) -> socket.socket:
    """Bound to the port that was asked for; without one to the usual one, or to any that is free."""
    for port in (place.port,) if place.port is not None else (PORT, 0):
        try:
            return socket.create_server(
                (place.host, port), family=socket.AF_INET6 if ":" in place.host else socket.AF_INET, backlog=128
            )
        except OSError as error:
            words = error.strerror or str(error)
        except OverflowError:
            raise UsageError(f"--port: got {port}, expected 0 to 65535") from None
    raise UsageError(f"cannot listen on {place.host}, port {place.port or PORT}: {words}; choose another with --port")

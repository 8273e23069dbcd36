"""What Flower's programs find around them: nothing is sent home, nothing is installed, modules are ours."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from ...core.errors import UsageError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def need_flower() -> None:
    """Refuse in a sentence when Flower is not installed."""
    if find_spec("flwr") is None:
        raise UsageError("transport flower needs flwr, which is not installed: pip install 'relaytrain[flower]'")


def environment(home: Path) -> dict[str, str]:
    """Of a Flower program whose own files go to `home`."""
    bin_ = str(Path(sys.executable).parent)
    path = os.pathsep.join([bin_, os.environ.get("PATH", os.defpath)])
    modules = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path, "PYTHONPATH": modules}


def program(name: str) -> str:
    """The path of one of Flower's programs, beside our interpreter."""
    return str(Path(sys.executable).parent / name)


def forking(app: str, runtime: str, certificate: Path | None = None) -> list[str]:
    """What stands before a SuperNode's or SuperLink's command, so that its apps are forked (`apps`)."""
    command = [sys.executable, "-m", "relaytrain.executors.flower.apps", "--runtime", runtime]
    return [*command, *([] if certificate is None else ["--root-certificates", str(certificate)]), app]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()

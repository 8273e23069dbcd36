"""Flower's programs as forks of a process that has imported Flower already.

`python -m relaytrain.executors.flower.apps --runtime HOST:PORT flwr-clientapp flower-supernode ...` plays a SuperNode
(with `flwr-serverapp flower-superlink ...` a SuperLink) and fetches its tasks, in the place of Flower's SuperExec. That
one starts a new interpreter for every message: two CPU seconds of imports, and a task whose app has not spoken 30 s
after it was fetched is given out once more. A slow or busy machine never gets there, and all the late ones pile up. A
fork is there at once; until it speaks for itself, its task is held by us.

Only who has the secret that is made here gets tasks: Flower's own SuperExec asks for none.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.metadata
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ...store.files import make_dir, write_atomic

if TYPE_CHECKING:
    from flwr.supercore.runtime import RuntimeHttpClient

LOOK_S, MOST_LOOK_S = 0.2, 3.0
SHARE = 0.05
"""Looking for tasks takes no more of the time than this, on a machine however slow."""
HOLD_S = 0.1
"""Flower makes a task just before it keeps the task's message: no app may ask for it in between."""
SET_NAME = 15
OURS = {"flwr-clientapp": "clientapp", "flwr-serverapp": "serverapp"}
"""Flower's programs, and the module of ours that each will load."""


@dataclass(frozen=True)
class TaskPlace:
    """Where tasks are fetched: the address, the authority's certificate there, and the secret."""

    address: str
    certificate: Path | None
    secret: bytes

    def arguments(self) -> list[str]:
        """Of an app."""
        how = ["--insecure"] if self.certificate is None else ["--root-certificates", str(self.certificate)]
        return ["--runtime-api-address", self.address, *how]


def main() -> int:
    """Serve until the command ends; its exit status, 128 and more for a signal."""
    asked = _arguments()
    home = make_dir(Path(os.environ["FLWR_HOME"]), private=True)
    runtime = TaskPlace(asked.runtime, asked.root_certificates, secrets.token_hex(32).encode())
    write_atomic(home / "secret", runtime.secret, private=True, durable=False)
    program = Path(asked.command[0]).name
    isolated = ["--isolation", "process", "--superexec-auth-secret-file", str(home / "secret")]
    app, server = _program(asked.app), _program(program)
    importlib.import_module(f".{OURS[asked.app]}", __package__)
    served = _fork(program, server, [*asked.command[1:], *isolated])
    signal.signal(signal.SIGTERM, lambda number, frame: _ask_to_end(served))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return _serve(asked.app, app, runtime, served)


def _program(name: str) -> Callable[[], None]:
    """One of Flower's console scripts."""
    program: Callable[[], None] = next(iter(importlib.metadata.entry_points(group="console_scripts", name=name))).load()
    return program


def _ask_to_end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Starts a SuperNode or SuperLink, and forks its apps.")
    parser.add_argument("app", choices=sorted(OURS))
    parser.add_argument("--runtime", required=True, metavar="HOST:PORT", help="where its tasks are fetched")
    parser.add_argument("--root-certificates", type=Path, help="of the authority, where it speaks TLS")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _serve(name: str, app: Callable[[], None], runtime: TaskPlace, served: int) -> int:
    """Fetch tasks and fork apps until the process `served` ends; its status."""
    import httpx
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType

    kind = {"flwr-clientapp": TaskType.CLIENT_APP, "flwr-serverapp": TaskType.SERVER_APP}[name]
    client = _client(runtime)
    request = AcquireTaskRequest(supported_task_types=[kind])
    start = _starting(name, app, runtime, served)
    forks: list[Callable[[], bool]] = []
    last_words = ""
    while True:
        began = time.monotonic()
        ended, status = os.waitpid(served, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        try:
            answer = client.AcquireTask(request)
            if answer.token:
                _hold(runtime, answer.token)
                time.sleep(max(HOLD_S, time.monotonic() - began))
                forks.append(start(answer.token))
            last_words = ""
        except httpx.HTTPError:
            pass  # it is not there yet, or too busy to answer
        except Exception as error:  # an answer that is none, no process to be had: what passes must not end us
            words = f"no task from {runtime.address}: {type(error).__name__}: {str(error).strip()[:300]}; trying on"
            if words != last_words:
                print(words, file=sys.stderr, flush=True)
            last_words = words
        forks = [is_over for is_over in forks if not is_over()]
        time.sleep(min(MOST_LOOK_S, max(LOOK_S, (time.monotonic() - began) / SHARE)))


def _starting(
    name: str, app: Callable[[], None], runtime: TaskPlace, served: int
) -> Callable[[str], Callable[[], bool]]:
    """What starts an app with its token, and tells whether it is over; a ClientApp's answer is seen to."""
    parent = str(os.getpid())

    def fork(token: str, program: Callable[[], None]) -> int:
        return _fork(name, program, [*runtime.arguments(), "--token", token, "--parent-pid", parent])

    if name != "flwr-clientapp":
        return lambda token: partial(is_reaped, name, fork(token, app))
    from .unanswered import Watched

    def watched(token: str) -> Callable[[], bool]:
        client = partial(_client, runtime, token)
        return Watched(app, fork=partial(fork, token), client=client, give_up=partial(_end, served)).is_over

    return watched


def is_reaped(name: str, pid: int) -> bool:
    """Reap an app that has ended, and say whether it has; how one failed is told, as it may not have told itself."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended and status:
        code = os.waitstatus_to_exitcode(status)
        print(f"{name} ended ({f'signal {-code}' if code < 0 else f'status {code}'})", file=sys.stderr, flush=True)
    return ended != 0


def _end(served: int, words: str) -> None:
    """By force: it is started anew."""
    print(f"{words}; ending process {served}", file=sys.stderr, flush=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(served, signal.SIGKILL)


def _client(runtime: TaskPlace, token: str | None = None) -> RuntimeHttpClient:
    """To fetch tasks; with `token`, to speak for one of them."""
    from flwr.supercore.interceptors import (
        RuntimeTokenHttpInterceptor,
        RuntimeVersionHttpInterceptor,
        SuperExecAuthHttpInterceptor,
    )
    from flwr.supercore.runtime import RuntimeHttpClient

    secret = SuperExecAuthHttpInterceptor(
        master_secret=runtime.secret, protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"})
    )
    return RuntimeHttpClient.from_server_address(
        server_address=runtime.address,
        insecure=runtime.certificate is None,
        root_certificates=None if runtime.certificate is None else runtime.certificate.read_bytes(),
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="SuperExec"),
            secret if token is None else RuntimeTokenHttpInterceptor(token),
        ],
    )


def _hold(runtime: TaskPlace, token: str) -> None:
    """A sign of life in the name of an app that is about to start."""
    from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest

    with contextlib.suppress(Exception), _client(runtime, token) as client:  # without it the app has less time, no more
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())


def _fork(name: str, program: Callable[[], None], arguments: list[str]) -> int:
    """The program in a process of its own, as if its command had been started."""
    pid = os.fork()
    if pid == 0:
        _become(name, program, arguments)
    return pid


def _become(name: str, program: Callable[[], None], arguments: list[str]) -> NoReturn:
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(SET_NAME, name.encode(), 0, 0, 0)
        sys.argv = [name, *arguments]
        program()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main())

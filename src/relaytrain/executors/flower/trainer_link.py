"""A node's end of the link to its resident trainer: found, or started, and asked. Imports no torch.

What a SuperNode must say in its node-config:

| key | meaning |
|---|---|
| relaytrain-nodes | the nodes of the scenario that it plays, with commas between them |
| relaytrain-scenario | the scenario's file on this machine |
| relaytrain-folder | where the scenario's own code and files are, if not beside it |
| relaytrain-trainer | the trainer's socket, if not one in the folder for temporary files |
| relaytrain-site, relaytrain-meter | where the machine stands, for people; a meter of your own |
| relaytrain-stages, relaytrain-certs | where its stages of pipeline sets listen; the folder of its certificate |
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from ...store.files import write_atomic
from ...training.task import BadMessage, NodeTask, failed, unpack
from ..frames import check_frame, read_frame, write_frame

PROGRAM = "relaytrain.executors.flower.trainer"
STALL_S = 60.0
"""A trainer that gives no sign of life for so long is taken for dead, and ended."""
AGAIN_S = 0.02
HELLO_S, HELLO_BYTES = 2.0, 2**20
NODES, SCENARIO, FOLDER, TRAINER, SITE, METER, STAGES, CERTS = (
    f"relaytrain-{key}" for key in ("nodes", "scenario", "folder", "trainer", "site", "meter", "stages", "certs")
)


@dataclass(frozen=True)
class TrainerPlace:
    """Where a node's trainer is, and how one is started there."""

    nodes: tuple[str, ...]
    scenario: str
    socket: str
    folder: str | None = None
    site: str | None = None
    meter: str | None = None
    stages: str | None = None
    certs: str | None = None

    @classmethod
    def of_config(cls, config: Mapping[str, Any], node_id: int) -> TrainerPlace:
        """As the node-config says.

        Raises:
            ValueError: it says too little.
        """
        for key in (NODES, SCENARIO):
            if not isinstance(config.get(key), str) or not config[key]:
                raise ValueError(
                    f"this SuperNode's node-config has no {key}; start it by `relaytrain node`, or with "
                    f'--node-config \'{NODES}="..." {SCENARIO}="..."\''
                )
        values = [config.get(key) for key in (FOLDER, SITE, METER, STAGES, CERTS)]
        rest = [value if isinstance(value, str) and value else None for value in values]
        place = config.get(TRAINER)
        if not isinstance(place, str):
            home = Path(tempfile.gettempdir()) / f"relaytrain-{os.getuid()}-{node_id}"
            home.mkdir(mode=0o700, exist_ok=True)
            if home.stat().st_uid != os.getuid():
                raise ValueError(f"{home} belongs to somebody else; name another socket as {TRAINER} in node-config")
            place = str(home / "trainer")
        nodes = tuple(name.strip() for name in config[NODES].split(",") if name.strip())
        return cls(nodes, config[SCENARIO], place, *rest)

    def node_config(self) -> str:
        """The inverse of `of_config`, as a SuperNode's argument."""
        values = {
            NODES: ",".join(self.nodes), SCENARIO: self.scenario, FOLDER: self.folder, TRAINER: self.socket,
            SITE: self.site, METER: self.meter, STAGES: self.stages, CERTS: self.certs,
        }  # fmt: skip
        return " ".join(f'{key}="{value}"' for key, value in values.items() if value is not None)

    def start(self, parent: int, **options: Any) -> subprocess.Popen[bytes]:
        """A trainer that lives as long as the process `parent`; whoever asks it now waits for its answer."""
        command = [sys.executable, "-m", PROGRAM, "--parent", str(parent)]
        command += ["--scenario", self.scenario, "--nodes", ",".join(self.nodes)]
        own = {"--folder": self.folder, "--site": self.site, "--meter": self.meter, "--certs": self.certs}
        for option, value in own.items():
            command += [option, value] if value else []
        with _listening(Path(self.socket)) as listener:
            at = listener.fileno()
            command += ["--listener", str(at)]
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=(at,), **options
            )
        write_atomic(self._pid_file, str(started.pid), private=True, durable=False)
        return started

    def end_trainer(self) -> None:
        """By force: one that is stuck would be found by the next task too."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self._pid_file.read_text(encoding="ascii"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes()  # empty while it begins, and once it has ended
            if not words or PROGRAM.encode() in words:  # nobody else has its number by now
                os.kill(pid, signal.SIGKILL)

    @property
    def _pid_file(self) -> Path:
        return Path(f"{self.socket}.pid")


def _listening(path: Path) -> socket.socket:
    """A socket of its name that only we may connect to, in the place of a dead one; a trainer inherits it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(8)
    return listener


def describe(place: TrainerPlace, *, start: bool = True) -> dict[str, Any]:
    """What the trainer says of itself; little where it does not say anything in time."""
    own_words = {"nodes": list(place.nodes), "stages": place.stages}
    about: dict[str, Any] = {**own_words, "site": place.site or "", "state": "no trainer"}
    with contextlib.suppress(TrainerLost, BadMessage, OSError):
        if not start and not Path(place.socket).exists():
            return about
        with _connected(place) as link, cast(BinaryIO, link.makefile("rwb")) as stream:
            link.settimeout(HELLO_S)
            write_frame(stream, "hello")
            answer = read_frame(stream, most=HELLO_BYTES)
            if answer is not None and answer[0].pop("kind", None) == "about":
                about = {**about, **answer[0], **own_words}
    return about


def profiled(place: TrainerPlace, batches: int) -> dict[str, Any]:
    """What the trainer measures of all versions; `error` in words where it does not."""
    try:
        with _connected(place) as link, cast(BinaryIO, link.makefile("rwb")) as stream:
            link.settimeout(STALL_S)
            write_frame(stream, "profile", batches=batches)
            while (answer := read_frame(stream, most=HELLO_BYTES)) is not None:
                kind = answer[0].pop("kind", None)
                if kind != "beat":
                    return answer[0]
    except (TrainerLost, BadMessage, OSError) as wrong:
        return {"error": f"its trainer does not answer: {wrong}"}
    return {"error": "its trainer's process ended"}


class TrainerLost(Exception):
    """The trainer died or is stuck; the argument says which."""


def ask(place: TrainerPlace, task: NodeTask, frame: bytes) -> bytes:
    """The trainer's result for `task`, whose bytes are `frame`; whatever goes wrong is a result too."""
    began = time.monotonic()
    until = None if task.timeout_s is None else began + task.timeout_s
    try:
        with _connected(place) as link, cast(BinaryIO, link.makefile("rwb")) as stream:
            return _asked(place, link, stream, task, frame, until)
    except TrainerLost as lost:
        return failed(task, "lost", str(lost), wall_s=time.monotonic() - began).to_bytes()
    except BadMessage as wrong:
        words = f"its trainer sent what no trainer sends: {wrong}"
        return failed(task, "corrupt", words, wall_s=time.monotonic() - began).to_bytes()
    except TimeoutError:
        words = f"no answer within {task.timeout_s:g} s"
        return failed(task, "late", words, wall_s=time.monotonic() - began).to_bytes()


def _asked(
    place: TrainerPlace, link: socket.socket, stream: BinaryIO, task: NodeTask, frame: bytes, until: float | None
) -> bytes:
    try:
        link.settimeout(STALL_S)
        write_frame(stream, "task", frame)
        while True:
            left = STALL_S if until is None else until - time.monotonic()
            if left <= 0.0:
                raise TimeoutError
            link.settimeout(min(STALL_S, left + AGAIN_S))
            try:
                answer = read_frame(stream)
            except TimeoutError:
                if until is not None and time.monotonic() >= until:
                    raise
                place.end_trainer()
                raise TrainerLost(f"its trainer gave no sign of life for {STALL_S:g} s") from None
            if answer is None:
                raise TrainerLost("its trainer's process ended")
            header, body = answer
            kind = check_frame(header, body)
            if kind == "broken":
                return failed(task, "user" if header["failure"] == "user" else "refused", header["error"]).to_bytes()
            if kind == "result":
                unpack(body)
                return body
    except BadMessage:
        place.end_trainer()
        raise
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
        raise TrainerLost(f"its trainer's process ended ({error.strerror or error})") from None


def _connected(place: TrainerPlace) -> socket.socket:
    """A connection to the trainer; one is started where nobody listens."""
    for started in (False, True):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.connect(place.socket)
            return link
        except OSError as error:
            link.close()
            if started:
                raise TrainerLost(f"no trainer listens at {place.socket}: {error.strerror}") from None
            place.start(os.getppid())
    raise AssertionError("unreachable")

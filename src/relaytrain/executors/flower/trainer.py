"""A resident trainer: opens the data of its nodes once, then trains what arrives at its Unix socket.

`python -m relaytrain.executors.flower.trainer --listener FD --scenario F --nodes a,b --parent PID` starts it. Its
socket listened before it was there: whoever asks early waits for its answer, and starts no second one. One task at a
time: the next one ends the one before it, whose asker has gone. It lives as long as the process PID.

Frames as between a worker and its parent (`executors.frames`), one connection a task.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ...core.user_code import UserCodeError
from ...costs.meters import Meter, weakest
from ...training.task import BadMessage, NodeTask
from ..frames import read_frame, write_frame

if TYPE_CHECKING:
    from ...training.setup import TrainingSetup
    from ..stage_node import StageNode

BEAT_S = 0.2
about: dict[str, Any] = {"state": "opening", "words": "importing torch, opening data"}
"""What it says of itself to whoever asks."""


@dataclass(frozen=True)
class _Bench:
    """What a node trains with, and what measures its joules."""

    site: Any
    meter: Meter


@dataclass(frozen=True)
class _Opened:
    """What was opened: the scenario's setup, its stages of pipeline sets, a bench for each node."""

    setup: TrainingSetup
    stages: StageNode
    benches: dict[str, _Bench]


@dataclass(eq=False)
class _Asked:
    """A connection with a task; `gone` once nobody waits at its other end."""

    stream: BinaryIO
    header: dict[str, Any]
    body: bytes
    gone: threading.Event = field(default_factory=threading.Event)
    writing: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, kind: str, body: bytes = b"", **header: Any) -> None:
        """A frame, if anybody still reads."""
        try:
            with self.writing:
                write_frame(self.stream, kind, body, **header)
        except (OSError, ValueError):
            self.gone.set()


def main() -> None:
    """Serve until the parent is gone."""
    asked = _arguments()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what user code prints is no answer
    threading.Thread(target=_live_with, args=(asked.parent,), daemon=True).start()
    listener = socket.socket(fileno=asked.listener)
    inbox: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
    threading.Thread(target=_accept, args=(listener, inbox), daemon=True).start()
    broken = None
    about.update(nodes=asked.nodes.split(","), site=asked.site, since=time.time())
    try:
        opened = _open(asked)
        _say(f"ready: {about['words']}")
    except UserCodeError as error:
        broken = "user", str(error)
    except Exception as error:
        broken = "refused", f"{type(error).__name__}: {str(error).strip()[:300]}"
    if broken is not None:
        about.update(state="broken", words=broken[1])
        _say(f"cannot train: {broken[1]}")
    while True:
        task = inbox.get()
        if broken is not None:
            task.answer("broken", failure=broken[0], error=broken[1])
            os._exit(3)  # the next task finds a fresh one: what was missing may be there by then
        about["state"] = "training"
        if task.header.get("kind") == "profile":
            _profile(task, opened)
        else:
            _serve(task, opened)
        about["state"] = "ready"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A resident trainer of relaytrain; SuperNodes start it.")
    parser.add_argument("--listener", type=int, required=True, help="descriptor of the socket that it answers at")
    parser.add_argument("--scenario", required=True, help="TOML, or JSON as resolved")
    parser.add_argument("--folder", help="where the scenario's own code and files are looked for")
    parser.add_argument("--nodes", required=True, help="names, with commas between them")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--site", default="", help="where this machine stands, for people")
    parser.add_argument("--meter", help="dotted.module:function of your own that returns a meter")
    parser.add_argument("--certs", help="folder of the certificate that its stages of pipeline sets are known by")
    return parser.parse_args()


def _live_with(pid: int) -> None:
    try:
        ended = os.pidfd_open(pid)
        select.select([ended], [], [])
    except (AttributeError, OSError):
        with contextlib.suppress(OSError):
            while True:
                os.kill(pid, 0)
                time.sleep(BEAT_S)
    os._exit(0)


def _accept(listener: socket.socket, inbox: queue.SimpleQueue[_Asked]) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_read, args=(connection, inbox), daemon=True).start()


_current: list[_Asked] = []
_handing_in = threading.Lock()
"""Of two who ask at the same moment, one is the later one."""


def _read(connection: socket.socket, inbox: queue.SimpleQueue[_Asked]) -> None:
    """The task of a connection; afterwards its end, which says that nobody waits any more."""
    with contextlib.suppress(OSError), connection, cast(BinaryIO, connection.makefile("rwb")) as stream:
        try:
            frame = read_frame(stream)
        except (BadMessage, OSError):
            return
        if frame is None:
            return
        if frame[0].get("kind") == "hello":
            with contextlib.suppress(OSError):
                write_frame(stream, "about", **about)
            return
        asked = _Asked(stream, *frame)
        threading.Thread(target=_beat, args=(asked,), daemon=True).start()
        with _handing_in:
            for before in _current:
                before.gone.set()
            _current[:] = [asked]
            inbox.put(asked)
        with contextlib.suppress(BadMessage, OSError):
            read_frame(stream)
        asked.gone.set()


def _beat(asked: _Asked) -> None:
    """Signs of life, also while torch is being imported."""
    began = time.process_time()
    while not asked.gone.wait(BEAT_S):
        asked.answer("beat", cpu_s=time.process_time() - began)


def _open(asked: argparse.Namespace) -> _Opened:
    from ...costs.devices import DeviceProfile
    from ...costs.meters import find_meter
    from ...scenario import load_scenario
    from ...scenario.resolve import resolve
    from ...training.setup import TrainingSetup
    from ..stage_node import StageNode

    path = Path(asked.scenario)
    loaded = load_scenario(path if path.suffix == ".toml" else json.loads(path.read_bytes()))
    folder = Path(asked.folder) if asked.folder else (path.parent if path.suffix == ".toml" else None)
    if folder is not None:
        loaded = replace(loaded, source=folder.absolute() / f"{loaded.name}.json")
    import torch

    setup = TrainingSetup.from_scenario(loaded)
    torch.set_num_threads(setup.settings.threads)
    # The first optimizer makes torch import 800 modules: while it starts, not in the time of its first task.
    torch.optim.SGD([torch.zeros(1)])
    devices = {node.name: node.device for node in loaded.problem.nodes}
    own = None if asked.meter is None else resolve(asked.meter, setup.folder)
    benches = {}
    for node in asked.nodes.split(","):
        device = devices.get(node) or ""
        table = loaded.resolved.get("devices", {}).get(device)
        profile = None if table is None else DeviceProfile(device, **table)
        place = setup.settings.device_of(node)
        meter = find_meter(profile, gpu=place.startswith("cuda")) if own is None else cast(Meter, own())
        benches[node] = _Bench(setup.site(node), meter)
    read = [bench.meter.end(bench.meter.begin(), cpu_s=0.0) for bench in benches.values()]
    methods = ", ".join(dict.fromkeys(reading.method for reading in read))
    provenance = weakest(reading.provenance for reading in read)
    samples = {node: setup.samples_at(node) for node in benches}
    about.update(
        state="ready",
        samples=samples,
        meter=methods,
        provenance=provenance,
        torch=str(torch.__version__),
        words=f"{', '.join(f'{node} with {_counted(count)}' for node, count in samples.items())}; joules: "
        f"{methods} ({provenance})",
    )
    return _Opened(setup, StageNode(setup, Path(asked.certs) if asked.certs else None), benches)


def _counted(samples: int | None) -> str:
    return "data that a pass will count" if samples is None else f"{samples} samples"


def _profile(asked: _Asked, opened: _Opened) -> None:
    """Time all versions; seconds by the clock on the wall and joules by each node's meter, as shares of CPU seconds."""
    from ...costs.profiled import profile

    try:
        marks = {node: bench.meter.begin() for node, bench in opened.benches.items()}
        wall, cpu = time.monotonic(), time.process_time()
        measured = profile(opened.setup, batches=max(1, min(200, int(asked.header.get("batches", 12)))))
        cpu_s, wall_s = max(time.process_time() - cpu, 1e-9), time.monotonic() - wall
        readings = {node: bench.meter.end(marks[node], cpu_s=cpu_s) for node, bench in opened.benches.items()}
    except Exception as error:
        asked.answer("broken", error=f"{type(error).__name__}: {str(error).strip()[:300]}")
        return
    asked.answer(
        "measured",
        **measured.to_dict(),
        wall_per_cpu=max(wall_s / cpu_s, 1.0),
        j_per_cpu_s={node: max(reading.energy_j, 0.0) / cpu_s for node, reading in readings.items()},
        provenance=weakest(reading.provenance for reading in readings.values()),
        samples={node: opened.setup.counted_at(node) for node in opened.benches},
    )
    _say(f"timed {len(measured.versions)} versions in {wall_s:.3g} s")


def _serve(asked: _Asked, opened: _Opened) -> None:
    from ...training.answer import TooLate
    from ...training.local import train_node

    try:
        task = NodeTask.from_bytes(asked.body)
    except Exception as error:  # made by another version of ours, or by nobody
        asked.answer("broken", failure="refused", error=f"no task: {type(error).__name__}: {str(error)[:200]}")
        return
    bench = opened.benches.get(task.node)
    if bench is None:
        asked.answer(
            "broken", failure="refused", error=f"no node {task.node!r} here; known: {', '.join(opened.benches)}"
        )
        return
    began, mark = time.monotonic(), bench.meter.begin()

    def given_up() -> str | None:
        if task.timeout_s is not None and time.monotonic() - began > task.timeout_s:
            return f"no answer within {task.timeout_s:g} s"
        return "nobody waits for it any more" if asked.gone.is_set() else None

    def progress() -> None:
        words = given_up()
        if words is not None:
            raise TooLate(words)

    if task.stage is None:
        result = train_node(task, bench.site, progress)
    else:
        result = opened.stages.play(task, given_up)
    reading = bench.meter.end(mark, cpu_s=result.cpu_s)
    if math.isfinite(reading.energy_j) and reading.energy_j >= 0.0:
        result = replace(result, energy_j=reading.energy_j, provenance=reading.provenance)
    asked.answer("result", result.to_bytes())
    if result.error is None:
        passes = task.settings.local_epochs if task.stage is None else 1  # a stage has counted its passes
        about["samples_per_s"] = result.samples * passes / max(result.wall_s, 1e-9)
    loss = "" if result.train_loss is None else f"loss {result.train_loss:.4g}, "
    stage = "" if task.stage is None else f"stage {task.stage['rank']}, "
    came_to = result.error or f"{stage}{loss}{result.samples} samples"
    joules = "" if result.energy_j is None else f", {result.energy_j:.3g} J {result.provenance}"
    _say(
        f"{task.run}, epoch {task.epoch}, {task.node}: {came_to}; {result.wall_s:.3g} s "
        f"({result.cpu_s:.3g} of CPU){joules}"
    )


def _say(words: str) -> None:
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

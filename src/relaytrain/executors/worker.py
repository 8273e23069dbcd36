"""A resident worker process: holds the data of its nodes and trains what it is sent. Forked, or by `python -m`.

It lives as long as its parent: a thread reads the pipe from the parent all the time, and when that ends, whatever the
process is doing, it ends too. What user code prints goes to stderr, since stdout carries frames.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..core.user_code import UserCodeError
from ..training.task import NodeTask
from .frames import Frame, read_frame, write_frame

if TYPE_CHECKING:
    from ..data.held import Held

BEAT_S = 0.2


def main() -> None:
    """Serve the parent at stdin and stdout until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, out)


def prepare() -> None:
    """Import what every worker needs: while the launcher starts, not in the time of a first task."""
    import torch

    from ..models import rebuild
    from ..training import local, own_data, own_training, references, settings, step

    torch.optim.SGD([torch.zeros(1)])  # the first optimizer makes torch import 800 modules
    _ = rebuild, local, own_data, own_training, references, settings, step


def forked(words: Sequence[Any], descriptors: Sequence[int]) -> int:
    """The life of a worker that the launcher forked: it reads one pipe and writes to the other."""
    import numpy as np

    np.random.seed()  # a user's own draws: not the same in every worker
    tasks, results = descriptors
    serve(os.fdopen(tasks, "rb"), os.fdopen(results, "wb"))
    return 0


def serve(tasks: BinaryIO, out: BinaryIO) -> None:
    """Serve the parent at two pipes until it is gone."""
    inbox: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks, inbox), daemon=True).start()
    header, body = inbox.get()
    try:
        sites = _open(header, body)
    except UserCodeError as error:
        write_frame(out, "broken", failure="user", error=str(error))
        return
    except Exception as error:
        write_frame(out, "broken", failure="refused", error=f"{type(error).__name__}: {str(error).strip()[:300]}")
        return
    write_frame(out, "ready")
    while True:
        header, body = inbox.get()
        _serve(out, sites, NodeTask.from_bytes(body))


def _read(stream: BinaryIO, inbox: queue.SimpleQueue[Frame]) -> None:
    while True:
        frame = read_frame(stream)
        if frame is None:
            os._exit(0)
        inbox.put(frame)


def _open(header: dict[str, Any], body: bytes) -> dict[str, Any]:
    for entry in header["path"]:
        if entry not in sys.path:
            sys.path.append(entry)
    import torch
    from safetensors.torch import load

    from ..data.held import InMemory
    from ..data.own import Origin
    from ..models.rebuild import from_scenario
    from ..training.local import Site
    from ..training.own_data import fetched
    from ..training.own_training import own_training
    from ..training.references import either
    from ..training.settings import TrainingSettings
    from ..training.step import step_of

    torch.set_num_threads(header["threads"])
    prepare()
    folder = Path(header["folder"]) if header["folder"] else None
    known = {reference: from_scenario(reference, folder) for reference in header["references"]}
    settings = TrainingSettings.from_dict(header["settings"])
    step, own = step_of(settings.loss, settings.step, settings.evaluate, folder), own_training(settings, folder)
    tensors = load(body)
    sites = {}
    for node, device in header["nodes"].items():
        parts = {name: (int(a), int(b)) for name, (a, b) in header["parts"][node].items()}
        if node in header["own"]:
            data, chosen = fetched(Origin(**header["own"][node]), folder), tensors.get(f"indexes/{node}")
            held: Held = data if chosen is None else data.part(chosen.numpy())
        else:
            held = InMemory(tensors[f"images/{node}"].to(device), tensors[f"labels/{node}"].to(device))
        sites[node] = Site(held, device, either(known) if known else None, step, parts, own)
    return sites


def _serve(out: BinaryIO, sites: dict[str, Any], task: NodeTask) -> None:
    from ..training.local import train_node

    began, last = time.process_time(), time.monotonic()
    write_frame(out, "beat", cpu_s=0.0)

    def progress() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= BEAT_S:
            last = now
            write_frame(out, "beat", cpu_s=time.process_time() - began)

    write_frame(out, "result", train_node(task, sites[task.node], progress).to_bytes())


if __name__ == "__main__":
    main()

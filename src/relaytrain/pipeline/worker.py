"""One stage as one process: on one host an ordinary torch.distributed program over gloo, between hosts over TLS.

    torchrun --nproc-per-node 3 -m relaytrain.pipeline.worker JOB
    python -m relaytrain.pipeline.worker JOB --rank R --certs DIR --at NAME=HOST:PORT --at NAME=HOST:PORT ...

Rank s is stage s; a master that owns the data has the rank after the last stage. On one host the supervisor starts
workers instead; each then has a socket to it, over which it sends beats, losses and steps, and whose end is its own.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore
from torch.distributed.rendezvous import rendezvous

from ..core.errors import RelayTrainError, UsageError, WorkerLost
from ..core.user_code import UserCodeError
from .addresses import check_master
from .host_links import HostLinks, JobKey, StagePlace
from .job_file import StageJob, read_job
from .links import GlooLinks, Links
from .process_memory import MemoryGrowth, keep_freed, release_code, rss_bytes
from .stage_program import Report, StageProgram, serve_data

BEAT_S = 0.25
PATIENCE = timedelta(minutes=10)
"""How long torchrun's processes wait for each other at the beginning and at the end."""
BROKEN_STATUS = WorkerLost.exit_status


def play(job: StageJob, rank: int, report: Report, links: Links | None = None) -> None:
    """Play `rank`'s part of `job`; without `links`, by those of the process group, which is there already."""
    torch.set_num_threads(1)
    links = GlooLinks() if links is None else links
    if rank == job.stages:
        serve_data(job, report, links)
    else:
        StageProgram(job, rank, report, links).run()


def prepare() -> None:
    """All that a stage needs is imported with this module."""


def forked(words: Sequence[Any], descriptors: Sequence[int]) -> int:
    """The life of a worker that the launcher forked for the supervisor."""
    path, rank, store = words
    (control,) = descriptors
    return supervised(Path(path), rank, store, socket.socket(fileno=control))


def supervised(path: Path, rank: int, store: str, control: socket.socket) -> int:
    """The worker's life under a supervisor: exit status 0, 7 when a neighbour was lost, 3 for the user's code."""
    keep_freed()
    grown, talk = MemoryGrowth(), _Control(control)
    try:
        job = read_job(path)
        join(job, rank, FileStore(store, job.world))
        talk("ready")
        play(job, rank, partial(_grown, grown, talk))
    except WorkerLost as error:
        talk("lost", error=str(error))
        return BROKEN_STATUS
    except dist.DistError as error:
        talk("lost", error=f"group: {str(error).splitlines()[0][:200]}")
        return BROKEN_STATUS
    except UserCodeError as error:
        talk("failed", error=str(error))
        return error.exit_status
    except Exception as error:  # torch may fail in any way
        talk("broken", error=f"{type(error).__name__}: {str(error).strip()[:300]}")
        return 1
    talk.wait()  # until all have come to their end: leaving early would look like a death
    return 0


def join(job: StageJob, rank: int, store: Any) -> None:
    """Become `rank` of the group that meets at `store`."""
    if job.interface:
        os.environ["GLOO_SOCKET_IFNAME"] = job.interface
    limit = timedelta(seconds=job.group_s)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=job.world, timeout=limit)


def _grown(grown: MemoryGrowth, report: Report, kind: str, **values: Any) -> None:
    """A word with, at the end, what the process has grown by."""
    report(kind, **values, **(grown.growth_bytes() if kind == "done" else {}))


class _Control:
    """The socket to the supervisor, a line of JSON each; a thread beats and watches for the other end's end."""

    def __init__(self, control: socket.socket) -> None:
        self._socket, self._lock = control, threading.Lock()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def __call__(self, kind: str, **values: Any) -> None:
        line = json.dumps({"kind": kind, **values}).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(line)

    def wait(self) -> None:
        self._thread.join()

    def _beat(self) -> None:
        while not select.select([self._socket], [], [], BEAT_S)[0]:
            self("beat", rss_bytes=rss_bytes())
        os._exit(0)  # the supervisor says no more than this: it is gone, or done with us


def main(arguments: Sequence[str] | None = None) -> int:
    """The program that torchrun, or a user on each host, starts."""
    reader = argparse.ArgumentParser(prog="relaytrain.pipeline.worker", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("job", type=Path, help="the job file that `relaytrain pipeline run --prepare` wrote")
    reader.add_argument("--rank", type=int, help="the stage that this host plays, from 0 on (torchrun's without --at)")
    reader.add_argument("--at", action="append", metavar="NAME=HOST:PORT", help="where each stage listens, in order")
    reader.add_argument("--certs", type=Path, help="this host's folder of `relaytrain flower certs`: nodes/NAME")
    asked = reader.parse_args(arguments)
    release_code()
    keep_freed()
    grown = MemoryGrowth()
    try:
        job = read_job(asked.job)
        certs = None if asked.certs is None else asked.certs.resolve()
        digest = hashlib.sha256(asked.job.read_bytes()).hexdigest()
        os.chdir(asked.job.resolve().parent)  # the job's paths are as seen from its folder
        if asked.at or certs is not None or asked.rank is not None:
            return _between_hosts(job, asked.rank, asked.at or (), certs, digest, grown)
        return _on_this_host(job, grown)
    except RelayTrainError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status


def _on_this_host(job: StageJob, grown: MemoryGrowth) -> int:
    if not {"RANK", "WORLD_SIZE"} <= set(os.environ):
        raise UsageError(
            f"which stage is this? Start it by torchrun --nproc-per-node {job.world}, or between hosts with --rank, "
            "--certs and --at"
        )
    if os.environ["WORLD_SIZE"] != str(job.world):
        raise UsageError(f"torchrun: got {os.environ['WORLD_SIZE']} processes, expected --nproc-per-node {job.world}")
    check_master(os.environ.get("MASTER_ADDR", "localhost"))
    store, rank, world = next(rendezvous("env://", timeout=PATIENCE))
    _all_at("here", store, rank, world)  # processes start seconds apart; only then does the group's own limit count
    join(job, rank, store)
    play(job, rank, partial(_grown, grown, partial(_say, rank)))
    _all_at("done", store, rank, world)
    dist.barrier()
    dist.destroy_process_group()
    return 0


def _between_hosts(
    job: StageJob, rank: int | None, at: Sequence[str], certs: Path | None, digest: str, grown: MemoryGrowth
) -> int:
    places = [StagePlace.parse(text) for text in at]
    if len(places) != job.world or rank is None or certs is None:
        raise UsageError(f"between hosts: expected --rank, --certs, and --at for each of {job.world} processes")
    links = HostLinks(rank, places, certs, JobKey(digest, digest.encode()), PATIENCE.total_seconds())
    try:
        play(job, rank, partial(_grown, grown, partial(_say, rank)), links)
    except WorkerLost as error:
        raise WorkerLost("; ".join([str(error), *(f"refused {words}" for words in links.refused)])) from None
    finally:
        links.close()
    return 0


def _all_at(place: str, store: Any, rank: int, world: int) -> None:
    store.set(f"{place}/{rank}", "")
    store.wait([f"{place}/{other}" for other in range(world)], PATIENCE)


def _say(rank: int, kind: str, **values: Any) -> None:
    if kind == "done":
        values |= {
            "rss_bytes": rss_bytes(),
            "own_bytes": rss_bytes("RssAnon"),
            "pipelining": "torch.distributed.pipelining" in sys.modules,
        }
    if kind in {"loss", "done"}:
        print(json.dumps({"rank": rank, "kind": kind, **values}), flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""The supervisor of a pipeline on one host: starts its stages, watches them, and starts again without those it lost.

    plan -> job file -> fork a worker a stage -> beats, losses, steps  -> all done: the last snapshot is the result
      ^                                            |
      +--- newest snapshot held for every stage <--+ one is dead, silent, or slow for long: end all, plan anew

A restart goes on from a snapshot as a fresh run would that begins there: what was in flight is dropped, the minibatches
after it are trained again. A worker is dead when its socket closes, silent after `silent_s` without a beat; waits for a
neighbour end after `group_s`.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.errors import InfeasibleError, RelayTrainError, WorkerLost
from ..core.user_code import UserCodeError
from ..launcher import ENVIRONMENT, Forked, launcher
from ..planners.pipeline.partition import Device
from ..planners.pipeline.partition import split as parts_of
from ..store.files import make_dir
from .blueprint import names_in
from .job_file import StageJob
from .job_writer import make_job, write_start
from .pipeline_work import PipelineResult, PipelineWork, Split
from .snapshots import last_attempt, newest, prune, read
from .stragglers import Straggling

RESTARTS = 5
"""How many times stages are started again before the run is given up."""


def supervise(work: PipelineWork, devices: Sequence[Device], split: Split) -> PipelineResult:
    """Train `work` in processes; see `run_pipeline`."""
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = work.runtime.folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relaytrain-pipeline-")))
        return _Supervisor(work, make_dir(folder, private=True), list(devices), split).run(began_s)


@dataclass
class _Worker:
    """What is known of one process."""

    name: str
    process: Forked
    socket: socket.socket
    seen_s: float = 0.0
    rest: bytes = b""
    done: dict[str, Any] | None = None
    lost: str | None = None
    broken: RelayTrainError | None = None
    gone: bool = False
    rss_bytes: int = 0


class _Supervisor:
    def __init__(self, work: PipelineWork, folder: Path, devices: list[Device], split: Split) -> None:
        self.work, self.folder, self.devices, self.split = work, folder, devices, split
        self.losses: dict[int, float] = {}
        self.history: list[dict[str, Any]] = []
        self.splits: list[Split] = []
        self.earlier = self.attempt = last_attempt(folder)  # of a run that was killed
        self.link_bytes = 0
        self.names = names_in(work.chain, work.model)
        self.slow: tuple[str, float] | None = None

    def run(self, began_s: float) -> PipelineResult:
        write_start(self.work, self.folder)
        while True:
            workers = self._attempt()
            if all(worker.done is not None for worker in workers):
                break
            self._recover(workers)
        stages = workers[: len(self.split.cuts) + 1]
        content = read(self._newest()[1])
        return PipelineResult(
            weights={self.names[n]: t for n, t in (content.weights | content.buffers).items()},
            states={self.names[n]: s for n, s in content.states.items()},
            losses=tuple(self.losses[index] for index in range(len(self.work.batches)) if index in self.losses),
            elapsed_s=time.monotonic() - began_s,
            link_bytes=self.link_bytes,
            peak_bytes=tuple(worker.done["held_bytes"] if worker.done else 0 for worker in stages),
            predicted_bytes=self.work.predicted_bytes(self.split),
            splits=tuple(self.splits),
            history=tuple(self.history),
            workers=tuple({"name": w.name, "rss_bytes": w.rss_bytes, **(w.done or {})} for w in workers),
            grown_bytes=tuple(worker.done["grown_bytes"] if worker.done else 0 for worker in stages),
            code_bytes=tuple(worker.done["code_bytes"] if worker.done else 0 for worker in stages),
        )

    def _newest(self) -> tuple[int, Path]:
        """Step and place of the newest snapshot; the one that the run began with is always there."""
        snapshot = newest(self.folder, set(self.names))
        assert snapshot is not None
        return snapshot

    def _tell(self, kind: str, **values: Any) -> None:
        event = {"kind": kind, "attempt": self.attempt, **values}
        if kind not in {"step", "loss"}:
            self.history.append(event)
        self.work.progress(event)

    def _attempt(self) -> list[_Worker]:
        """One life of the stages: until all are done, or one is not to be counted on any longer."""
        self.attempt += 1
        self.splits.append(self.split)
        job, path = self._job(*self._newest())
        store = self.folder / f"meet-{self.attempt:03d}"
        store.unlink(missing_ok=True)
        crew = launcher("relaytrain.pipeline.worker")
        workers: list[_Worker] = []
        watch = self._straggling(job)
        try:
            for rank in range(job.world):
                name = self.split.devices[rank] if rank < job.stages else "master"
                control, theirs = socket.socketpair()
                with theirs:
                    forked = crew.fork([str(path), rank, str(store)], [theirs.fileno()], ENVIRONMENT)
                control.setblocking(False)
                workers.append(_Worker(name, forked, control))
                _ = forked.pid  # its silence counts from when it is there
                workers[-1].seen_s = time.monotonic()
            self._tell(
                "started",
                step=job.start,
                devices=list(self.split.devices),
                cuts=list(job.cuts),
                pids=[w.process.pid for w in workers],
            )
            self._watch(workers, watch, job)
        finally:
            for worker in workers:
                worker.socket.close()
            for worker in workers:
                if worker.done is None:
                    worker.process.end()
            for worker in workers:
                worker.process.end()
        self.link_bytes += sum(int((w.done or {}).get("sent_bytes", 0)) for w in workers)
        return workers

    def _watch(self, workers: list[_Worker], watch: Straggling | None, job: StageJob) -> None:
        silent_s = self.work.runtime.silent_s
        blamed_s: float | None = None
        with selectors.DefaultSelector() as selector:
            for rank, worker in enumerate(workers):
                selector.register(worker.socket, selectors.EVENT_READ, rank)
            while any(worker.done is None for worker in workers):
                for key, _ in selector.select(timeout=0.2):
                    self._hear(workers[key.data], key.data, watch, job)
                    if workers[key.data].gone:
                        selector.unregister(key.fileobj)
                now_s = time.monotonic()
                if any(w.broken for w in workers) or any(w.gone and not w.lost for w in workers):
                    return
                if any(not w.gone and now_s - w.seen_s > silent_s for w in workers):
                    return
                if any(w.lost for w in workers):
                    # a neighbour of the one that is gone may be the first to speak
                    blamed_s = blamed_s or now_s
                    if now_s - blamed_s > silent_s + 1.0:
                        return
                if watch is not None and self._too_slow(watch):
                    return

    def _hear(self, worker: _Worker, rank: int, watch: Straggling | None, job: StageJob) -> None:
        try:
            data = worker.socket.recv(65536)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            worker.gone = worker.done is None
            return
        worker.seen_s = time.monotonic()
        *lines, worker.rest = (worker.rest + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            kind = message.pop("kind")
            if kind == "beat":
                worker.rss_bytes = message["rss_bytes"]
            elif kind == "loss":
                self.losses[message["index"]] = message["value"]
                self._tell("loss", **message)
            elif kind == "step":
                updates = (message["index"] + 1) // (job.flush or 1)
                if watch is not None:
                    watch.note(rank, message["busy_s"])
                self._tell("step", stage=rank, **message)
                if rank == 0 and job.every and updates % job.every == 0:
                    prune(self.folder, self._newest()[0])
            elif kind == "done":
                worker.done = message
            elif kind == "lost":
                worker.lost = message["error"]
            elif kind == "broken":
                worker.broken = WorkerLost(f"device {worker.name}: {message['error']}")
            elif kind == "failed":
                worker.broken = UserCodeError(message["error"])

    def _recover(self, workers: list[_Worker]) -> None:
        """Who is to blame, and who is left."""
        broken = next((w.broken for w in workers if w.broken is not None), None)
        if broken is not None:
            raise broken
        now_s = time.monotonic()
        dead = [w for w in workers if w.gone and not w.lost]
        silent = [w for w in workers if not w.gone and w.done is None and now_s - w.seen_s > self.work.runtime.silent_s]
        if self.slow is not None and not dead and not silent:
            self._tell("slow", device=self.slow[0], factor=self.slow[1], cuts=list(self.split.cuts))
            self.slow = None
            return
        culprits = {w.name for w in dead or silent}
        why = "ended" if dead else "silent" if silent else "a link broke"
        starts = self.attempt - self.earlier
        if starts > RESTARTS:
            who = ", ".join(sorted(culprits)) or "nobody"
            raise WorkerLost(f"pipeline: {starts} starts, the last one: {who} {why}; look at its host")
        self._tell("lost", devices=sorted(culprits), why=why)
        self.devices = [device for device in self.devices if device.name not in culprits]
        if not self.devices:
            raise WorkerLost("pipeline: no device is left; start them again and run with the same folder")
        if culprits - {"master"}:
            try:
                self.split = Split.of(self.work.plan(self.devices))
            except InfeasibleError as error:
                raise WorkerLost(f"pipeline: lost {', '.join(sorted(culprits))}, and for the rest: {error}") from None

    def _straggling(self, job: StageJob) -> Straggling | None:
        if not self.work.runtime.rebalance or job.stages == 1:
            return None
        return Straggling([self._flops(at) / self._device(at).flops_per_s for at in range(job.stages)])

    def _device(self, stage: int) -> Device:
        return next(device for device in self.devices if device.name == self.split.devices[stage])

    def _flops(self, stage: int) -> int:
        return sum(unit.train_flops for unit in parts_of(self.work.units, self.split.cuts)[stage])

    def _too_slow(self, watch: Straggling) -> bool:
        """Whether a stage has been slow for long and another split is worth the restart; then it is the next one."""
        stage = watch.slow()
        if stage is None:
            return False
        seconds = watch.seconds()
        true = {self.split.devices[at]: self._flops(at) / seconds[at] for at in range(len(seconds))}
        devices = [replace(device, flops_per_s=true[device.name]) for device in self.devices]
        watch.reset()
        try:
            plan = self.work.plan(devices)
        except InfeasibleError:
            return False
        if plan.cuts == self.split.cuts or plan.step_s > 0.9 * max(seconds):
            return False
        self.slow = self.split.devices[stage], watch.factor(stage)
        self.devices, self.split = devices, Split.of(plan)
        return True

    def _job(self, start: int, source: Path) -> tuple[StageJob, Path]:
        job = make_job(
            self.work, self.split, self.devices, self.folder, start=start, source=source, attempt=self.attempt
        )
        path = self.folder / f"job-{self.attempt:03d}.json"
        job.write(path)
        return job, path

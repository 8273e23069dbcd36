"""A pipeline's run kept in the store like any other: `ls`, `show`, `report`, `export`, `stop` and `resume` know it.

    run_started -> [ planned k -> epoch_done k ]* -> verdict

An epoch is a number of minibatches, trained stage by stage and drained at its end, so an epoch that is run again gives
the same bits. Inside one the stages' snapshots lie in the store's scratch: a run that was killed goes on from the
newest whole one, as the supervisor does after a loss; what was in flight then is trained again, and the run says so.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..compression.channels import parameter_count
from ..core.errors import NonFiniteTraining, ScenarioError, UsageError
from ..core.outcome import Evaluation, VerdictKind
from ..core.plan import Decision, finite, or_infinite, plain
from ..costs.meters import find_meter
from ..data.domain import Preprocessing
from ..executors.epoch import EpochWindow, cpu_s_so_far
from ..executors.pipelined import optimizer_buffers, optimizer_states
from ..models.rebuild import code_of
from ..models.spec import Spec
from ..pipeline.named_run import Network, TrainingOrder, built, growth, loss_on_test, loss_over, minibatches
from ..pipeline.pipeline_run import run_pipeline
from ..pipeline.pipeline_work import Emulation, PipelineResult, PipelineWork, Runtime, Training
from ..planners.pipeline.partition import Device
from ..planners.pipeline.policy_choice import Keeping
from ..scenario.own_code import loaded_code
from ..store import LeaseLost, RunStore, RunWriter
from ..store.runs import SCRATCH, KeptCheckpoint
from ..training.checkpoint import Checkpoint
from . import event_bodies
from .going_on import check_open, go_on
from .job import StopAsked
from .resume import check_code
from .stopping import droppable, dropped

NODES = "pipeline"
"""What the node set of such a run is called; its version has the network's name."""
Watch = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class PipelineJob:
    """What a pipeline's run is asked for: an order, trained for `epochs`, or until the training loss is `target`."""

    order: TrainingOrder
    devices: tuple[Device, ...]
    in_flight: int | None = None
    keep: str = "best-of"
    runtime: Runtime = field(default_factory=Runtime)
    epochs: int = 1
    target: float | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise UsageError(f"--epochs: got {self.epochs}, expected at least 1")
        if self.target is not None and not (math.isfinite(self.target) and self.target > 0.0):
            raise UsageError(f"--target: got {self.target:g}, expected a positive number")

    def training(self) -> Training:
        """For the executors below."""
        return Training(self.order.rule(), m=self.in_flight, keeping=Keeping(self.keep), code=self.order.folder)

    def to_dict(self) -> dict[str, Any]:
        """The key `pipeline` of `run_started`; infinity is null."""
        runtime = self.runtime
        return {
            "order": {key: value for key, value in vars(self.order).items() if key != "folder"},
            "devices": [plain(device) for device in self.devices],
            "in_flight": self.in_flight,
            "keep": self.keep,
            "epochs": self.epochs,
            "target": self.target,
            "runtime": {
                "where": runtime.where,
                "owner": runtime.owner,
                "snapshot_every": runtime.snapshot_every,
                "bind": runtime.bind,
                "rebalance": runtime.rebalance,
                "emulate": runtime.emulation.compute,
            },
        }

    @classmethod
    def from_dict(cls, data: Any, folder: Path | None) -> PipelineJob:
        """The job that a run kept; `folder` is where code of the user's own may be imported from.

        Raises:
            ScenarioError: it is not as runs keep it.
        """
        try:
            runtime = dict(data["runtime"])
            slow = bool(runtime.pop("emulate"))
            runtime.pop("trusted_network", None)  # of runs before links between hosts had TLS
            devices = tuple(
                Device(
                    str(d["name"]), *(or_infinite(d[k]) for k in ("flops_per_s", "memory_bytes", "link_bytes_per_s"))
                )
                for d in data["devices"]
            )
            return cls(
                TrainingOrder(**data["order"], folder=folder),
                devices,
                data["in_flight"],
                str(data["keep"]),
                Runtime(**runtime, count_bytes=True, emulation=Emulation(links=slow, compute=slow)),
                int(data["epochs"]),
                data["target"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScenarioError(
                f"the run's `pipeline` is not as runs keep it ({type(error).__name__}: {error})"
            ) from None


@dataclass(frozen=True)
class PipelineEnded:
    """How it ended. `results` are the epochs of this process; `losses` the mean training loss of all that stand."""

    run: str
    verdict: VerdictKind
    losses: tuple[float, ...]
    results: tuple[PipelineResult, ...]
    tested: Evaluation
    notes: tuple[str, ...]


def start(
    job: PipelineJob,
    store: RunStore,
    run: str,
    *,
    command: str | None = None,
    watch: Watch | None = None,
    stop: StopAsked | None = None,
) -> PipelineEnded:
    """Train `job` from its first weights; faults of network, data and devices are raised before anything is kept."""
    network = built(job.order)
    with nullcontext() if network.spec is None else code_of(network.spec):
        work = PipelineWork.of(network.model, minibatches(job.order, 1), job.training(), job.runtime, spec=network.spec)
    work.plan(job.devices)
    first = None if network.spec is None else Checkpoint.of_model(network.model, network.spec, job.order.name)
    body = _started(job, network, command)
    with store.create_run(run, body, start=None if first is None else first.to_bytes()) as writer:
        return _PipelineRun(job, network, store, writer, watch, stop).go()


def resume(
    run: str,
    store: RunStore,
    *,
    code: Path | None = None,
    force: bool = False,
    allow_inexact: bool = False,
    watch: Watch | None = None,
    stop: StopAsked | None = None,
) -> tuple[PipelineEnded, PipelineJob]:
    """Go on with a pipeline's run from its last epoch, and inside the next one from its newest whole snapshot."""
    check_open(store.sound(run))
    started = store.events(run, kinds=("run_started",))[0].body
    has_own = bool(started.get("code"))
    if has_own and code is None:
        raise UsageError(
            "this run uses code of your own, which is imported only from a folder that you name. "
            f"If you trust what is in it:  {go_on(run, started, store.folder_to_name)}"
        )
    changed = check_code(started, code, allow_inexact=allow_inexact or force)
    job = PipelineJob.from_dict(started.get("pipeline"), code if has_own else None)
    network = built(job.order)
    with store.resume_run(run, force=force) as writer:  # first the lease, then the reading
        kept = store.latest_checkpoint(run)
        if kept is None:
            raise UsageError(f"run {run} kept no checkpoint: {job.order.network} has no spec; start it anew")
        going = _PipelineRun(job, network, store, writer, watch, stop)
        going.take_up(kept)
        if changed:
            going.notes.append(f"went on although changed since its start: {'; '.join(changed)}")
        return going.go(), job


def scratch_of(store: RunStore, run: str) -> Path:
    """Where the snapshots of an epoch under way lie."""
    return store.folder / SCRATCH / run


class _PipelineRun:
    """One run, or one writer's part of it."""

    def __init__(
        self,
        job: PipelineJob,
        network: Network,
        store: RunStore,
        writer: RunWriter,
        watch: Watch | None,
        stop: StopAsked | None,
    ) -> None:
        self.job, self.network, self.store, self.writer = job, network, store, writer
        self.watch, self.stop = watch or (lambda event: None), stop
        self.states: dict[str, Any] = {}
        self.results: list[PipelineResult] = []
        self.notes: list[str] = []
        self.meter = find_meter()

    def take_up(self, kept: KeptCheckpoint) -> None:
        """The weights and the optimizer's state after the last epoch that stands and is whole."""
        checkpoint, whole = Checkpoint.from_bytes(kept.data, where=f"run {self.writer.run}"), kept.event.epoch or 0
        if whole < self.writer.progress.epoch:
            reason = f"{len(kept.skipped)} damaged checkpoint(s) passed over"
            body = {"to_epoch": whole, "cause": event_bodies.DAMAGED, "reason": reason}
            self.writer.append("rolled_back", body, whole)
            self.notes.append(f"{reason}; went back to epoch {whole}")
        self.network.model.load_state_dict(checkpoint.weights)
        self.states = optimizer_states(self.job.order.rule(), checkpoint.optimizer)

    def go(self) -> PipelineEnded:
        """To the verdict, which is recorded whatever happens."""
        try:
            while True:
                losses = self._losses()
                target = self.job.target
                if target is not None and losses and losses[-1] <= target:
                    return self._conclude("met")
                if len(losses) >= self.job.epochs:
                    return self._conclude("met" if target is None else "missed")
                if self.writer.stop_requested() or (self.stop is not None and self.stop()):
                    return self._conclude("stopped")
                self._epoch(len(losses) + 1)
        except LeaseLost:
            raise
        except BaseException as error:
            if dropped(self.stop, error):
                return self._conclude("stopped", test=False)
            with suppress(Exception):
                self.notes.append(f"{type(error).__name__}: {error}")
                self._conclude("failed", test=False)
            raise

    def _losses(self) -> list[float]:
        return [done.loss for done in self.writer.progress.done]

    def _epoch(self, number: int) -> None:
        job, order = self.job, self.job.order
        decision = event_bodies.decision_json(Decision(number, order.name, NODES, mode="pipeline"))
        if self.writer.planned is None:
            self.writer.append("planned", {"decision": decision}, number)
        folder = self._folder(number)
        batches = minibatches(order, number)
        window, cpu = EpochWindow(self.meter), cpu_s_so_far()
        folder.parent.mkdir(parents=True, exist_ok=True)
        runtime = replace(job.runtime, folder=folder)
        spec = self.network.spec
        with droppable(self.stop, 2), nullcontext() if spec is None else code_of(spec):
            result = run_pipeline(
                self.network.model,
                batches,
                job.devices,
                job.training(),
                runtime,
                spec=self.network.spec,
                states=self.states,
                progress=lambda event: self._heard(number, event),
            )
        cpu_s = cpu_s_so_far() - cpu
        metered = window.close(cpu_s)
        if not all(math.isfinite(loss) for loss in result.losses):
            raise NonFiniteTraining(f"epoch {number}: losses are not finite; try a smaller --lr")
        first = next((event["step"] for event in result.history if event["kind"] == "started"), 0)
        if first > 0:
            self.notes.append(
                f"epoch {number} went on from the snapshot after {first} updates: what was in flight was trained "
                "again, so it may differ from an undisturbed one, and its loss is of the minibatches from there on"
            )
        self._record(number, decision, result, metered, cpu_s)
        if job.runtime.folder is None:
            shutil.rmtree(folder, ignore_errors=True)

    def _record(
        self, number: int, decision: Mapping[str, Any], result: PipelineResult, metered: Any, cpu_s: float
    ) -> None:
        order, rule = self.job.order, self.job.order.rule()
        loss = math.fsum(result.losses) / len(result.losses)
        self.network.model.load_state_dict(result.weights)
        self.states = dict(result.states)
        split = result.splits[-1]
        stages = [
            {"node": device, "samples": order.batch * len(result.losses), "train_loss": loss, "peak_bytes": peak}
            for device, peak in zip(split.devices, result.peak_bytes, strict=True)
        ]
        body = {
            "decision": decision,
            "loss": loss,
            "train_loss": loss,
            "elapsed_s": metered.wall_s,
            "energy_j": metered.energy_j,
            "provenance": metered.provenance,
            "cpu_s": cpu_s,
            "wall_s": metered.wall_s,
            "nodes": stages,
            "failed_nodes": [name for event in result.history if event["kind"] == "lost" for name in event["devices"]],
            "pipeline": {
                "cuts": list(split.cuts),
                "link_bytes": result.link_bytes,
                "predicted_bytes": list(result.predicted_bytes),
                **growth(result),
                "losses": list(result.losses),
            },
        }
        if self.network.spec is not None:
            buffers = {k: t for n, s in result.states.items() for k, t in optimizer_buffers(rule, n, s).items()}
            checkpoint = Checkpoint.of_model(self.network.model, self.network.spec, order.name, buffers)
            body["blob"] = self.writer.put_blob(checkpoint.to_bytes())
        self.writer.append("epoch_done", body, number)
        self.results.append(result)
        self.watch({"kind": "epoch", "epoch": number, "loss": loss, "elapsed_s": metered.wall_s})

    def _heard(self, number: int, event: dict[str, Any]) -> None:
        """A device that was lost is an event of the run's too."""
        if event["kind"] == "lost":
            for name in event["devices"] or ["a link"]:
                lost = {"node": name, "attempt": int(event["attempt"]) - 1, "reason": str(event["why"])}
                self.writer.append("node_failed", lost, number)
        self.watch(event)

    def _folder(self, number: int) -> Path:
        own = self.job.runtime.folder
        if own is not None:
            return own if number == 1 else own / f"epoch-{number:04d}"
        return scratch_of(self.store, self.writer.run) / f"epoch-{number:04d}"

    def _conclude(self, verdict: VerdictKind, *, test: bool = True) -> PipelineEnded:
        tested, losses = Evaluation(math.nan), self._losses()
        if test:
            try:
                tested = loss_on_test(self.job.order, self.network.model)
            except Exception as error:  # a verdict is owed even where the data have no test set
                self.notes.append(f"not tested: {error}")
        body = event_bodies.verdict_body(verdict, self.writer.progress, tested=tested, notes=self.notes)
        self.writer.append("verdict", body)
        if verdict in ("met", "missed"):
            shutil.rmtree(scratch_of(self.store, self.writer.run), ignore_errors=True)
        return PipelineEnded(self.writer.run, verdict, tuple(losses), tuple(self.results), tested, tuple(self.notes))


def _started(job: PipelineJob, network: Network, command: str | None) -> dict[str, Any]:
    order = job.order
    batches = minibatches(order, 1)
    references = [name for name in (order.network, order.data) if ":" in name]
    target = {"on": "train", "max_epochs": job.epochs, **({} if job.target is None else {"loss": job.target})}
    known: dict[str, Any] = {}
    if references:
        known = {"code": loaded_code(order.folder, references), "folder": str((order.folder or Path()).resolve())}
    if command is not None:
        known["command"] = command
    return {
        "run_schema": event_bodies.RUN_SCHEMA,
        "seed": order.seed,
        "clock": "measured",
        "planner": "pipeline",
        "threads": 1,
        "packages": event_bodies.packages(),
        "initial_loss": finite(loss_over(network.model, batches).loss),
        "scenario": {
            "name": order.name,
            "target": target,
            "training": {"optimizer": order.optimizer, "lr": order.lr, "batch": order.batch, "seed": order.seed},
            "data": {"source": order.data},
        },
        "versions": {order.name: _version(network.model, network.spec)},
        "node_sets": {NODES: {"samples": order.batch * order.minibatches, "classes": network.classes}},
        "input": list(batches[0][0].shape[1:]),
        "preprocessing": Preprocessing().to_dict(),
        "pipeline": job.to_dict(),
        **known,
    }


def _version(model: Any, spec: Spec | None) -> dict[str, Any]:
    return {
        "parameters": parameter_count(model),
        "weight_bytes": sum(weight.numel() * weight.element_size() for weight in model.parameters()),
        **({} if spec is None else {"spec": spec.to_dict()}),
    }

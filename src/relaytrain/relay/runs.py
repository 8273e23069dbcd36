"""Training from Python: `run` and `resume` a scenario, `train` a module at hand, `load_model` what a run trained.

For example:

    result = rt.train(model, data, "my.toml", ratios={"half": 0.5})
    result.verdict, result.energy_j, result.model
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.display import drawn
from ..core.errors import UsageError
from ..core.protocols import Planner
from ..loggers.live_logs import live_logs, targets_of
from ..scenario import Scenario, Source, scenario_from
from ..scenario.overrides import texts
from ..store import RunStore, new_run_id
from ..store.events import standing
from . import loop
from .callbacks import Callbacks, OnEpoch, OnHandover, OnVerdict
from .job import Ended, Job, StopAsked, Told

if TYPE_CHECKING:
    from torch import nn

    from ..models.rebuild import Resolve
    from ..training.datasets import Sets
    from ..training.own_training import MakeOptimizer, MakeSchedule, OwnTraining

Where = str | PathLike[str] | RunStore | None
Which = Literal["final", "best"]


@dataclass(frozen=True)
class Trained(Ended):
    """How a run ended, and the network it trained: `model` is the version after the last epoch that stands."""

    store: Path = Path()
    resolve: Resolve | None = field(default=None, repr=False, compare=False)

    @property
    def model(self) -> nn.Module:
        """The network, rebuilt from the store, in eval mode; a fresh one each time.

        It expects inputs as it was trained on them, so standardised where `[data]` says `standardise`; for raw ones
        there is `load_model(..., preprocess=True)`.
        """
        return load_model(self.run, store=self.store, resolve=self.resolve)

    def _repr_html_(self) -> str:
        """Verdict and picture in notebooks."""
        page: str = drawn(self, "notebook")
        return page


def run(
    source: Source = "quickstart",
    *,
    store: Where = None,
    name: str | None = None,
    planner: str | Planner | None = None,
    rule: str | None = None,
    seed: int | None = None,
    transport: str | None = None,
    estimator: str | None = None,
    fitted: str | PathLike[str] | None = None,
    overrides: Sequence[str] = (),
    without: Sequence[str] = (),
    log: str | Sequence[str] = (),
    on_epoch: OnEpoch | None = None,
    on_handover: OnHandover | None = None,
    on_verdict: OnVerdict | None = None,
    told: Told | None = None,
    stop: StopAsked | None = None,
) -> Trained:
    """Train a scenario that has `[data]`, from its first checkpoint to a verdict.

    Args:
        source: a file, a preset, a mapping or a scenario.
        store: the folder of runs; by default `$RELAYTRAIN_STORE`, else `./relaytrain-runs`.
        name: of the run; by default the scenario's with eight random digits.
        planner: a planner or its name; `rule` is PACT's.
        seed: of weights and shuffling.
        transport: "in-process", "processes" or, inside a ServerApp, "flower".
        estimator: "prior", "auto", "paper" or "zero-trace"; `fitted`: the file of the second and third.
        overrides: `key=value` texts as of `--set`; `without`: node sets to leave out.
        log: other tools that read the run as it goes: "tensorboard=DIR", "mlflow=DIR or URI", "wandb=DIR" (offline).
            They are processes of their own and never in its way; what they miss is in `notes`, with the remedy.
        on_epoch: called with a `Line` after every epoch that is safe; `on_handover` with a `HandoverMade`;
            `on_verdict` with what this returns. An exception in one is yours: file and line are told, the run is kept.
        told: hears every epoch that is safe; `stop`: asked before each whether to end.
    """
    changes = [*texts(overrides), *as_overrides(planner, rule, seed, transport, estimator=estimator, fitted=fitted)]
    loaded = scenario_from(source, changes, without)
    hears = Callbacks(told, on_epoch, on_handover, on_verdict)
    own = None if isinstance(planner, str) else planner
    return _go(lambda: _job(loaded, own), store, hears, stop, log=log, name=name or new_run_id(loaded.problem.name))


def resume(
    run: str,
    *,
    store: Where = None,
    source: Source | None = None,
    code: str | PathLike[str] | None = None,
    force: bool = False,
    allow_inexact: bool = False,
    log: str | Sequence[str] = (),
    on_epoch: OnEpoch | None = None,
    on_handover: OnHandover | None = None,
    on_verdict: OnVerdict | None = None,
    told: Told | None = None,
    stop: StopAsked | None = None,
) -> Trained:
    """Go on with an interrupted, stopped or failed run, with the scenario it was started with.

    Args:
        run: its name.
        store: where it is.
        source: a scenario that names the same code of your own, as leave to import it from that file's folder.
        code: the folder that code of your own may be imported from; a run that has some needs one of the two.
        force: take the run over from a process that seems to live, and go on although something has changed.
        allow_inexact: go on although packages, threads or code have changed since it was started.
        log, on_epoch, on_handover, on_verdict, told, stop: as for `run`.
    """
    from .resume import check_code, check_same

    opened = _open(store)
    loaded = kept_scenario(run, store=opened, source=source, code=code)
    started = opened.events(run)[0].body
    inexact = allow_inexact or force
    changed = check_code(started, loaded.folder, allow_inexact=inexact)

    def make() -> Job:
        job = _job(loaded, None)
        changed.extend(check_same(started, job, allow_inexact=inexact))
        return replace(job, notes=(f"went on although changed since its start: {'; '.join(changed)}",) * bool(changed))

    hears = Callbacks(told, on_epoch, on_handover, on_verdict)
    return _go(make, opened, hears, stop, log=log, name=run, going_on=True, force=force)


def kept_scenario(
    run: str, *, store: Where = None, source: Source | None = None, code: str | PathLike[str] | None = None
) -> Scenario:
    """The scenario that a run was started with; arguments as of `resume`."""
    from .going_on import check_open, go_on
    from .resume import scenario_of

    opened = _open(store)
    summary = opened.sound(run)  # refuses a run that is not there, or not whole
    given = None if source is None else scenario_from(source)
    started = opened.events(run)[0].body
    if not started.get("in_memory"):
        check_open(summary)
    command = go_on(run, {**started, "code": True}, opened.folder_to_name)
    return scenario_of(started, given, None if code is None else Path(code), command=command)


def train(
    model: nn.Module | Mapping[str, nn.Module],
    data: Mapping[str, Any] | Callable[[str], Any] | Sets,
    problem: Source,
    *,
    step: Callable[[nn.Module, Any], Any] | None = None,
    evaluate: Callable[[nn.Module, Any], Mapping[str, Any]] | None = None,
    ratios: Mapping[str, float] | None = None,
    optimizer: MakeOptimizer | None = None,
    lr_schedule: MakeSchedule | None = None,
    planner: str | Planner | None = None,
    rule: str | None = None,
    seed: int | None = None,
    estimator: str | None = None,
    fitted: str | PathLike[str] | None = None,
    overrides: Sequence[str] = (),
    store: Where = None,
    name: str | None = None,
    resume: str | None = None,
    log: str | Sequence[str] = (),
    on_epoch: OnEpoch | None = None,
    on_handover: OnHandover | None = None,
    on_verdict: OnVerdict | None = None,
    told: Told | None = None,
    stop: StopAsked | None = None,
) -> Trained:
    """Train a module of your own on data of your own, to the target of `problem`.

    Args:
        model: the first version as it stands, or all versions by name.
        data: for every node by its name, for "validation" and for "test": (images, labels), a `Dataset`, a
            `DataLoader`, an iterable of batches or a function that makes one; or one function of the name. With "train"
            in place of the nodes, one `Dataset` is divided among them, by their `samples` where all have some.
        step: your own (model, batch) -> loss; without it (inputs, labels), dicts and outputs with `.loss` will do.
        evaluate: your own (model, batch) -> sums over the batch by name, with "count".
        problem: a scenario: its versions, node sets, costs, law and target; `[data]` is not read.
        ratios: share of parameters removed for versions pruned from the first; by default the scenario's `ratio`s.
        optimizer: from the model to a `torch.optim.Optimizer` over its parameters; by default the scenario's.
        lr_schedule: from that optimizer to a scheduler of torch, stepped as `training.lr_every` says.
        planner, rule, seed, estimator, fitted, overrides: as for `run`.
        store, name: where the run is kept, and under which name.
        resume: the name of a run of the same call that was interrupted: it goes on.
        log, on_epoch, on_handover, on_verdict, told, stop: as for `run`.
    """
    from ..training.datasets import Sets, sets_of
    from ..training.settings import TrainingSettings
    from ..training.setup import TrainingSetup
    from .assembly import job_of
    from .resume import check_same

    own, named = _own_training(optimizer, lr_schedule)
    changes = [*texts(overrides), *named, *as_overrides(planner, rule, seed, None, estimator=estimator, fitted=fitted)]
    loaded = scenario_from(problem, changes)
    settings = TrainingSettings.from_table(loaded.training, clock=loaded.problem.clock)
    sets = data if isinstance(data, Sets) else sets_of(data, loaded.problem, settings.seed)
    shares = {v["name"]: v["ratio"] for v in loaded.resolved["versions"] if v.get("ratio") is not None}
    setup = TrainingSetup.from_model(
        model,
        loaded.problem,
        sets,
        ratios={**shares, **(ratios or {})},
        settings=settings,
        functions=(step, evaluate),
        own=own,
        folder=loaded.folder,
    )
    opened = _open(store)

    def make() -> Job:
        own_planner = None if isinstance(planner, str) else planner
        job = job_of(loaded, setup=setup, planner=own_planner, manifest={"in_memory": True})
        if resume is not None:
            check_same(opened.events(resume, kinds=("run_started",))[0].body, job)
        return job

    if resume is not None:
        opened.sound(resume)
    hears = Callbacks(told, on_epoch, on_handover, on_verdict)
    called = resume or name or new_run_id(loaded.problem.name)
    return _go(make, opened, hears, stop, log=log, name=called, going_on=resume is not None)


def load_model(
    run: str,
    *,
    store: Where = None,
    which: Which = "final",
    resolve: Resolve | None = None,
    preprocess: bool = False,
) -> nn.Module:
    """The network that a run trained, in eval mode, bit for bit.

    It expects inputs as it was trained on them: smaller and standardised where `[data]` says `shrink` or `standardise`.
    With `preprocess` it takes raw ones, as the source of the data gives them, and gives the accuracy that was reported.

    Args:
        run: its name.
        store: where it is.
        which: after the last epoch that stands, or the one with the lowest loss.
        resolve: for a network of your own: from the reference in its spec to the function that makes it.
        preprocess: put in front of it what was done to raw inputs.
    """
    from ..training.checkpoint import Checkpoint

    opened = _open(store)
    opened.sound(run)
    started = opened.summary(run).started
    data, where = _final(opened, run) if which == "final" else _best(opened, run)
    model = Checkpoint.from_bytes(data, where=where).model(resolve=resolve)
    if not preprocess:
        return model
    from ..training.preprocessing import steps_of, with_preprocessing

    return with_preprocessing(model, steps_of(started, run))


def _final(store: RunStore, run: str) -> tuple[bytes, str]:
    kept = store.latest_checkpoint(run)
    if kept is None:
        raise UsageError(f"run {run} kept no checkpoint")
    return kept.data, f"run {run}"


def _best(store: RunStore, run: str) -> tuple[bytes, str]:
    done = [e for e in standing(store.events(run)) if e.kind == "epoch_done"]
    if not done:
        none = "kept no checkpoint" if store.summary(run).epoch else "has no epoch done yet"
        raise UsageError(f"run {run} {none}")
    best = min(done, key=lambda event: (event.body["loss"], event.epoch or 0))
    return store.get_blob(run, best.blob or ""), f"run {run}, epoch {best.epoch}"


def _go(
    make: Callable[[], Job],
    store: Where,
    hears: Callbacks,
    stop: StopAsked | None,
    *,
    log: str | Sequence[str],
    name: str,
    going_on: bool = False,
    force: bool = False,
) -> Trained:
    opened, targets = _open(store), targets_of(log)
    job = make()
    runner: Any = job.runner

    def trained(ended: Ended) -> Trained:
        return Trained(**vars(ended), store=opened.folder, resolve=runner.setup.resolve)

    told = replace(hears, on_verdict=hears.on_verdict and (lambda ended: hears.concluded(trained(ended))))
    with closing(runner), live_logs(opened, name, targets) as problems:
        if going_on:
            ended = loop.resume(job, opened, name, force=force, told=told, stop=stop)
        else:
            ended = loop.start(job, opened, run=name, told=told, stop=stop)
    return replace(trained(ended), notes=(*ended.notes, *problems))


def _job(loaded: Scenario, planner: Planner | None) -> Job:
    from .assembly import job_of

    return job_of(loaded, planner=planner)


def _open(store: Where) -> RunStore:
    return store if isinstance(store, RunStore) else RunStore.open(None if store is None else Path(store))


def as_overrides(
    planner: str | Planner | None,
    rule: str | None,
    seed: int | None,
    transport: str | None,
    *,
    estimator: str | None = None,
    fitted: str | PathLike[str] | None = None,
) -> list[str]:
    """Arguments as overrides, so that the scenario kept with the run says all there is to know about it."""
    from ..core.planner_names import DEPL_PLANNERS
    from ..planners.registry import planner_named

    changes = estimator_overrides(estimator, fitted)
    if isinstance(planner, str):
        if planner.replace("_", "-") not in DEPL_PLANNERS:
            planner_named(planner, rule=rule or "adaptive")  # a wrong name is told in the caller's words
        changes.append(f"planner.name={planner.replace('_', '-')}")
    if rule is not None:
        changes.append(f"planner.rule={rule}")
    if seed is not None:
        changes.append(f"training.seed={seed}")
    if transport is not None:
        word = {"inprocess": "in-process", "in_process": "in-process"}.get(transport, transport)
        if word not in ("in-process", "processes", "flower"):
            raise UsageError(f"transport: got '{transport}', expected in-process, processes or flower")
        changes.append(f"training.transport={word}")
    return changes


def _own_training(
    optimizer: MakeOptimizer | None, lr_schedule: MakeSchedule | None
) -> tuple[OwnTraining | None, list[str]]:
    """Functions at hand, and the overrides by which the scenario kept with the run says that they are such."""
    if optimizer is None and lr_schedule is None:
        return None, []
    from ..training.own_training import OwnTraining, checked_optimizer, checked_schedule

    names = {"optimizer": "in_memory:optimizer", "lr_schedule": "in_memory:lr_schedule"}
    own = OwnTraining(
        None if optimizer is None else checked_optimizer(optimizer, names["optimizer"]),
        None if lr_schedule is None else checked_schedule(lr_schedule, names["lr_schedule"]),
    )
    given = {"optimizer": optimizer, "lr_schedule": lr_schedule}
    return own, [f"training.{key}={names[key]}" for key, function in given.items() if function is not None]


def estimator_overrides(estimator: str | None, fitted: str | PathLike[str] | None) -> list[str]:
    """`[estimator]` from the arguments; a fitted file alone says itself what it is."""
    if estimator is None and fitted is None:
        return []
    if fitted is not None:
        from ..estimators.learned.fitted import load_fitted

        path = Path(fitted).resolve()
        changes = [f"estimator.name={estimator or load_fitted(path).name}", f"estimator.fitted={json.dumps(str(path))}"]
    else:
        changes = [f"estimator.name={(estimator or '').replace('_', '-')}"]
    return changes

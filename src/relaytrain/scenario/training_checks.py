"""What no single field of `[training]`, `[data]` and a version's network can know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core.families import FAMILIES
from .checks import missing
from .faults import Fault
from .fields import KeyPath, shown
from .schema import ScenarioFile, VersionTable
from .training_tables import TrainingTable

FEDERATED_ONLY = ("warmup_epochs", "accumulate", "precision", "clip_norm", "clip_value", "prox_mu", "strategy")
"""Keys of `[training]` that a pipeline's stages do not know."""

FIGURES = ("loss", "error", "perplexity", "rmse")
"""What is known of a set without the user's own evaluate."""
RISING = ("accuracy", "acc", "f1", "auc", "recall", "precision")


def check_training(file: ScenarioFile) -> list[Fault]:
    """What no single field of these tables can know."""
    faults: list[Fault] = []
    earlier: list[str] = []
    for index, version in enumerate(file.versions):
        at = ("versions", index)
        if len(version.ways) > 1:
            faults.append(Fault(at, " and ".join(version.ways), "one of family, factory, ratio, student, rank"))
        if version.ratio_in is not None and version.ratio is None:
            faults.append(Fault((*at, "ratio_in"), "ratio_in without ratio", "ratio beside it"))
        faults += _ranks(version, at, [v for v in file.versions[:index] if v.rank is not None])
        if version.of is not None and version.ratio is None:
            faults.append(Fault((*at, "of"), "of without ratio", "ratio beside it"))
        elif version.of is not None and version.of not in earlier and version.of != "full":
            faults.append(
                Fault((*at, "of"), shown(version.of), f"a version declared before: {', '.join(earlier) or 'none'}")
            )
        if version.way is not None and version.ratio is None:
            faults.append(Fault((*at, "way"), f"way = {shown(version.way)} without ratio", "ratio beside it"))
        if version.width is not None and version.family is None and version.student is None:
            faults.append(Fault((*at, "width"), "width without family", "family or student beside it"))
        for key in ("family", "student"):
            name = getattr(version, key)
            if name is not None and ":" not in name and name not in FAMILIES:
                faults.append(Fault((*at, key), shown(name), f"one of {', '.join(FAMILIES)}"))
        earlier.append(version.name)
    for index, version in enumerate(file.versions if file.data is not None else []):
        if not version.ways or (index == 0 and "ratio" in version.ways):
            wanted = "family or factory" if index == 0 else "family, factory, ratio, student or rank"
            faults.append(
                Fault(("versions", index), f"no network for {version.name}", f"{wanted}: with [data] it trains")
            )
    faults += _metric(file)
    nodes = [n.name for n in file.nodes]
    if file.training is not None:
        faults += _updates(file.training, [s.name for s in file.node_sets if s.mode == "pipeline"])
        faults += [f for n in file.training.devices for f in missing(("training", "devices", n), n, nodes, "node")]
    if file.data is not None:
        faults += [f for n in file.data.nodes for f in missing(("data", "nodes", n), n, nodes, "node")]
        faults += [f for n in file.data.classes for f in missing(("data", "classes", n), n, nodes, "node")]
        if file.data.partition == "by-class" and not file.data.classes:
            faults.append(Fault(("data", "classes"), "nothing", "the classes of each node: partition is by-class"))
    return faults


def _metric(file: ScenarioFile) -> list[Fault]:
    """A figure has to fall, and somebody has to sum it."""
    metric, at = file.target.metric, ("target", "metric")
    if metric in RISING:
        return [Fault(at, shown(metric), 'a figure that falls, such as "error", which is 1 - accuracy')]
    own = file.training is not None and file.training.evaluate is not None
    if file.data is not None and metric not in FIGURES and not own:
        return [Fault(at, shown(metric), f"one of {', '.join(FIGURES)}; others need [training] evaluate")]
    return []


def _updates(training: TrainingTable, pipelines: list[str]) -> list[Fault]:
    """Keys of how a loss becomes an update that exclude one another, and what a pipeline's stages cannot do."""
    faults: list[Fault] = []
    own_schedule = ":" in training.lr_schedule
    if training.clip_norm is not None and training.clip_value is not None:
        faults.append(Fault(("training", "clip_value"), "clip_norm and clip_value", "one of the two"))
    if training.warmup_epochs and own_schedule:
        wanted = "none: a schedule of your own warms up itself"
        faults.append(Fault(("training", "warmup_epochs"), f"beside lr_schedule {shown(training.lr_schedule)}", wanted))
    if training.lr_every == "step" and not own_schedule:
        wanted = "a schedule of your own beside it: constant, step and cosine go by the epoch"
        faults.append(Fault(("training", "lr_every"), shown("step"), wanted))
    if training.strategy == "fedavg" and training.server_lr is not None:
        wanted = 'strategy = "fedavgm" or "fedadam" beside it'
        faults.append(Fault(("training", "server_lr"), "server_lr with fedavg", wanted))
    if not pipelines:
        return faults
    if training.optimizer not in ("sgd", "adam"):
        got = f"{training.optimizer} with the pipeline {shown(pipelines[0])}"
        faults.append(Fault(("training", "optimizer"), got, "sgd or adam"))
    if own_schedule:
        got = f"{training.lr_schedule} with the pipeline {shown(pipelines[0])}"
        faults.append(Fault(("training", "lr_schedule"), got, "constant, step or cosine"))
    for key in FEDERATED_ONLY:
        if getattr(training, key) != TrainingTable.model_fields[key].default:
            got = f"{key} with the pipeline {shown(pipelines[0])}"
            faults.append(Fault(("training", key), got, "no such key: stages of a pipeline step by themselves"))
    return faults


def _ranks(version: VersionTable, at: KeyPath, ranks: Sequence[VersionTable]) -> Iterator[Fault]:
    """What is wrong with a version as the rank of an adapter, `ranks` being those declared before it."""
    if version.rank is None:
        for key in ("alpha", "targets", "train"):
            if getattr(version, key) is not None:
                yield Fault((*at, key), f"{key} without rank", "rank beside it")
        return
    if version.factory is None and not ranks:
        yield Fault((*at, "rank"), "a rank without factory", "factory beside it: the network that the adapter is of")
    elif version.factory is not None and ranks:
        yield Fault((*at, "factory"), "a second network with an adapter", f"rank alone: it is of {ranks[0].name}'s")
    if not ranks and version.targets is None:
        yield Fault((*at, "rank"), "a rank without targets", 'targets beside it, such as ["query", "value"]')

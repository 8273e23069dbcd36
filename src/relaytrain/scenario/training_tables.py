"""`[training]`, `[data]` and how a version comes about: what turns a planned scenario into one that trains.

Nothing here imports torch or follows a reference; `training.setup` does both when a run starts.
"""

from typing import Annotated, Literal

from pydantic import Field

from .fields import NAME, Number, Text
from .strict_table import Table
from .units import DURATION

_DOTTED = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
REFERENCE = Text("dotted.module:name of your own code", rf"{_DOTTED}:{_DOTTED}", 200)
SOURCE = Text(
    '"digits", "quick", "quick-fashion", "mnist", "fashion-mnist", "cifar10", "cifar100", '
    "or dotted.module:name of your own code",
    rf"digits|quick|quick-fashion|mnist|fashion-mnist|cifar10|cifar100|{_DOTTED}:{_DOTTED}",
    200,
)
STUDENT = Text('a family such as "cnn", or dotted.module:name', rf"[a-z][a-z0-9-]*|{_DOTTED}:{_DOTTED}", 200)
LOSS = Text('"cross-entropy", "mse", or dotted.module:name', rf"cross-entropy|mse|{_DOTTED}:{_DOTTED}", 200)
OPTIMIZER = Text('"sgd", "adam", "adamw", or dotted.module:name', rf"sgd|adam|adamw|{_DOTTED}:{_DOTTED}", 200)
SCHEDULE = Text(
    '"constant", "step", "cosine", or dotted.module:name', rf"constant|step|cosine|{_DOTTED}:{_DOTTED}", 200
)
DEVICE = Text('"cpu", "cuda", "cuda:0" or "mps"', r"cpu|mps|cuda(?::[0-9]{1,3})?", 8)
LAYER = Text("the name of a layer or module, * for any characters", r"[A-Za-z0-9_.*?]+", 300)
FILE = Text("a path of at most 1000 characters", r"[^\x00-\x1f\x7f]+", 1000)

SLICE_SHARE = 0.5
"""Of the batches of a version with nested ones inside it: so many train one of these."""

Name = Annotated[str, NAME]
Classes = Annotated[list[Annotated[int, Number(0, 1e6, whole=True)]], Field(min_length=1, max_length=10_000)]


class DistillTable(Table):
    """How a student learns from the version before it; the defaults are a short handover, not a full training."""

    temperature: Annotated[float, Number(0.0, 1e3, above=True)] = 2.0
    alpha: Annotated[float, Number(0.0, 1.0)] = 0.7
    epochs: Annotated[int, Number(1, 10_000, whole=True)] = 1
    lr: Annotated[float, Number(0.0, 1e3, above=True)] = 1e-2


class TrainingTable(Table):
    """How epochs are trained. Defaults as PACT section II: cross-entropy, batches of 64, SGD 1e-3, momentum 0.9.

    `clock` left out: "emulated" once a node has a device profile, else "measured". `quorum` is the share of a node
    set that must answer. `epoch_timeout` left out: learned from the epochs before, generous for the first one.
    `count_pauses`: on the measured clock, time between an interruption and `resume` counts against the deadline.
    `slice_share`: of the batches of a version that has nested versions inside it, the share that trains these.
    `keep` names layers (or modules with all layers in them, `*` allowed) that pruning leaves as they are.
    `when_infeasible`: go on as well as possible, or stop, once no plan can reach the target any more.
    `step`: your own (model, batch) -> loss; `evaluate`: (model, batch) -> sums over the batch by name, with "count".
    `optimizer` and `lr_schedule` may name functions of your own, of the model and of the optimizer. A step takes the
    mean of `accumulate` batches. `prox_mu` is FedProx's. `strategy` is what the server does with the nodes' average:
    takes it, or a step of momentum (fedavgm) or Adam (fedadam) towards it.
    """

    loss: Annotated[str, LOSS] = "cross-entropy"
    step: Annotated[str | None, REFERENCE] = None
    evaluate: Annotated[str | None, REFERENCE] = None
    optimizer: Annotated[str, OPTIMIZER] = "sgd"
    lr: Annotated[float, Number(0.0, 1e3, above=True)] = 1e-3
    momentum: Annotated[float, Number(0.0, 0.9999)] = 0.9
    weight_decay: Annotated[float, Number(0.0, 1e3)] = 0.0
    lr_schedule: Annotated[str, SCHEDULE] = "constant"
    lr_epochs: Annotated[int, Number(1, 1e6, whole=True)] = 30
    lr_factor: Annotated[float, Number(0.0, 1.0)] = 0.1
    lr_every: Literal["epoch", "step"] = "epoch"
    warmup_epochs: Annotated[float, Number(0.0, 1e6)] = 0.0
    batch: Annotated[int, Number(2, 1e6, whole=True)] = 64
    accumulate: Annotated[int, Number(1, 1e6, whole=True)] = 1
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    clip_norm: Annotated[float | None, Number(0.0, 1e6, above=True)] = None
    clip_value: Annotated[float | None, Number(0.0, 1e6, above=True)] = None
    prox_mu: Annotated[float, Number(0.0, 1e6)] = 0.0
    strategy: Literal["fedavg", "fedavgm", "fedadam"] = "fedavg"
    server_lr: Annotated[float | None, Number(0.0, 1e3, above=True)] = None
    server_momentum: Annotated[float, Number(0.0, 0.9999)] = 0.9
    server_beta2: Annotated[float, Number(0.0, 0.999999)] = 0.99
    server_tau: Annotated[float, Number(0.0, 1.0, above=True)] = 1e-3
    local_epochs: Annotated[int, Number(1, 1000, whole=True)] = 1
    optimizer_state: Literal["average", "reset"] = "average"
    start: Annotated[str | None, FILE] = None
    device: Annotated[str, DEVICE] = "cpu"
    devices: dict[Name, Annotated[str, DEVICE]] = {}
    clock: Literal["emulated", "measured"] | None = None
    seed: Annotated[int, Number(0, 2**32 - 1, whole=True)] = 0
    threads: Annotated[int, Number(1, 1024, whole=True)] = 1
    quorum: Annotated[float, Number(0.0, 1.0)] = 1.0
    epoch_timeout: Annotated[float | None, Number(0.0, above=True, quantity=DURATION)] = None
    importance: Literal["l1", "l2"] = "l1"
    slice_share: Annotated[float, Number(0.0, 0.9)] = SLICE_SHARE
    keep: Annotated[list[Annotated[str, LAYER]], Field(max_length=1000)] = []
    charge_lost_work: bool = False
    count_pauses: bool = True
    when_infeasible: Literal["continue", "stop"] = "continue"
    transport: Literal["in-process", "processes", "flower"] = "in-process"
    workers: Annotated[int, Number(1, 256, whole=True)] = 2
    distill: DistillTable = DistillTable.model_construct()


class DataTable(Table):
    """Where the images come from and which node holds which.

    `partition` left out: "parts" where the source is divided already, "sizes" where every node says its `samples`,
    else "iid". With "parts", `nodes` says which part a node takes from; nodes of one part share it by their `samples`.
    "datasets": the data sets of `[[datasets]]`, each divided equally among the nodes of every node set.
    A function of your own is called with "train" and with "test" and returns (images, labels), or a Dataset, a
    DataLoader or an iterable of batches; with "parts" it is called without arguments and returns the parts by name,
    "validation" and "test" among them; with "by-node" it is called with each node's name, "validation" and "test".
    """

    source: Annotated[str, SOURCE]
    folder: Annotated[str | None, FILE] = None
    partition: Literal["sizes", "iid", "by-class", "dirichlet", "parts", "datasets", "by-node"] | None = None
    seed: Annotated[int, Number(0, 2**32 - 1, whole=True)] = 0
    alpha: Annotated[float, Number(0.0, 1e6, above=True)] = 0.5
    classes: dict[Name, Classes] = {}
    nodes: dict[Name, Name] = {}
    validation: Annotated[float, Number(0.0, 1.0, above=True)] = 0.1
    shrink: Annotated[int, Number(1, 64, whole=True)] = 1
    standardise: bool = False


class NetworkKeys(Table):
    """How a version comes about: a network of its own (`family` with `width`, or `factory`), pruned, a student, a rank.

    `ratio` is the share of parameters removed `of` another version (by default the first one with a network of its
    own); `ratio_in` asks for a share of the FLOPs of a training step or of the state's bytes instead. Removed are the
    least important channels (`way` "pruned"), or all but the leading ones ("nested"), which are trained together with
    the whole, so that a handover is a slice and the way back is open. `student` names a network reached by
    distillation. `grow` declares how to come back from a smaller version. `rank` beside `factory`:
    its network is frozen, and factors of that rank (times `alpha` / rank) are trained in the layers of `targets`, with
    what `train` names; `rank` alone: another rank of the same.
    """

    family: Annotated[str | None, Text("the name of a family", r"[a-z][a-z0-9-]*", 40)] = None
    width: Annotated[float | None, Number(0.0, 8.0, above=True)] = None
    factory: Annotated[str | None, REFERENCE] = None
    ratio: Annotated[float | None, Number(0.0, 0.999)] = None
    ratio_in: Literal["parameters", "flops", "bytes"] | None = None
    of: Annotated[str | None, NAME] = None
    way: Literal["pruned", "nested"] | None = None
    student: Annotated[str | None, STUDENT] = None
    grow: Literal["checkpoint", "distill"] | None = None
    rank: Annotated[int | None, Number(1, 8192, whole=True)] = None
    alpha: Annotated[float | None, Number(0.0, 1e6, above=True)] = None
    targets: Annotated[list[Annotated[str, LAYER]] | None, Field(min_length=1, max_length=1000)] = None
    train: Annotated[list[Annotated[str, LAYER]] | None, Field(max_length=1000)] = None

    @property
    def ways(self) -> list[str]:
        """The keys given that say what the version is; one at most makes sense."""
        keys = ("family", "factory", "ratio", "student", *(("rank",) if self.factory is None else ()))
        return [key for key in keys if getattr(self, key) is not None]

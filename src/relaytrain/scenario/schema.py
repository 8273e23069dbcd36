"""The scenario file as typed tables: every key with its bounds and its default, here or, of some tables, in a module of
theirs (`training_tables`, `prior_table`, `estimator_table`, `depl`).

Times are seconds, energies joules (or the scenario's own plain units), whatever way they were written. Numbers that may
be infinite take `inf` in TOML and `null` in JSON; a key that is left out is "not given", never infinite.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import Field

from ..core.planner_names import AnyRule, PlannerName
from .depl import DeplTable
from .estimator_table import EstimatorTable
from .fields import ANY_NAME, LABEL, METRIC, NAME, SIDE, UNIT, Number, Text
from .prior_table import PriorTable
from .strict_table import ChangeRule, CurveFigures, Table
from .training_tables import DataTable, NetworkKeys, TrainingTable
from .units import BYTES, DURATION, ENERGY, FLOPS, PER_BIT, POWER, RATE, SPEED

SCHEMA_VERSION = 1
MAX_PAIRS = 256
MAX_RULES = 4096
MAX_NODES = 10_000
MAX_EPOCHS = 100_000

Name = Annotated[str, NAME]
Positive = Annotated[float, Number(0.0, above=True)]
Loss = Annotated[float, Number(0.0, 1e6)]
Share = Annotated[float, Number(0.0, 10.0)]
Pair2 = Annotated[list[Positive], Field(min_length=2, max_length=2)]


class UnitsTable(Table):
    """How times and energies are written for people. Anything but "s" or "J" makes that axis plain numbers."""

    time: Annotated[str, UNIT] = "s"
    energy: Annotated[str, UNIT] = "J"


class TargetTable(Table):
    """What to reach (PACT: l_max, T_max; DepL: omega)."""

    loss: Loss
    deadline: Annotated[float, Number(0.0, above=True, inf=True, quantity=DURATION)] = math.inf
    probability: Annotated[float, Number(0.0, 1.0, above=True)] = 0.95
    metric: Annotated[str, METRIC] = "loss"
    on: Literal["validation", "train", "test"] = "validation"
    max_epochs: Annotated[int | None, Number(1, MAX_EPOCHS, whole=True)] = None


class StartTable(Table):
    """Where things stand before epoch 1: l(0) and the pair that holds the network (the first pair by default)."""

    loss: Loss = 1.0
    version: Annotated[str | None, NAME] = None
    nodes: Annotated[str | None, NAME] = None


Bytes = Annotated[
    list[Annotated[int, Number(0, 1e15, whole=True, quantity=BYTES)]], Field(min_length=1, max_length=512)
]


class ChainTable(Table):
    """A version as a chain of units that a pipeline may split, by unit, for a minibatch of `batch` samples.

    `relaytrain pipeline count` prints it. `weight_bytes` are of layers whose gradients follow from input and error
    (`factor_bytes` of both), `plain_bytes` of all others; `block_bytes` of the largest block of rows updated at once,
    `slice_bytes` of its output; `saved_bytes` are kept for the backward beside input and output.
    """

    batch: Annotated[int, Number(1, 1e9, whole=True)]
    input_bytes: Annotated[int, Number(1, whole=True, quantity=BYTES)]
    weight_bytes: Bytes
    plain_bytes: Bytes
    buffer_bytes: Bytes
    factor_bytes: Bytes
    forward_flops: Annotated[list[Annotated[int, Number(0, 1e18, whole=True)]], Field(min_length=1, max_length=512)]
    saved_bytes: Bytes
    output_bytes: Bytes
    block_bytes: Bytes
    slice_bytes: Bytes
    end_bytes: Annotated[int, Number(0, whole=True, quantity=BYTES)] = 0


class VersionTable(NetworkKeys):
    """One version of the network (PACT: m). FLOPs count forward and backward of one sample.

    Figures left out are measured when the scenario trains. What the version is, is said by one of `family` (with
    `width`), `factory`, `ratio` (with `of`), `student` or `rank`; a scenario that only plans needs none of them.
    `fixed_bytes` are of a frozen base (of an adapter): held once by every node, never trained or sent.
    """

    name: Name
    parameters: Annotated[int | None, Number(1, whole=True)] = None
    flops_per_sample: Annotated[float | None, Number(0.0, above=True, quantity=FLOPS)] = None
    weight_bytes: Annotated[int | None, Number(1, whole=True, quantity=BYTES)] = None
    activation_bytes_per_sample: Annotated[int | None, Number(0, whole=True, quantity=BYTES)] = None
    fixed_bytes: Annotated[int, Number(0, whole=True, quantity=BYTES)] = 0
    chain: ChainTable | None = None


class NodeTable(Table):
    """One device with its data; a link given here overrides the device profile's."""

    name: Name
    device: Annotated[str | None, NAME] = None
    samples: Annotated[int | None, Number(1, whole=True)] = None
    classes: Annotated[int | None, Number(1, whole=True)] = None
    bits_per_s: Annotated[float | None, Number(0.0, above=True, quantity=RATE)] = None
    j_per_bit: Annotated[float | None, Number(0.0, quantity=PER_BIT)] = None


class NodeSetTable(Table):
    """Nodes that train together (PACT: n): each holds the whole version, or a pipeline splits it over them.

    A pipeline (mcPipe) has its stages in the order of the nodes, `in_flight` minibatches under way (as many as nodes)
    and keeps weight versions as `keep` says. The first node's data train, or with `share_data` those of all nodes,
    pooled. `checkpoint` lets stages compute activations twice to save memory. Of the nodes of a federated set
    `sample_share` trains in an epoch, drawn anew for each; its costs are those expected of such draws.
    """

    name: Name
    nodes: Annotated[list[Name], Field(max_length=MAX_NODES)] = []
    mode: Literal["federated", "pipeline"] = "federated"
    in_flight: Annotated[int | None, Number(1, 1024, whole=True)] = None
    keep: Literal["best-of", "stash", "on-demand"] = "best-of"
    checkpoint: bool = False
    share_data: bool = False
    sample_share: Annotated[float, Number(1e-6, 1.0)] = 1.0


class DataSetTable(Table):
    """A data set that may be chosen (DepL: d)."""

    name: Name
    samples: Annotated[int | None, Number(1, whole=True)] = None


class DeviceTable(Table):
    """A device profile of the user's own; the shipped ones have the same fields."""

    flops_per_s: Annotated[float, Number(0.0, above=True, quantity=SPEED)]
    busy_w: Annotated[float, Number(0.0, above=True, quantity=POWER)]
    idle_w: Annotated[float, Number(0.0, quantity=POWER)] = 0.0
    memory_bytes: Annotated[float, Number(0.0, above=True, inf=True, quantity=BYTES)] = math.inf
    bits_per_s: Annotated[float, Number(0.0, above=True, quantity=RATE)] = 1e8
    j_per_bit: Annotated[float, Number(0.0, quantity=PER_BIT)] = 0.0
    source: Annotated[str, Text("a text of at most 2000 characters", longest=2000)] = "scenario"


class PairTable(Table):
    """A version on a node set (PACT: a = (m', n')). Seconds and energy of an epoch left out are modelled."""

    version: Name
    nodes: Name
    seconds: Annotated[float | None, Number(0.0, above=True, inf=True, quantity=DURATION)] = None
    energy: Annotated[float | None, Number(0.0, above=True, inf=True, quantity=ENERGY)] = None
    spread: Annotated[float | None, Number(0.0, 10.0)] = None
    reason: Annotated[str | None, LABEL] = None


class ChangeTable(ChangeRule):
    """Seconds and energy of changing pair (tau_change, eps_change). Later entries win, key by key."""

    seconds: Annotated[float | None, Number(0.0, inf=True, quantity=DURATION)] = None
    energy: Annotated[float | None, Number(0.0, inf=True, quantity=ENERGY)] = None
    reason: Annotated[str | None, LABEL] = None


class CostsTable(Table):
    """How far an epoch's seconds scatter (relative sd), and how costs that are not written out are modelled."""

    spread: Annotated[float, Number(0.0, 10.0)] = 0.0
    modelled_spread: Annotated[float, Number(0.0, 10.0)] = 0.05
    batch: Annotated[int, Number(1, 1e9, whole=True)] = 32
    weight_copies: Annotated[float, Number(1.0, 100.0)] = 3.0
    compress_seconds: Annotated[float, Number(0.0, quantity=DURATION)] = 0.25
    compress_energy: Annotated[float, Number(0.0, quantity=ENERGY)] = 5.0
    grow_back: bool = False


class CurveTable(CurveFigures):
    """A pair's curve floor + drop (1 + x/scale)^-power, x in epochs. Later entries win, key by key.

    `progress` scales an epoch's step along it (a list: by epoch, the last holds on); the robust twins give level 0.95.
    """

    progress: Annotated[float | list[float] | None, Number(0.0, 100.0, series=MAX_EPOCHS)] = None
    robust_floor: Annotated[float | None, Number(0.0, 1e6)] = None
    robust_drop: Annotated[float | None, Number(1e-6, 1e6)] = None
    robust_scale: Annotated[float | None, Number(1e-6, 1e9)] = None
    robust_power: Annotated[float | None, Number(0.1, 20.0)] = None
    robust_progress: Annotated[float | list[float] | None, Number(0.0, 100.0, series=MAX_EPOCHS)] = None


class StepsTable(Table):
    """A pair's loss change by epoch (PACT: lambda_run; a gain is negative); a single figure holds for every epoch."""

    version: Annotated[str, ANY_NAME] = "*"
    nodes: Annotated[str, ANY_NAME] = "*"
    change: Annotated[float | list[float], Number(-1e6, 1e6, series=MAX_EPOCHS)]
    robust_change: Annotated[float | list[float] | None, Number(-1e6, 1e6, series=MAX_EPOCHS)] = None


class JumpTable(ChangeRule):
    """The loss change of a handover, jump + jump_per_loss * l (PACT: lambda_change). Later entries win, key by key."""

    jump: Annotated[float | list[float] | None, Number(-1e6, 1e6, inf=True, series=MAX_EPOCHS)] = None
    jump_per_loss: Annotated[float | None, Number(-1.0, 1e3)] = None
    robust_jump: Annotated[float | list[float] | None, Number(-1e6, 1e6, inf=True, series=MAX_EPOCHS)] = None
    robust_jump_per_loss: Annotated[float | None, Number(-1.0, 1e3)] = None


class LawTable(Table):
    """The loss law: "level" (position on the pair's curve), "epoch" (tables by epoch, as PACT writes them), "depl".

    "depl" takes the gains of `[depl]` by epoch; it needs no curves, steps or jumps. So does "wide", as which a scenario
    without a law is read: nothing is known, and every plan is a guess until the run's own losses teach.

    `progress`, `robust_progress` (a factor on progress) and `robust_jump_factor` hold where no entry says otherwise.
    """

    kind: Literal["level", "epoch", "depl", "wide"]
    progress: Annotated[float, Number(0.0, 100.0)] = 1.0
    robust_progress: Annotated[float, Number(0.0, 100.0)] = 1.0
    robust_jump_factor: Annotated[float, Number(0.0, 100.0)] = 1.0
    curves: Annotated[list[CurveTable], Field(max_length=MAX_RULES)] = []
    steps: Annotated[list[StepsTable], Field(max_length=MAX_RULES)] = []
    jumps: Annotated[list[JumpTable], Field(max_length=MAX_RULES)] = []


class GridTable(Table):
    """PACT's rounding: gamma_l, gamma_T and the top of the loss axis."""

    loss_step: Annotated[float, Number(1e-9, 1e6)]
    time_step: Annotated[float, Number(1e-9, quantity=DURATION)]
    loss_top: Annotated[float | None, Number(0.0, 1e7, above=True)] = None


class PlannerTable(Table):
    """Who plans, by which rule, and whether on the paper's grid.

    `atlas`: the file that `relaytrain atlas` wrote, from the scenario's folder; `fixed` chooses its schedule from it.
    """

    name: PlannerName = "pact"
    rule: AnyRule | None = None
    seed: Annotated[int, Number(0, 2**32 - 1, whole=True)] = 0
    grid: GridTable | None = None
    atlas: Annotated[str | None, Text("a path of at most 1000 characters", longest=1000)] = None


class JumpRangeTable(Table):
    """The drawn jump of a change: uniform between two figures, plus jump_per_loss * l."""

    from_: Annotated[str, SIDE] = Field("*", alias="from")
    to: Annotated[str, SIDE] = "*"
    jump: Annotated[list[Annotated[float, Number(-1e6, 1e6)]], Field(min_length=2, max_length=2)]
    jump_per_loss: Annotated[float, Number(-1.0, 1e3)] = 0.0


class RandomTable(Table):
    """How random worlds are drawn around the scenario: factors on the curves, jumps, target, changes, deadline."""

    floor: Pair2 | None = None
    scale: Pair2 | None = None
    power: Pair2 | None = None
    curve_top: Annotated[float | None, Number(0.0, 1e6, above=True)] = None
    jumps: Annotated[list[JumpRangeTable], Field(max_length=MAX_RULES)] = []
    back_jump: Annotated[float, Number(-1e6, 1e6)] = 0.0
    target_loss: Pair2 | None = None
    change_cost: Annotated[list[Positive], Field(max_length=100)] = []
    reversible: Annotated[list[bool], Field(max_length=2)] = []
    deadlines: Annotated[list[Literal["slack", "tight"]], Field(min_length=1, max_length=2)] = ["slack"]
    slack_factor: Positive = 1.6
    slack_extra: Annotated[float, Number(0.0, quantity=DURATION)] = 5.0
    tight_factor: Positive = 1.1
    tight_share: Pair2 = [0.15, 0.8]


class WorldTable(Table):
    """Noise of the simulated world and errors of its estimator (relative standard deviations)."""

    progress_noise: Share = 0.15
    loss_noise: Annotated[float, Number(0.0, 1e6)] = 0.0
    compute_spread: Share = 0.0
    transfer_spread: Share = 0.0
    bias: Share = 0.12
    bias_range: Pair2 = [0.5, 1.4]
    jump_bias: Share = 0.2
    robust_shading: Annotated[list[Annotated[float, Number(0.0, 1.0)]], Field(min_length=2, max_length=2)] | None = None
    robust_jump_factor: Annotated[float | None, Number(0.0, 100.0)] = None
    random: RandomTable | None = None


class ScenarioFile(Table):
    """A RelayTrain scenario: versions, nodes, what they cost, how the loss falls, and the target."""

    schema_: Annotated[int, Number(1, SCHEMA_VERSION, whole=True)] = Field(SCHEMA_VERSION, alias="schema")
    name: Annotated[str | None, NAME] = None
    description: Annotated[str, Text("a text of at most 2000 characters", longest=2000)] = ""
    units: UnitsTable = UnitsTable.model_construct()
    target: TargetTable
    start: StartTable = StartTable.model_construct()
    versions: Annotated[list[VersionTable], Field(min_length=1, max_length=64)]
    nodes: Annotated[list[NodeTable], Field(max_length=MAX_NODES)] = []
    node_sets: Annotated[list[NodeSetTable], Field(min_length=1, max_length=MAX_PAIRS)]
    datasets: Annotated[list[DataSetTable], Field(max_length=1000)] = []
    devices: dict[Name, DeviceTable] = {}
    pairs: Annotated[list[PairTable], Field(max_length=MAX_PAIRS)] = []
    changes: Annotated[list[ChangeTable], Field(max_length=MAX_RULES)] = []
    costs: CostsTable = CostsTable.model_construct()
    law: LawTable = LawTable.model_construct(kind="wide")
    planner: PlannerTable = PlannerTable.model_construct()
    world: WorldTable = WorldTable.model_construct()
    training: TrainingTable | None = None
    data: DataTable | None = None
    prior: PriorTable | None = None
    estimator: EstimatorTable | None = None
    depl: DeplTable | None = None


def json_schema() -> dict[str, Any]:
    """The scenario file as JSON Schema, for editors (`relaytrain schema`)."""
    schema = _tidied(ScenarioFile.model_json_schema(by_alias=True))
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "RelayTrain scenario"}


def _tidied(schema: Any) -> Any:
    """Without defaults that JSON cannot say (infinity) or would say wrongly (null is infinity, not "not given")."""
    if isinstance(schema, list):
        return [_tidied(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _tidied(value) for key, value in schema.items()}
    if "default" in kept and kept["default"] in (None, math.inf):
        del kept["default"]
    if isinstance(kept.get("title"), str):
        del kept["title"]
    return kept

"""`[prior]`: what is known of the curves and handovers before a run; read by the `prior` estimator."""

from typing import Annotated

from pydantic import Field

from .fields import Number, Text
from .strict_table import ChangeRule, CurveFigures, Table

MAX_ENTRIES = 4096
MAX_ENTERED, MOST_EXPERIENCE = 64, 2000.0
MAX_EARLY = 256


class PriorCurveTable(CurveFigures):
    """A pair's curve floor + drop (1 + x/scale)^-power, x in epochs. Later entries win, key by key.

    `spread`: standard deviation, between runs, of the logarithm of the pair's pace; `floor_spread`: of its floor;
    `noise`: relative scatter of the pair's own losses, where it differs from that of all; along a leg it falls to
    `late_noise`, over `noise_fall` epochs, or is what `scatter` lists by epoch of a leg, the last one holding on.
    `early`: by what all legs deviate from the curve in their first epochs (logarithms). `begins`: where the curve of a
    network that has learned nothing begins, over its loss. `epoch_worth`: what an epoch adds to a network's experience;
    `entered_floor`, `entered_pace`: what is added to the floor, and the pace multiplied by, for a leg that begins with
    the experience of each entry of `entered`.
    """

    spread: Annotated[float | None, Number(0.0, 3.0)] = None
    floor_spread: Annotated[float | None, Number(0.0, 1e6)] = None
    noise: Annotated[float | None, Number(1e-4, 3.0)] = None
    late_noise: Annotated[float | None, Number(1e-4, 3.0)] = None
    noise_fall: Annotated[float | None, Number(0.1, 1e4)] = None
    scatter: Annotated[list[Annotated[float, Number(1e-4, 3.0)]], Field(max_length=MAX_EARLY)] = []
    early: Annotated[list[Annotated[float, Number(-3.0, 3.0)]], Field(max_length=MAX_EARLY)] = []
    begins: Annotated[float | None, Number(0.01, 100.0)] = None
    epoch_worth: Annotated[float | None, Number(0.0, 1e6)] = None
    entered_floor: Annotated[list[Annotated[float, Number(-1e6, 1e6)]], Field(max_length=MAX_ENTERED)] = []
    entered_pace: Annotated[list[Annotated[float, Number(1e-6, 1e6)]], Field(max_length=MAX_ENTERED)] = []


class PriorHandoverTable(ChangeRule):
    """The loss change of a handover: mean + mean_per_loss * l, with standard deviation `spread`. Later entries win."""

    mean: Annotated[float | None, Number(-1e6, 1e6)] = None
    mean_per_loss: Annotated[float | None, Number(-1.0, 1e3)] = None
    spread: Annotated[float | None, Number(0.0, 1e6)] = None


class PriorTable(Table):
    """What is known before a run; where it says nothing, `[law]` and its robust figures hold.

    `noise`: relative scatter of a loss round its curve; `correlation`: of neighbouring epochs' scatter; `common`: the
    share of a pair's deviation in pace that all pairs of a run have in common, `floor_common` that in floors.
    `recovers`: what a handover does to the loss is undone by the first epoch, and its figures say whence the curve goes
    on, not what the forward pass after the switch shows. `entered`: experience (in epochs of the start pair, unless
    `epoch_worth` says otherwise), rising, at which curves say how a leg that begins with it differs. `seeds`: how many
    seeds of training the figures were fitted to; plans over worlds then state at most seeds / (seeds + 1). `source`
    says where the figures come from.
    """

    source: Annotated[str, Text("a text of at most 2000 characters", longest=2000)] = ""
    noise: Annotated[float, Number(1e-4, 3.0)] = 0.05
    correlation: Annotated[float, Number(0.0, 0.99)] = 0.6
    common: Annotated[float, Number(0.0, 0.99)] = 0.5
    floor_common: Annotated[float, Number(0.0, 0.99)] = 0.0
    recovers: bool = False
    seeds: Annotated[int | None, Number(1, 1e6, whole=True)] = None
    entered: Annotated[list[Annotated[float, Number(0.0, MOST_EXPERIENCE)]], Field(max_length=MAX_ENTERED)] = []
    curves: Annotated[list[PriorCurveTable], Field(max_length=MAX_ENTRIES)] = []
    handovers: Annotated[list[PriorHandoverTable], Field(max_length=MAX_ENTRIES)] = []

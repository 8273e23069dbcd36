"""`[depl]`: every number of DepL's system model, written out; infinity where a table allows it."""

import math
from typing import Annotated, Literal

from pydantic import Field

from .fields import ANY_NAME, NAME, Number, Text
from .strict_table import Table

MAX_ENTRIES = 4096


class DeplVersionTable(Table):
    """A version: c(m) for a unit of data, s(m), and (8): epoch k lowers the loss by gain / (k + offset)^power * x.

    A list of gains is by epoch and takes the place of gain / (k + offset)^power; a list of work is c(k, m), by epoch,
    too. Their last figures hold on.
    x has the distribution `noise` with `mean` and `variance`; "empirical" takes `values` seen instead.
    """

    version: Annotated[str, NAME]
    work: Annotated[float | list[float], Number(0.0, above=True, series=MAX_ENTRIES)]
    size: Annotated[float, Number(0.0)] = 0.0
    gain: Annotated[float | list[float], Number(0.0, 1e6, above=True, series=MAX_ENTRIES)]
    offset: Annotated[float, Number(-0.999, 1e6)] = 0.0
    power: Annotated[float, Number(0.0, 20.0)] = 0.5
    noise: Literal["inverse-gamma", "log-normal", "normal", "empirical"] = "inverse-gamma"
    mean: Annotated[float, Number(0.0, 1e6, above=True)] = 1.0
    variance: Annotated[float, Number(0.0, 1e6)] = 0.0
    values: Annotated[list[Annotated[float, Number(-1e6, 1e6)]], Field(max_length=10_000)] = []


class DeplSwitchTable(Table):
    """The loss change of a switch of version: location + scale * Student's t; an infinite location forbids it.

    Lists are by epoch, the last figure holds on: l_sw(k, d, .). An entry with `data` speaks of the case that just these
    data sets are chosen. Later entries win. Where none speaks of a switch it changes nothing.
    """

    from_: Annotated[str, ANY_NAME] = Field("*", alias="from")
    to: Annotated[str, ANY_NAME] = "*"
    data: Annotated[list[Annotated[str, NAME]], Field(max_length=64)] = []
    location: Annotated[float | list[float], Number(-1e6, 1e6, inf=True, series=MAX_ENTRIES)] = 0.0
    scale: Annotated[float | list[float], Number(0.0, 1e6, series=MAX_ENTRIES)] = 0.0
    nu: Annotated[float, Number(2.0, 1e6, above=True)] = 5.0


class DeplClusterTable(Table):
    """A node set, the paper's cluster: r(n), b(n), kappa(n).

    `link_power` and `waiting` count for the objective "usage": watts while a version is sent, and the share of the held
    resources' draw that goes on meanwhile.
    """

    nodes: Annotated[str, NAME]
    capability: Annotated[float, Number(0.0, above=True)]
    bandwidth: Annotated[float, Number(0.0, above=True, inf=True)] = math.inf
    price: Annotated[float, Number(0.0)]
    link_power: Annotated[float, Number(0.0)] = 0.0
    waiting: Annotated[float, Number(0.0, 1.0)] = 1.0


class DeplDataTable(Table):
    """How much data a data set of `[[datasets]]` holds: q(d)."""

    dataset: Annotated[str, NAME]
    volume: Annotated[float, Number(0.0, above=True)] = 1.0


class DeplChargeTable(Table):
    """What bringing data to a node set costs: beta(d, n). Infinite: it cannot be brought. Later entries win."""

    dataset: Annotated[str, ANY_NAME] = "*"
    nodes: Annotated[str, ANY_NAME] = "*"
    charge: Annotated[float, Number(0.0, inf=True)]


class DependenceTable(Table):
    """How x of different epochs hang together; both 0 is the paper's independence. `source`: where that is known from.

    `correlation`: of neighbouring epochs, falling by the same factor with every further one (AR(1)). `common`: the
    share of x's variance that all epochs of a version have in common in a run.
    """

    correlation: Annotated[float, Number(0.0, 0.999)] = 0.0
    common: Annotated[float, Number(0.0, 1.0)] = 0.0
    source: Annotated[str, Text("a text of at most 2000 characters", longest=2000)] = ""


class DeplTable(Table):
    """DepL's system model. `objective`: "rate", kappa * x as in (2), or "usage", kappa * x * time in joules.

    An epoch achieves data_gain + data_gain_log * ln(1 + volume) times as much. `max_switches`: S, up to which all
    schedules are searched; `eta`: steps of the paper's grid (depl-merged, depl-literal). `reading`: k counts epochs, or
    is where a version's own expected curve passes the present loss. `within`: resources may cost 1 + within times their
    proven bound, for quicker plans (the paper's 1 + epsilon). `free_start`: the first version costs no switch, whatever
    holds the network. `bands`: x is distributed as `given`, or only its mean and variance are trusted and a run's own
    epochs widen it ("conformal"). `charged`: charges for data are paid "once", when it first comes to a node set, or in
    "every-epoch" that the node set trains, as (2) prints.
    """

    objective: Literal["rate", "usage"] = "rate"
    eta: Annotated[int, Number(2, 100_000, whole=True)] = 200
    reading: Literal["epoch", "level"] = "epoch"
    bands: Literal["given", "conformal"] = "given"
    max_switches: Annotated[int, Number(0, 8, whole=True)] = 3
    within: Annotated[float, Number(0.0, 10.0)] = 0.0
    free_start: bool = True
    data_gain: Annotated[float, Number(-1e6, 1e6)] = 1.0
    data_gain_log: Annotated[float, Number(0.0, 1e6)] = 0.0
    versions: Annotated[list[DeplVersionTable], Field(min_length=1, max_length=64)]
    switches: Annotated[list[DeplSwitchTable], Field(max_length=MAX_ENTRIES)] = []
    clusters: Annotated[list[DeplClusterTable], Field(min_length=1, max_length=64)]
    datasets: Annotated[list[DeplDataTable], Field(max_length=64)] = []
    charged: Literal["once", "every-epoch"] = "once"
    charges: Annotated[list[DeplChargeTable], Field(max_length=MAX_ENTRIES)] = []
    dependence: DependenceTable = DependenceTable.model_construct()

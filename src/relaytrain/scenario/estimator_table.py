"""`[estimator]`: who predicts losses while a run goes on."""

from typing import Annotated, Literal

from .fields import Number, Text
from .strict_table import Table


class TheoremTable(Table):
    """Constants of FedAvg's Theorem 1: L, mu, sum p_k^2 sigma_k^2, G^2, Gamma, ||w_1 - w*||^2, E, F*."""

    smoothness: Annotated[float, Number(0.0, above=True)]
    convexity: Annotated[float, Number(0.0, above=True)]
    noise: Annotated[float, Number(0.0)] = 0.0
    gradient: Annotated[float, Number(0.0)] = 0.0
    heterogeneity: Annotated[float, Number(0.0)] = 0.0
    distance: Annotated[float, Number(0.0)] = 0.0
    local_steps: Annotated[int, Number(1, 1e6, whole=True)] = 1
    optimum: Annotated[float, Number(0.0)] = 0.0


class EstimatorTable(Table):
    """Who predicts losses: the scenario's prior, the shipped zero-trace network, or what was fitted to traces.

    `fitted`: the file that `relaytrain fit` wrote, from the scenario's folder; `auto` and `paper` need it. `bounds`:
    how theory corrects robust figures: its shape calibrated on traces, its level as printed (needs `theorem`), or off.
    """

    name: Literal["prior", "auto", "paper", "zero-trace"] = "prior"
    bounds: Literal["shape", "level", "off"] = "shape"
    theorem: TheoremTable | None = None
    fitted: Annotated[str | None, Text("a path of at most 1000 characters", longest=1000)] = None

"""`[estimator]`: who predicts losses while a run goes on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict

from .fields import Text


class EstimatorTable(BaseModel):
    """Who predicts losses: the scenario's prior, the shipped zero-trace network, or what was fitted to traces.

    `fitted`: the file that `relaytrain fit` wrote, from the scenario's folder; `auto` and `paper` need it.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Literal["prior", "auto", "paper", "zero-trace"] = "prior"
    fitted: Annotated[str | None, Text("a path of at most 1000 characters", longest=1000)] = None

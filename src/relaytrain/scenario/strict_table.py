"""What every table of a scenario is: unknown keys are refused, values never coerced; and what several begin with."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .fields import ANY_NAME, SIDE, Number


class Table(BaseModel):
    """A table of a scenario."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class ChangeRule(Table):
    """Which changes of pair an entry is about."""

    from_: Annotated[str, SIDE] = Field("*", alias="from")
    to: Annotated[str, SIDE] = "*"
    kind: Literal["any", "version", "nodes", "both", "nested"] = "any"


class CurveFigures(Table):
    """Which pairs an entry is about, and their curve floor + drop (1 + x/scale)^-power."""

    version: Annotated[str, ANY_NAME] = "*"
    nodes: Annotated[str, ANY_NAME] = "*"
    floor: Annotated[float | None, Number(0.0, 1e6)] = None
    drop: Annotated[float | None, Number(1e-6, 1e6)] = None
    scale: Annotated[float | None, Number(1e-6, 1e9)] = None
    power: Annotated[float | None, Number(0.1, 20.0)] = None

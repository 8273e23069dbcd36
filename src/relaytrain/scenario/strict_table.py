"""What every table of a scenario is: unknown keys are refused, values never coerced."""

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table of a scenario."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

"""The base of a scenario's tables."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Table(BaseModel):
    """A table of a scenario: unknown keys are refused, values never coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

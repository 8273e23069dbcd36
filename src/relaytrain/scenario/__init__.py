"""A file becomes a problem: TOML or JSON, a preset or a mapping -> `Scenario`."""

from .load import load_scenario
from .model import PlannerSettings, Scenario
from .overrides import apply_overrides
from .read import preset_names
from .schema import json_schema

__all__ = [
    "PlannerSettings",
    "Scenario",
    "apply_overrides",
    "json_schema",
    "load_scenario",
    "preset_names",
]

"""A file becomes a problem: TOML or JSON, a preset or a mapping -> `Scenario`."""

from .load import Source, load_scenario, scenario_from
from .model import PlannerSettings, Scenario
from .overrides import apply_overrides
from .read import preset_names
from .resolve import Resolved, resolve
from .schema import json_schema
from .skeleton import new_scenario_text

__all__ = [
    "PlannerSettings",
    "Resolved",
    "Scenario",
    "Source",
    "apply_overrides",
    "json_schema",
    "load_scenario",
    "new_scenario_text",
    "preset_names",
    "resolve",
    "scenario_from",
]

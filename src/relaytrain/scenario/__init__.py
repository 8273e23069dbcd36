"""A file becomes a problem: TOML or JSON, a preset or a mapping -> `Scenario`.

The way of a file through `load`: `read` and `overrides` (text to mapping), `schema` with `strict_table`, `fields`,
`units` and the tables `training_tables`, `prior_table`, `estimator_table`, `depl` (every key, its bounds, its default),
`checks`, `training_checks` and `depl_checks` (what no single key can know), `build`, `laws`, `wide`, `nested` and
`depl_build` (what planners read), `model` (the `Scenario`). Faults: `faults`, with the line by `lines`. Code of the
user's own: `resolve` finds it, `own_code` lists it. A scenario to begin with: `skeleton`.
"""

from .load import Source, load_scenario, scenario_from
from .model import PlannerSettings, Scenario
from .overrides import apply_overrides
from .read import preset_names
from .resolve import resolve
from .schema import json_schema
from .skeleton import new_scenario_text

__all__ = [
    "PlannerSettings",
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

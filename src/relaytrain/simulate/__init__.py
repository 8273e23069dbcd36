"""Closed loops in worlds with true curves, noise, delays and biased estimators: all rules, the same luck.

Read `world` (what is true, the luck), `biased_estimator` (what is believed) and `world_draws` (both from a scenario);
`closed_loop` lets a rule live in a world and `clairvoyant` knows the luck; `simulation` does it for many worlds and
`simulation_table` says what they come to.
"""

from .closed_loop import run_rule
from .simulation import simulate
from .simulation_table import Row, SimulationResult
from .world import World
from .world_draws import draw_world

__all__ = ["Row", "SimulationResult", "World", "draw_world", "run_rule", "simulate"]

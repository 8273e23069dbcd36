"""DepL: datasets, versions, clusters and resources such that a loss quantile is reached in time at least cost."""

from .baselines import best_expected, greedy_expected
from .instance import Cluster, DataSource, Instance, Model, Objective, Target
from .joint import DeplPlan, plan
from .procedures import PROCEDURES, Options, plan_by

__all__ = [
    "PROCEDURES",
    "Cluster",
    "DataSource",
    "DeplPlan",
    "Instance",
    "Model",
    "Objective",
    "Options",
    "Target",
    "best_expected",
    "greedy_expected",
    "plan",
    "plan_by",
]

"""DepL: datasets, versions, clusters and resources such that a loss quantile is reached in time at least cost."""

from .baselines import best_expected, greedy_expected
from .instance import Cluster, DataSource, Instance, Model, Target
from .joint import DeplPlan, plan

__all__ = [
    "Cluster",
    "DataSource",
    "DeplPlan",
    "Instance",
    "Model",
    "Target",
    "best_expected",
    "greedy_expected",
    "plan",
]

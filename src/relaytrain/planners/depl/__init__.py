"""DepL: datasets, versions, clusters and resources such that a loss quantile is reached in time at least cost."""

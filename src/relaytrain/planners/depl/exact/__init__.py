"""DepL solved exactly: data, versions, node sets and resources, each with its bound."""

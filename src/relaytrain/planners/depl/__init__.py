"""DepL: datasets, versions, node sets and resources such that a loss quantile is reached in time at least cost.

Before both rooms: `schedule_losses` (distributions along a schedule; `cumulants`), `waterfill`, `allocation` and
`allocation_dual` (node sets and resources), `data_choice` (which data), `solution` (what is answered). `exact/`
searches all of it together, `paper/` does as the paper says and may lean on `exact/`, never the reverse. After both:
`procedures` (all of them by name), `quickest` and `nearest` (what is said when nothing will do), `composed` and
`planner` (the product's planner). The problem itself is `core.depl`. Nothing is imported here: a name does not need the
compiled searches.
"""

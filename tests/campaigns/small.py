"""A campaign of seconds: a narrow CNN on a few digits, with every kind of switch."""

from __future__ import annotations

from relaytrain.campaigns.campaign import Campaign, Growing
from relaytrain.campaigns.preset_campaigns import scenario_tables


def small_campaign() -> Campaign:
    sets = {"gold": (64, range(7)), "silver": (36, range(9)), "bronze": (20, range(10))}
    tables = scenario_tables(
        "small", ("cnn", 0.25, 0.125), (0.5, 0.75), sets, {"source": "digits"}, {"lr": 0.05, "batch": 8}
    )
    tree = Growing()
    gold = tree.root("full", "gold", 4)
    for k1 in (2, 4):
        silver = tree.branch(gold, k1, "p50", "silver", 3)
        tree.branch(silver, 2, "p75", "bronze", 2)
        tree.branch(silver, 2, "p50", "bronze", 1)
        tree.branch(gold, k1, "p50", "gold", 1)
        tree.branch(gold, k1, "student", "silver", 2)
    meta = {"loss": "cross-entropy, nats", "preset": "small"}
    return Campaign("small", tables, tuple(tree.branches), meta)

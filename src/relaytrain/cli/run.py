"""`relaytrain run`: the relay trained for real."""

from __future__ import annotations

from typing import Annotated

import typer

from .compiled import compiled
from .on_flower import Certificates, LocalFlower, ProfileNodes, SuperLinkAddress, Where, on_flower, on_its_nodes
from .options import SCENARIO, Format, Logs, Output, Scenario, Sets, Without
from .output import note
from .plan import EstimatorName, FittedFile, PlannerName, RuleName
from .reading import Store, need_torch
from .signals import signals

SHORT = "Train the relay for real, planning again after every epoch."
HELP = """Train a scenario for real: plan, run an epoch, measure, plan again, until the target is met or missed.

Everything is kept in the store; Ctrl-C stops after the running epoch, and whatever ends the process, `relaytrain
resume` goes on bit for bit. With --log other tools read along, in processes of their own that cannot disturb the run;
what they miss, `relaytrain export RUN PLACE --as KIND` writes. Exit status: 0 target met, 4 given up as infeasible,
5 missed, 6 stopped, 7 nodes lost, 8 losses were no numbers, 9 store damaged, 10 no space.
"""
EXAMPLES = """\b
Examples:
  relaytrain run
  relaytrain run my.toml --seed 3 --transport processes
  relaytrain run my.toml --set target.deadline=5m --planner one-switch --format json
  relaytrain run my.toml --fitted fit.npz
  relaytrain run my.toml --transport flower --local-flower 3
  relaytrain run my.toml --log tensorboard=tb --log mlflow=mlruns --log wandb=.
"""

Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Of weights and shuffling (the scenario's).", show_default=False),
]
TransportName = Annotated[
    str | None,
    typer.Option(
        "--transport", metavar="NAME", help="in-process, processes (workers here), or flower.", show_default=False
    ),
]
Name = Annotated[str | None, typer.Option("--name", metavar="RUN", help="The run's name.", show_default=False)]


def run(
    scenario: Scenario = SCENARIO,
    planner: PlannerName = None,
    rule: RuleName = None,
    seed: Seed = None,
    transport: TransportName = None,
    local_flower: LocalFlower = None,
    superlink: SuperLinkAddress = None,
    certs: Certificates = None,
    profile_nodes: ProfileNodes = False,
    estimator: EstimatorName = None,
    fitted: FittedFile = None,
    name: Name = None,
    log: Logs = None,
    sets: Sets = None,
    without: Without = None,
    store: Store = None,
    output: Output = Format.text,
) -> int:
    """Load, train, judge."""
    need_torch("run")
    from .. import api
    from ..relay import runs
    from ..store import RunStore
    from .watching import Watcher, conclude

    changes = [*(sets or ()), *runs.as_overrides(planner, rule, seed, transport, estimator=estimator, fitted=fitted)]
    loaded = api.scenario(scenario, overrides=changes, without=without or ())
    where = Where(local_flower, superlink, certs)
    if where.is_outside(loaded):
        return on_flower(loaded, where)
    if profile_nodes:
        loaded = on_its_nodes(loaded)
    opened = RunStore.open(store)
    for words in loaded.warnings:
        note(f"warning: {words}")
    with compiled(all_imports=True), signals.stopping() as stop:
        with Watcher.watching() as told:
            ended = runs.run(loaded, store=opened, name=name, log=log or (), told=told, stop=stop)
        return conclude(ended, opened, output, told)

"""Is the stated probability true when epochs hang together? Dependence estimated from twenty runs, never given.

For each setting (independent epochs, AR(1), a factor common to a version's epochs) and each replicate: twenty runs of
the process are simulated along a pilot schedule, the dependence is estimated from their losses, the plan is made with
that belief, and fresh runs of the process follow it. Beside it stand the plan made with the true dependence and the
plan that ignores it. Marginal distributions are the scenario's.

    python benchmarks/guarantee.py [--target 13] [--omega 0.9 0.99] [--replicates 20] [--runs 4000]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from relaytrain.core.dependence import Dependence, NoiseBelief, NoisePast, estimate, sure, to_normal
from relaytrain.core.depl import DeplProblem
from relaytrain.planners.depl.exact.dependent_epochs import Paths, plan_dependent
from relaytrain.planners.depl.exact.joint import plan
from relaytrain.report.audit_rates import wilson
from relaytrain.scenario import load_scenario

SETTINGS = {"independent": Dependence(), "AR(1) 0.6": Dependence(0.6, 0.0), "common 0.5": Dependence(0.0, 0.5)}
PILOT = (0,) * 6 + (1,) * 17 + (2,) * 13
"""The runs that the dependence is estimated from: all three versions, in the order plans use them."""
RUNS = 20


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--target", type=float, default=13.0)
    asked.add_argument("--omega", type=float, nargs="+", default=[0.9, 0.99])
    asked.add_argument("--replicates", type=int, default=20)
    asked.add_argument("--runs", type=int, default=4000, help="simulated runs for each setting, over all replicates")
    given = asked.parse_args()
    settings = load_scenario("depl_alexnet", overrides=[f"target.loss={given.target}"]).depl
    assert settings is not None
    print(
        f"depl_alexnet, target {given.target:g}; {given.replicates} estimates from {RUNS} runs each, {given.runs} "
        "fresh runs a setting"
    )
    print(
        f"{'setting':<12} {'omega':>6} | {'estimated: success':>24} {'worst':>6} {'cost/true':>9} | "
        f"{'ignored: success':>17} {'cost/true':>9} | mean estimate"
    )
    for omega in given.omega:
        instance = replace(settings.instance, target=replace(settings.instance.target, probability=omega))
        for name, truth in SETTINGS.items():
            print(row(name, truth, instance, given.replicates, given.runs), flush=True)


def row(name: str, truth: Dependence, instance: DeplProblem, replicates: int, runs: int) -> str:
    began = time.process_time()
    omega, target = instance.target.probability, instance.target.loss
    ignored = plan(instance)
    known = ignored if truth == Dependence() else plan_dependent(instance, sure(truth))
    judge = Paths(instance, sure(truth), samples=20_000, seed=999)
    each = runs // replicates
    hits, costs, sure_of, found = 0, [], [], []
    for replicate in range(replicates):
        belief = believed(instance, truth, seed=1000 + replicate)
        made = plan_dependent(instance, belief, seed=2 * replicate)
        fresh = Paths(instance, sure(truth), samples=each, seed=5000 + replicate)
        hits += int((fresh.losses(made.datasets, made.versions)[-1] <= target).sum())
        costs.append(made.cost)
        sure_of.append(judge.probability(made.datasets, made.versions))
        found.append(belief.mean)
    share = hits / (each * replicates)
    low, high = wilson(hits, each * replicates)
    without = judge.probability(ignored.datasets, ignored.versions)
    rho, common = (np.mean([getattr(d, key) for d in found]) for key in ("correlation", "common"))
    ok = "ok  " if share >= omega - 0.01 and np.mean(costs) <= 1.05 * known.cost else "MISS"
    return (
        f"{name:<12} {omega:>6.2f} | {share:>8.2%} [{low:.2%}, {high:.2%}] {min(sure_of):>6.1%} "
        f"{np.mean(costs) / known.cost:>9.3f} "
        f"| {without:>17.2%} {ignored.cost / known.cost:>9.3f} | correlation {rho:.2f}, common {common:.2f}  {ok} "
        f"({time.process_time() - began:.0f} CPU s)"
    )


def believed(instance: DeplProblem, truth: Dependence, seed: int) -> NoiseBelief:
    """What twenty runs along the pilot schedule say of the dependence, from their losses alone."""
    versions = PILOT[: instance.max_epochs]
    paths = Paths(instance, sure(truth), samples=RUNS, seed=seed)
    return estimate(
        [latent(instance, versions, losses, paths, i) for i, losses in enumerate(paths.losses((0,), versions).T)]
    )


def latent(instance: DeplProblem, versions: tuple[int, ...], losses: np.ndarray, paths: Paths, run: int) -> NoisePast:
    """z of every epoch of one run. A run probes its loss after a handover, so the jump of a switch is known."""
    before, switches, epochs, z = instance.initial_loss, 0, [], []
    for i, m in enumerate(versions):
        if i and versions[i - 1] != m:
            before += float(paths.jump(versions[i - 1], m, switches)[run])
            switches += 1
        version = instance.versions[m]
        x = (before - losses[i]) / (instance.data_gain((0,)) * float(version.progress(i + 1)))
        epochs.append(i + 1)
        z.append(float(to_normal(version.noise, np.array(x))))
        before = losses[i]
    return NoisePast(tuple(epochs), versions, tuple(z))


if __name__ == "__main__":
    main()

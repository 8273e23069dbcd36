"""Compiled steps of a law against the numpy ones, their inverse, and the whole search uncompiled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from relaytrain.core.law import TABLE, EpochLaw, TableLaw, evaluate, tabulate
from relaytrain.planners.search.instance import contiguous
from relaytrain.planners.search.kernels import highest_before, highest_mid, next_loss
from relaytrain.planners.search.solve import Start, instance_of, solve
from relaytrain.testing.brute_force import plain_step
from relaytrain.testing.strategies import draw

TIGHT = 1e-12
EDGE = 1e-7  # how far beyond its inverse a step must land higher
SEEDS = range(40)
LOSSES = np.concatenate((np.linspace(0.0, 2.4, 49), [1e-9, 0.1 + 0.2]))


def forms(seed, kind):
    drawn = draw(np.random.default_rng([5, seed]), kind)
    law, pairs = drawn.law, len(drawn.problem.pairs)
    if kind == "level" and seed % 3 == 0:
        law = tabulate(law, "expected", pairs=pairs, top=4.0, cells=100)
    return law, contiguous(law.form("expected")), pairs


@pytest.mark.parametrize("kind", ["epoch", "level"])
def test_compiled_step_equals_numpy_and_plain_arithmetic(kind):
    for seed in SEEDS:
        law, form, pairs = forms(seed, kind)
        for epoch in (1, 3, 50):
            for before in range(pairs):
                for now in range(pairs):
                    vector = evaluate(form, epoch, LOSSES, before, now)
                    compiled = [next_loss(form, epoch, float(loss), before, now) for loss in LOSSES]
                    plain = [plain_step(law, epoch, float(loss), before, now) for loss in LOSSES]
                    np.testing.assert_allclose(compiled, vector, rtol=0, atol=TIGHT)
                    np.testing.assert_allclose(compiled, plain, rtol=0, atol=TIGHT)
                    assert not np.isnan(compiled).any()
                    finite = np.array(compiled)
                    assert (finite >= 0).all()


@pytest.mark.parametrize("kind", ["epoch", "level"])
def test_inverse_is_the_highest_loss_that_lands_low_enough(kind):
    checked = 0
    for seed in SEEDS:
        law, form, pairs = forms(seed, kind)
        if not law.monotone:
            continue
        for before in range(pairs):
            for now in range(pairs):
                for goal in (0.0, 0.05, 0.3, 0.7, 1.1):
                    mid = 0.0 if form.kind == TABLE else highest_mid(form, 1, goal, now)
                    top = highest_before(form, 1, goal, mid, before, now)
                    if top == -np.inf or top < 0:
                        assert next_loss(form, 1, EDGE, before, now) > goal
                        continue
                    if np.isfinite(top):
                        below = next_loss(form, 1, max(top - EDGE, 0.0), before, now)
                        assert below <= goal + TIGHT
                        assert next_loss(form, 1, top + 2 * EDGE, before, now) > goal
                    else:
                        assert next_loss(form, 1, 1e9, before, now) <= goal
                    checked += 1
    assert checked > 500


def test_numpy_twin_keeps_infinities():
    law = EpochLaw(np.array([[-0.1, -0.1]]), np.array([[[0.0, np.inf], [0.0, 0.0]]]))
    assert np.isinf(law.next_loss(1, np.array([1.0]), 0, 1)).all()
    table = TableLaw(np.array([[[[0.0, 1.0, np.inf]]]]), 1.0)
    for loss in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5):
        compiled = next_loss(contiguous(table.form()), 1, loss, 0, 0)
        assert compiled == float(table.next_loss(1, np.array([loss]), 0, 0)[0])


UNCOMPILED = """
import json, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent.parent))
from relaytrain.planners.search.solve import Start, instance_of, solve
from checked_cases import ESTIMATES, read_case
out = {}
for name in ("fig5_toy", "fig5_deadline", "rand_03_level_feas"):
    case = read_case(Path(sys.argv[1]) / f"{name}.json")
    for grid in (None, case.grid):
        loss = case.problem.initial_loss if grid is None else float(grid.loss_index(case.problem.initial_loss))
        instance = instance_of(case.problem, case.costs, case.laws["rob"], grid=grid)
        found = solve(instance, Start(0, case.problem.start, loss, 0.0))
        out[f"{name} {grid is None}"] = [found.feasible, found.energy_j, list(found.actions)]
import numba
assert numba.config.DISABLE_JIT == (sys.argv[2] == "plain")
print(json.dumps(out))
"""


@pytest.mark.slow
def test_search_without_compilation_gives_the_same():
    cases = Path(__file__).parent.parent / "conformance" / "cases" / "pact"

    def run(mode):
        env = {**os.environ, "NUMBA_DISABLE_JIT": "1" if mode == "plain" else "0"}
        done = subprocess.run(
            [sys.executable, "-c", UNCOMPILED, str(cases), mode], env=env, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    assert run("plain") == run("compiled")


def test_a_gain_below_the_slack_is_no_progress_for_ever():
    """A law that only inches forward must end the sweep, not fill the memory."""
    from relaytrain.core.cost import CostTable
    from relaytrain.core.problem import Pair, Problem, Target

    one = np.zeros((1, 1))
    costs = CostTable(np.ones(1), one, np.ones(1), one)
    law = EpochLaw(np.array([[-1e-13]]), np.zeros((1, 1, 1)))
    problem = Problem("inching", (Pair("a", "x"),), 0, 1.0, Target(0.5, 1e6))
    assert not solve(instance_of(problem, costs, law), Start(0, 0, 1.0, 0.0)).feasible

"""What an infeasible plan names instead: feasible as printed and as in JSON, and nothing better by a digit is."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import relaytrain as rt
from relaytrain.core.explain import rounded_up, say_by
from relaytrain.core.law import EpochLaw
from relaytrain.planners.pact.planner import Optimum, Pact
from relaytrain.scenario.units import parse_duration
from relaytrain.testing.brute_force import brute_force, plain_step
from relaytrain.testing.strategies import draw

EPOCHS = 6


def with_doubt(law, rng):
    """`law` with a robust side."""
    if isinstance(law, EpochLaw):
        changed = law.change + np.where(law.change != 0, 0.02, 0.0)
        return replace(law, run_robust=law.run + rng.uniform(0, 0.06, law.run.shape), change_robust=changed)
    return replace(law, mult_robust=law.mult * rng.uniform(0.6, 0.95, law.mult.shape))


def typed(plan):
    """The targets that a plan's text names, read as a user would type them in; and the last digit of each loss."""
    words = re.search(r"nearest feasible: (.*)", plan.explain())
    for way in words[1].split(" or ") if words else ():
        loss, late = re.fullmatch(r"loss (\S+) by (.+)", way).groups()
        digit = 10.0 ** (math.floor(math.log10(max(float(loss), 1e-12))) - 3)
        yield float(loss), digit, math.inf if late == "no deadline" else parse_duration(late)


@pytest.mark.parametrize("kind", ["epoch", "level"])
def test_what_is_named_can_be_typed_back_in_and_nothing_better(kind):
    named = {"loss": 0, "deadline": 0}
    for seed in range(50):
        rng = np.random.default_rng([seed, kind == "epoch"])
        drawn = draw(rng, kind, epochs=EPOCHS)
        law = with_doubt(drawn.law, rng)
        if not law.monotone:
            continue

        def met(loss=None, late=None, drawn=drawn, law=law):
            asked = drawn.with_target(loss=loss, deadline_s=late).problem
            return Pact(explained=False).plan(asked, drawn.costs, law, drawn.state).met

        target = drawn.problem.target
        plan = Pact().plan(drawn.problem, drawn.costs, law, drawn.state)
        for near, (loss, digit, late) in zip(plan.nearest, typed(plan), strict=True):
            assert met(near.loss, near.deadline_s) and met(loss, late), (seed, near)
            if near.deadline_s == target.deadline_s:
                named["loss"] += 1
                assert not met(near.loss - 1e-8) and not met(loss - digit), (seed, near)
            else:
                named["deadline"] += 1
                assert near.loss == target.loss and not met(late=near.deadline_s - 1e-8), (seed, near)
        if not plan.met and not any(near.loss == target.loss for near in plan.nearest):
            assert math.isinf(target.deadline_s) or not met(late=8 * target.deadline_s + 8), seed
    assert min(named.values()) > 6, named


@pytest.mark.parametrize("kind", ["epoch", "level"])
def test_every_path_walked_finds_no_lower_loss_and_no_earlier_time(kind):
    for seed in range(40):
        drawn = draw(np.random.default_rng([seed, 7]), kind, epochs=EPOCHS, capped=True)
        plan = Optimum().plan(drawn.problem, drawn.costs, drawn.law, drawn.state)
        if plan.feasible or not drawn.law.monotone:
            continue
        least, first = walked(drawn)
        loss = [near.loss for near in plan.nearest if near.loss != drawn.problem.target.loss]
        late = [near.deadline_s for near in plan.nearest if near.loss == drawn.problem.target.loss]
        assert loss == ([pytest.approx(least, abs=1e-9)] if least < drawn.state.loss - 1e-9 else []), seed
        assert late == ([pytest.approx(first, abs=1e-9)] if math.isfinite(first) else []), seed
        for near in plan.nearest:
            asked = drawn.with_target(loss=near.loss, deadline_s=near.deadline_s)
            assert brute_force(asked.problem, asked.costs, asked.law, asked.state, most_epochs=EPOCHS).feasible


def walked(drawn):
    """The least loss of all paths in time, and the least time of all paths to the target."""
    costs, target = drawn.costs, drawn.problem.target
    least, first = math.inf, math.inf
    ways = [(drawn.state.epoch, drawn.state.pair, drawn.state.loss, drawn.state.elapsed_s)]
    while ways:
        epoch, pair, loss, late = ways.pop()
        least = min(least, loss) if late <= target.deadline_s + 1e-9 else least
        if loss <= target.loss + 1e-9:
            first = min(first, late)
            continue
        for now in range(len(drawn.problem.pairs)) if epoch < drawn.problem.max_epochs else ():
            if math.isfinite(costs.epoch_s[pair, now] + costs.epoch_j[pair, now]):
                landed = plain_step(drawn.law, epoch + 1, loss, pair, now)
                if math.isfinite(landed):
                    ways.append((epoch + 1, now, landed, late + float(costs.epoch_s[pair, now])))
    return least, first


def test_the_probability_that_can_be_had_is_the_highest_in_thousandths():
    seen = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 3])
        drawn = draw(rng, "level" if seed % 2 else "epoch", epochs=EPOCHS)
        law = with_doubt(drawn.law, rng)
        plan = Pact().plan(drawn.problem, drawn.costs, law, drawn.state)
        if plan.met or not plan.feasible:
            continue
        seen += 1

        def met(share, drawn=drawn, law=law):
            target = replace(drawn.problem.target, probability=share)
            planner = Pact("robust", explained=False)
            return planner.plan(replace(drawn.problem, target=target), drawn.costs, law, drawn.state).met

        words = f"only {plan.attainable:.1%} can be had"
        assert words in plan.explain() and plan.rung <= plan.attainable < plan.asked, seed
        assert met(plan.attainable) and not met(plan.attainable + 0.001), seed
        assert plan.to_dict()["attainable"] == plan.attainable
    assert seen > 5


def test_a_rule_that_promises_less_does_not_say_that_no_more_can_be_had():
    plan = rt.plan("smart_factory", rule="expected")
    assert plan.feasible and not plan.met and plan.attainable == plan.asked and plan.nearest == ()
    assert "can be had, by pact" in plan.explain() and "only" not in plan.explain()


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.28134, 0.2814), (0.3, 0.3), (0.1 + 0.2, 0.3), (0.28130000000001, 0.2813), (12345.2, 12346.0), (0.0, 0.0)],
)
def test_figures_are_rounded_up(value, said):
    assert rounded_up(value) == said


@pytest.mark.parametrize("value", [0.01234567, 97.30001, 119.99999, 120.0001, 3599.2, 3600.0, 172799.5, 172800.5, 1e7])
def test_a_time_as_printed_is_read_back_no_earlier_and_hardly_later(value):
    back = parse_duration(say_by(value))
    assert value <= back <= value + max(60.0 * (value > 172799), 1.0 * (value > 119.9), 1e-3 * value)

"""When a run that nothing else ends is given up: its losses alone decide, and what is said of it holds of them.

Three stretches are compared by their median losses: the last half of the epochs, the quarter before it, the eighth
before that. Of a loss that falls as a power of the epochs towards a floor, each doubling of the epochs gains the same
share of what the doubling before gained, so the two gains tell what further doublings are worth. A loss that falls as
fast as before, or faster, as after a plateau, is taken to go on at a steady pace. Where even twice what is to be
expected does not lead from the best loss to the target, the run is given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

PATIENCE, PATIENCE_OF_A_GUESS = 20, 50
"""Epochs that the last half of a run has at least before it is given up: what was planned by curves, by a guess."""
DOUBLINGS, MARGIN, STEADY = 6, 2.0, 2.0
"""Doublings of the epochs looked ahead, how much more than expected they may gain, and a steady pace: a doubling takes
twice the epochs of the one before it, so it gains twice as much."""
HARDLY = 0.05
"""Of the way from the loss before training to the target: what a run that hardly moved has come, at most."""


def out_of_reach(losses: Sequence[float], target: float, patience: int = PATIENCE) -> bool:
    """Whether the losses after each epoch are not on their way to `target`."""
    count = len(losses)
    if count < 2 * patience:
        return False
    first, second, third = (median(losses[count // (2 * part) : count // part]) for part in (4, 2, 1))
    before, last = first - second, second - third
    if last <= 0.0:
        return True
    share = STEADY if last >= STEADY * before else last / before
    ahead = last * sum(share**doubling for doubling in range(1, DOUBLINGS + 1))
    return MARGIN * ahead < min(losses) - target


def say_given_up(losses: Sequence[float], target: float) -> str:
    """That a run was given up, what it gained, and what lets it go on."""
    last = len(losses) - len(losses) // 2
    before, best = min(losses[:-last]), min(losses)
    gained = f"lowered the best loss by {before - best:.3g} to" if best < before else "did not lower the best loss,"
    return (
        f"given up after {len(losses)} epochs, {best - target:.3g} above the target: the last {last} {gained} "
        f"{best:.4g}, and no plan is known that gains enough. A target.deadline or target.max_epochs lets it "
        "go on till then; another training.lr may do better"
    )


def say_hardly_moved(initial: float, losses: Sequence[float], target: float) -> str | None:
    """Advice for a run that did not get away from the loss that it began with; None for any other."""
    best = min(losses, default=initial)
    if not losses or initial - best >= HARDLY * (initial - target):
        return None
    if best >= initial:
        return f"the loss never fell below {initial:.4g}, where it was before training: try another training.lr"
    return (
        f"the loss has hardly moved, from {initial:.4g} before training to {best:.4g}: try another training.lr, "
        "a larger one if it fell steadily"
    )

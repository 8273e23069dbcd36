"""A plain Pareto search in a dozen lines of Python, for problems too large to be walked in full.

No bounds, no tables, no compiled code: labels leave a heap in order of energy; one is dropped when an earlier one of
its pair has no higher loss and no later time. Exact for monotone laws without an epoch index and without an epoch cap.
"""

import heapq
import itertools
import math

from relaytrain.testing.brute_force import plain_step

SLACK = 1e-9


def least_energy(drawn):
    problem, law = drawn.problem, drawn.law
    seconds, joules = drawn.costs.epoch_s.tolist(), drawn.costs.epoch_j.tolist()
    pairs = range(len(problem.pairs))
    goal, deadline = problem.target.loss + SLACK, problem.target.deadline_s + SLACK
    kept = [[] for _ in pairs]
    order = itertools.count()
    heap = [(0.0, next(order), problem.initial_loss, 0.0, problem.start)]
    while heap:
        energy, _, loss, time, before = heapq.heappop(heap)
        if loss <= goal:
            return energy
        if any(low <= loss and early <= time for low, early in kept[before]):
            continue
        kept[before] = [(low, early) for low, early in kept[before] if low < loss or early < time]
        kept[before].append((loss, time))
        for now in pairs:
            late, spent = time + seconds[before][now], energy + joules[before][now]
            if late <= deadline and math.isfinite(spent):
                landed = plain_step(law, 1, loss, before, now)
                if math.isfinite(landed):
                    heapq.heappush(heap, (spent, next(order), landed, late, now))
    return math.inf

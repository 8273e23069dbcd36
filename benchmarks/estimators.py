"""What learned estimators cost, and whether their bands hold in a closed loop: python benchmarks/estimators.py
[CAMPAIGN].

Prints CPU-seconds of a fit, CPU-seconds for 10,000 states, and the coverage one epoch ahead with adaptive conformal
inference on configurations unlike those fitted: fitted on half the seeds, K1 <= 10 and never a second handover, tested
on the other seeds with all of theirs. CPU time, so other work on the machine counts little.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from relaytrain.estimators.judging.metrics import Bands
from relaytrain.estimators.learned.calibration import Adaptive, scores
from relaytrain.estimators.learned.curves import Bundle, LegCurve, bundle_of
from relaytrain.estimators.learned.features import Seen, rows_of, windows
from relaytrain.estimators.learned.fit import fit
from relaytrain.estimators.learned.fitted import Fitted
from relaytrain.traces.format import bundled_traces

STATES = 10_000
REPETITIONS = 5
EARLY = 10


def shifted(bundle: Bundle) -> tuple[Bundle, Bundle]:
    """What is fitted and what is tested."""
    half = bundle.seeds[: len(bundle.seeds) // 2]

    def early(one: object) -> bool:
        way = getattr(one, "configuration")  # noqa: B009
        return not way or (len(way) == 1 and int(way[0].split()[0]) <= EARLY)

    some = bundle.of_seeds(half)
    return (
        some.only([early(c) for c in some.curves], [early(s) for s in some.switches]),
        bundle.of_seeds([seed for seed in bundle.seeds if seed not in half]),
    )


def one_ahead(fitted: Fitted, curve: LegCurve) -> tuple[np.ndarray, int]:
    """Scores of every epoch of a leg against the bands made before it, and the first epoch that has one."""
    lead = [curve.start] if fitted.run.with_start and curve.start is not None else []
    whole = np.array([*lead, *curve.losses])
    first = 1 - len(lead)
    rows = [whole[: k + len(lead)] for k in range(first, len(curve.losses))]
    facts = np.tile(curve.fixed, (len(rows), 1)).astype(float)
    stage = np.full(len(rows), curve.stage)
    bands = fitted.run.bands(Seen(rows_of(rows), np.arange(first, len(curve.losses), dtype=float), facts, stage))
    truth = np.array([curve.losses[k] - whole[k + len(lead) - 1] for k in range(first, len(curve.losses))])
    return scores(truth, Bands(bands.mean[:, 0], bands.low[:, 0], bands.high[:, 0])), first


def closed_loop(fitted: Fitted, tested: Bundle) -> None:
    by_run = {(c.seed, c.run): c for c in tested.curves}
    known = {key: one_ahead(fitted, curve) for key, curve in by_run.items()}
    taken = {(s.seed, s.run): len(s.history) for s in tested.switches}
    found: dict[int, list[np.ndarray]] = {}
    for curve in tested.curves:
        chain, at = [(curve, len(curve.losses))], curve
        while at.parent is not None:
            chain.append((by_run[at.seed, at.parent], taken[at.seed, at.run]))
            at = chain[-1][0]
        adaptive, hits = Adaptive(fitted.run.warm), np.zeros(0, bool)
        for leg, epochs in reversed(chain):
            values, first = known[leg.seed, leg.run]
            inside = []
            for value in values[: max(epochs - first, 0)]:
                inside.append(value <= adaptive.factor())
                adaptive.tell(float(value))
            hits = np.array(inside)
        if len(hits):
            found.setdefault(curve.stage, []).append(hits)
    for stage, runs in sorted(found.items()):
        each = np.sort([run.mean() for run in runs])
        worst = each[: max(len(each) // 10, 1)].mean()
        print(
            f"closed loop, stage {stage}: coverage {np.concatenate(runs).mean():.3f}, worst decile of {len(runs)} runs "
            f"{worst:.3f}"
        )


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "digits"
    bundle = bundle_of(bundled_traces()[name], "train")
    fitted_on, tested = shifted(bundle)
    closed_loop(fit(fitted_on, change_target="jump"), tested)
    started = time.process_time()
    fitted = fit(bundle)
    print(f"fit: {time.process_time() - started:.1f} CPU-s on {len(windows(bundle.curves))} windows of {name}")
    seen = windows(bundle.curves, with_start=True).seen
    many = seen.take(np.resize(np.arange(len(seen)), STATES))
    taken = []
    for _ in range(REPETITIONS):
        started = time.process_time()
        fitted.run.bands(many)
        taken.append(time.process_time() - started)
    print(
        f"predict: {statistics.median(taken):.2f} CPU-s for {STATES} states, 5 epochs each (the first time "
        f"{taken[0]:.2f})"
    )


if __name__ == "__main__":
    main()

"""DepL and PACT on real training: success against energy at several probabilities, stated beside observed; set sizes.

Each run trains the preset `depl_digits` for real, planned again after every epoch. "stated" is the probability of the
first plan, "observed" the share of runs that met the target in time, with its 95 % interval. Sizes are those of the
split-conformal prediction sets (level 0.9) of the network that each run ended with. The runs stay in the store, where
`relaytrain audit STORE` judges them too; runs that it has already are not repeated.

    nice -n 10 python benchmarks/dependable.py dependable-runs [--seeds 10] [--processes 2]
    nice -n 10 python benchmarks/dependable.py tight-runs --sizes 0 --set target.deadline=30s    # little time to mend
    bad luck
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from relaytrain.report.audit_rates import wilson

OMEGAS = (0.5, 0.75, 0.9)
PLANNERS = ("pact", "depl")
SIZES = ("depl", "best-exp", "pact")


def one(store: Path, planner: str, omega: float, seed: int, changes: list[str]) -> None:
    """One real run, kept in the store."""
    import relaytrain as rt
    from relaytrain.store import RunStore

    changes = [f"target.probability={omega}", *changes]
    rt.run("depl_digits", store=RunStore.open(store), planner=planner, seed=seed, overrides=changes)


def finished(store: Path) -> list[dict[str, Any]]:
    """What the report says of each finished run of the store."""
    from relaytrain.report.run_view import RunView
    from relaytrain.store import RunStore

    if not store.exists():
        return []
    kept = RunStore.open(store)
    views = [RunView.of(kept.events(row.run)) for row in kept.runs()]
    return [_row(view) for view in views if view.finished]


def _row(view: Any) -> dict[str, Any]:
    first, verdict = view.plans[0], view.verdict
    sets = verdict.get("prediction_sets") or {}
    return {
        "planner": view.planner.split("/")[0], "omega": view.scenario["target"]["probability"],
        "seed": view.started["seed"],
        "met": view.status == "met", "energy_j": view.totals.energy_j, "epochs": len(view.epochs),
        "stated": first.probability,
        "size": sets.get("mean_size"), "coverage": sets.get("coverage"), "accuracy": verdict.get("test_accuracy"),
    }  # fmt: skip


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("store", type=Path, help="a folder for the runs, to go on from")
    asked.add_argument("--seeds", type=int, default=10, help="runs for each planner and probability")
    asked.add_argument("--sizes", type=int, default=20, help="seeds for the sizes of prediction sets, at 0.9")
    asked.add_argument("--processes", type=int, default=2)
    asked.add_argument(
        "--set", dest="changes", action="append", default=[], metavar="KEY=VALUE", help="instead of the preset's"
    )
    given = asked.parse_args()
    wanted = [(p, w, s) for s in range(given.seeds) for w in OMEGAS for p in PLANNERS]
    wanted += [(p, OMEGAS[-1], s) for s in range(given.sizes) for p in SIZES]
    done = {(row["planner"], row["omega"], row["seed"]) for row in finished(given.store)}
    left = [key for key in dict.fromkeys(wanted) if key not in done]
    with ProcessPoolExecutor(given.processes) as pool:
        ahead = [pool.submit(one, given.store, *key, given.changes) for key in left]
        for number, future in enumerate(as_completed(ahead), 1):
            future.result()
            print(f"\rrun {number} of {len(ahead)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    report(finished(given.store), given.seeds)


def report(rows: list[dict[str, Any]], seeds: int) -> None:
    print(
        f"{'planner':<10} {'asked':>5} {'stated':>7} {'observed':>9} {'95 % interval':>16} {'energy J':>16} "
        f"{'epochs':>7} {'runs':>5}"
    )
    for planner in PLANNERS:
        for omega in OMEGAS:
            mine = [r for r in rows if (r["planner"], r["omega"]) == (planner, omega) and r["seed"] < seeds]
            if mine:
                hits = sum(r["met"] for r in mine)
                low, high = wilson(hits, len(mine))
                energy = [r["energy_j"] for r in mine]
                print(
                    f"{planner:<10} {omega:>5.2f} {np.mean([r['stated'] for r in mine]):>7.2f} "
                    f"{hits / len(mine):>9.2f} "
                    f"{f'{low:.2f} - {high:.2f}':>16} {f'{np.mean(energy):.1f} +- {np.std(energy):.1f}':>16} "
                    f"{np.mean([r['epochs'] for r in mine]):>7.1f} {len(mine):>5}"
                )
    if not any(r["planner"] == "best-exp" for r in rows):
        return
    print(
        f"\nprediction sets at level 0.9, asked {OMEGAS[-1]}\n{'planner':<10} {'mean size':>16} {'coverage':>9} "
        f"{'accuracy':>9} {'runs':>5}"
    )
    for planner in SIZES:
        mine = [r for r in rows if (r["planner"], r["omega"]) == (planner, OMEGAS[-1]) and r["size"] is not None]
        if mine:
            sizes = [r["size"] for r in mine]
            print(
                f"{planner:<10} {f'{np.mean(sizes):.3f} +- {np.std(sizes) / math.sqrt(len(sizes)):.3f}':>16} "
                f"{np.mean([r['coverage'] for r in mine]):>9.3f} {np.mean([r['accuracy'] for r in mine]):>9.3f} "
                f"{len(mine):>5}"
            )


if __name__ == "__main__":
    main()

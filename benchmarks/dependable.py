"""DepL and PACT on real training: success against energy at several probabilities, stated beside observed; set sizes.

Each run trains the preset `depl_digits` for real, planned again after every epoch. "stated" is the probability of the
first plan, "observed" the share of runs that met the target in time, with its 95 % interval. Sizes are those of the
split-conformal prediction sets (level 0.9) of the network that each run ended with.

    nice -n 10 python benchmarks/dependable.py [--seeds 10] [--processes 2] [--keep rows.jsonl]
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

OMEGAS = (0.5, 0.75, 0.9)
PLANNERS = ("pact", "depl")
SIZES = ("depl", "best-exp", "pact")


def one(planner: str, omega: float, seed: int) -> dict[str, Any]:
    import relaytrain as rt
    from relaytrain.store import RunStore

    with tempfile.TemporaryDirectory() as folder:
        store = RunStore.open(Path(folder) / "store")
        changes = [f"target.probability={omega}"]
        ended = rt.run("depl_digits", store=store, planner=planner, seed=seed, overrides=changes)
        events = store.events(ended.run)
    first = next(e.body for e in events if e.kind == "planned")["plan"]
    sets = events[-1].body.get("prediction_sets") or {}
    return {
        "planner": planner, "omega": omega, "seed": seed, "met": ended.verdict == "met", "energy_j": ended.energy_j,
        "elapsed_s": ended.elapsed_s, "epochs": len(ended.outcomes), "stated": first["probability"], "rung": first["rung"],
        "planned_j": first["energy_j"], "size": sets.get("mean_size"), "coverage": sets.get("coverage"), "accuracy": ended.test_accuracy,
    }  # fmt: skip


def wilson(hits: int, count: int) -> tuple[float, float]:
    z, share = 1.96, hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count**2)) / (1 + z * z / count)
    return middle - half, middle + half


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seeds", type=int, default=10, help="runs for each planner and probability")
    asked.add_argument("--sizes", type=int, default=20, help="seeds for the sizes of prediction sets, at 0.9")
    asked.add_argument("--processes", type=int, default=2)
    asked.add_argument("--keep", type=Path, help="a file of rows to add to and to go on from")
    given = asked.parse_args()
    rows = [json.loads(line) for line in given.keep.read_text().splitlines()] if given.keep and given.keep.exists() else []
    wanted = [(p, w, s) for s in range(given.seeds) for w in OMEGAS for p in PLANNERS]
    wanted += [(p, OMEGAS[-1], s) for s in range(given.sizes) for p in SIZES]
    done = {(r["planner"], r["omega"], r["seed"]) for r in rows}
    left = [key for key in dict.fromkeys(wanted) if key not in done]
    with ProcessPoolExecutor(given.processes) as pool:
        for future in as_completed([pool.submit(one, *key) for key in left]):
            rows.append(future.result())
            if given.keep:
                with given.keep.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    report(rows, given.seeds)


def report(rows: list[dict[str, Any]], seeds: int) -> None:
    print(f"{'planner':<10} {'asked':>5} {'stated':>7} {'observed':>9} {'95 % interval':>16} {'energy J':>16} {'epochs':>7} {'runs':>5}")
    for planner in PLANNERS:
        for omega in OMEGAS:
            mine = [r for r in rows if (r["planner"], r["omega"]) == (planner, omega) and r["seed"] < seeds]
            if mine:
                hits = sum(r["met"] for r in mine)
                low, high = wilson(hits, len(mine))
                energy = [r["energy_j"] for r in mine]
                print(
                    f"{planner:<10} {omega:>5.2f} {np.mean([r['stated'] for r in mine]):>7.2f} {hits / len(mine):>9.2f} "
                    f"{f'{low:.2f} - {high:.2f}':>16} {f'{np.mean(energy):.1f} +- {np.std(energy):.1f}':>16} "
                    f"{np.mean([r['epochs'] for r in mine]):>7.1f} {len(mine):>5}"
                )
    print(f"\nprediction sets at level 0.9, asked {OMEGAS[-1]}\n{'planner':<10} {'mean size':>16} {'coverage':>9} {'accuracy':>9} {'runs':>5}")
    for planner in SIZES:
        mine = [r for r in rows if (r["planner"], r["omega"]) == (planner, OMEGAS[-1]) and r["size"] is not None]
        if mine:
            sizes = [r["size"] for r in mine]
            print(
                f"{planner:<10} {f'{np.mean(sizes):.3f} +- {np.std(sizes) / math.sqrt(len(sizes)):.3f}':>16} "
                f"{np.mean([r['coverage'] for r in mine]):>9.3f} {np.mean([r['accuracy'] for r in mine]):>9.3f} {len(mine):>5}"
            )


if __name__ == "__main__":
    main()

"""The dashboard under load, measured in a real Chromium: first paint, long tasks, sliders, and what watching costs.

    python benchmarks/dashboard.py paint [--runs 100 --epochs 10000]
    python benchmarks/dashboard.py slider [--preset quickstart]
    python benchmarks/dashboard.py watch [--pairs 10]

`paint` writes a store of long runs in bulk (plans without their laws, which no page but `why` reads) and opens the list
and one run: first contentful paint, and the longest task of the main thread while scrolling. `slider` replays the
questions of someone who drags each slider end to end. `watch` runs the same run watched and unwatched, in pairs that
swap their order, and compares the CPU seconds of the run's own process; the dashboard's are printed beside.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "report"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "relay"))

from browser import dashboard, launched
from machine import calibrated


def long_store(folder: Path, runs: int, epochs: int) -> None:
    """Runs of so many epochs, as a store holds them, written at once."""
    from relaytrain.store import RunStore, database, events
    from relaytrain.store.events import Event

    folder.mkdir(parents=True, exist_ok=True)

    def rows() -> Iterator[tuple[Any, ...]]:
        for number in range(runs):
            run = f"long-run-{number:04}"
            target = {"loss": 0.2, "deadline": 4.0 * epochs, "probability": 0.9, "metric": "loss", "on": "validation"}
            started = {"scenario": {"name": "long", "units": {"time": "s", "energy": "J"}, "target": target},
                       "clock": "emulated", "planner": "pact/sampled", "seed": number, "initial_loss": 2.3}  # fmt: skip
            bodies: list[tuple[str, int | None, dict[str, Any]]] = [("run_started", 0, started)]
            for epoch in range(1, epochs + 1):
                loss = 0.2 + 2.0 * (1 + epoch / (epochs / 40)) ** -0.8
                pair = ("full", "gold") if epoch < epochs // 3 else ("small", "bronze")
                decision = {"epoch": epoch, "version": pair[0], "nodes": pair[1], "mode": "federated"}
                said = {"loss": loss, "guaranteed": loss * 1.1, "elapsed_s": 1.5, "energy_j": 2.0, "level": 0.9}
                bodies.append(("planned", epoch, {"decision": decision, "predicted": said, "plan": {"feasible": True}}))
                body = {"decision": decision, "loss": loss * (1 + 0.07 * math.sin(epoch * 1.7)), "elapsed_s": 1.5,
                        "energy_j": 2.0, "provenance": "modelled", "wasted_j": 0.0, "wasted_s": 0.0}  # fmt: skip
                bodies.append(("epoch_done", epoch, body))
            totals = {"useful_j": 2.0 * epochs, "wasted_j": 0.0, "energy_j": 2.0 * epochs, "useful_s": 1.5 * epochs,
                      "wasted_s": 0.0, "elapsed_s": 1.5 * epochs}  # fmt: skip
            bodies.append(
                ("verdict", None, {"verdict": "missed", "loss": 0.21, "epochs": epochs, "notes": [], **totals})
            )
            for seq, (kind, epoch_of, body) in enumerate(bodies, 1):
                event = Event(run, seq, kind, epoch_of, body, 1, 1.7e9 + number * 100.0 + seq * 1e-4, float(seq))
                yield events.to_row(event, events.encode(body))

    database.build(folder / database.FILE_NAME, rows())
    assert len(RunStore.open(folder).events("long-run-0000", kinds=("verdict",))) == 1


PAINTS = """() => performance.getEntriesByType('paint').filter((e) => e.name == 'first-contentful-paint')
  .map((e) => e.startTime)"""
WATCH_TASKS = """() => { window.tasks = []; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.tasks.push(entry.duration); }).observe({entryTypes: ['longtask']}); }"""


def paint(options: argparse.Namespace) -> dict[str, Any]:
    """First contentful paint of the list and of a run, and the longest task while each is scrolled."""
    with tempfile.TemporaryDirectory() as place:
        folder = options.store or Path(place) / "runs"
        began = time.monotonic()
        if not folder.exists():
            long_store(folder, options.runs, options.epochs)
        size = (folder / "runs.sqlite").stat().st_size
        took_s = time.monotonic() - began
        print(f"{options.runs} runs x {options.epochs} epochs, {size / 1e6:.0f} MB, written in {took_s:.0f} s")
        found: dict[str, Any] = {"runs": options.runs, "epochs": options.epochs}
        with dashboard(folder) as address, launched() as browser:
            base = address.partition("/?")[0]
            context = browser.new_context(viewport={"width": 1200, "height": 900})
            context.set_default_timeout(300_000)
            page = context.new_page()
            page.goto(address)
            page.wait_for_url(f"{base}/")
            for name, path in (("list", "/"), ("run", "/runs/long-run-{:04}")):
                paints, whole, longest, counts = [], [], [], []
                for number in range(options.times):  # a run that was not looked at before, each time
                    began = time.monotonic()
                    page.goto(base + path.format(number))
                    while not (entries := page.evaluate(PAINTS)):
                        page.wait_for_timeout(10)
                    paints.append(entries[0])
                    if name == "run":
                        page.wait_for_selector("#run[data-ready=yes]")
                    whole.append(1000 * (time.monotonic() - began))
                    page.wait_for_timeout(500)
                    page.evaluate(WATCH_TASKS)
                    for _ in range(30):
                        page.mouse.wheel(0, 240)
                        page.wait_for_timeout(16)
                    page.wait_for_timeout(200)
                    tasks = page.evaluate("window.tasks")
                    longest.append(max(tasks, default=0.0))
                    counts.append(len(tasks))
                found[name] = {
                    "first_paint_ms": paints,
                    "whole_ms": whole,
                    "longest_task_ms": longest,
                    "tasks_above_50_ms": counts,
                }
                print(
                    f"{name}: first paint {', '.join(f'{v:.0f}' for v in paints)} ms, whole page after "
                    f"{', '.join(f'{v:.0f}' for v in whole)} ms; tasks above 50 ms while "
                    f"scrolling {counts}, the longest {max(longest):.0f} ms"
                )
    return found


def slider(options: argparse.Namespace) -> dict[str, Any]:
    """Answers to someone who drags sliders, in milliseconds, server alone: what the page adds is a repaint."""
    from fastapi.testclient import TestClient

    import relaytrain as rt
    from relaytrain.store import RunStore
    from relaytrain.web.app import create_app
    from relaytrain.web.guard import Door

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        store = RunStore.open(Path(place) / "runs")
        ended = rt.run(options.preset, store=store, name="slider-run-1", seed=7)
        app = create_app(store, Door("token", frozenset({"127.0.0.1:1"})), warm=False)
        app.bucket.per_second = 1e9
        client = TestClient(app, base_url="http://127.0.0.1:1", headers={"authorization": "Bearer token"})
        target = rt.load_scenario(options.preset).problem.target
        epochs = sorted({1, max(len(ended.outcomes) // 4, 1), max(len(ended.outcomes) // 2, 1), len(ended.outcomes)})
        for epoch in epochs:
            ask = {"epoch": epoch, "way_out": False}
            client.get("/api/runs/slider-run-1/replan", params=ask)
            spent: list[float] = []
            for step in range(options.steps):
                share = step / (options.steps - 1)
                for change in (
                    {"loss": target.loss * (0.6 + 1.4 * share)},
                    {"probability": 0.5 + 0.49 * share},
                    {"deadline": target.deadline_s * (0.2 + 1.8 * share)},
                ):
                    began = time.perf_counter()
                    assert client.get("/api/runs/slider-run-1/replan", params={**ask, **change}).status_code == 200
                    spent.append(1000 * (time.perf_counter() - began))
            spent.sort()
            within = sum(value < 200 for value in spent) / len(spent)
            found[str(epoch)] = {
                "median_ms": statistics.median(spent),
                "p90_ms": spent[int(0.9 * len(spent))],
                "within": within,
            }
            print(
                f"decision of epoch {epoch}: {len(spent)} answers, median {statistics.median(spent):.0f} ms, 90 % "
                f"within {spent[int(0.9 * len(spent))]:.0f} ms, longest {spent[-1]:.0f} ms; below 200 ms {within:.0%}"
            )
    return found


@contextmanager
def _watcher(folder: Path, run: str) -> Iterator[Any]:
    """A page that watches `run`, once it is there; gives the process of the dashboard."""
    with dashboard(folder) as address, launched() as browser:
        base = address.partition("/?")[0]
        page = browser.new_page()
        page.goto(address)
        page.wait_for_url(f"{base}/")
        yield lambda: page.goto(f"{base}/runs/{run}")


def watch(options: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds of a run's own process, watched and not, in interleaved pairs."""
    ratios, rows = [], []
    for pair in range(options.pairs):
        used = {}
        for watched in (pair % 2 == 0, pair % 2 == 1):
            used["watched" if watched else "unwatched"] = _run_cpu_s(options, pair, watched=watched)
        ratios.append(used["watched"] / used["unwatched"] - 1.0)
        rows.append(used)
        print(
            f"pair {pair + 1}: unwatched {used['unwatched']:.2f} s, watched {used['watched']:.2f} s, {ratios[-1]:+.1%}"
        )
    middle = statistics.median(ratios)
    spread = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
    print(f"watched over unwatched: median {middle:+.2%}, mean {statistics.mean(ratios):+.2%} +- {spread:.2%}")
    return {"ratios": ratios, "median": middle, "rows": rows}


def _run_cpu_s(options: argparse.Namespace, seed: int, *, watched: bool) -> float:
    with tempfile.TemporaryDirectory() as place:
        folder, run = Path(place) / "runs", "watched-run-1"
        words = [sys.executable, "-m", "relaytrain", "run", options.preset, "--seed", str(seed), "--name", run, "-q",
                 "--store", str(folder)]  # fmt: skip

        def go(opened: Any = None) -> float:
            process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if opened is not None:
                while not (folder / "runs.sqlite").exists() and process.poll() is None:
                    time.sleep(0.05)
                time.sleep(0.2)
                opened()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
            return float(usage.ru_utime + usage.ru_stime)

        if not watched:
            return go()
        with _watcher(folder, run) as opened:
            return go(opened)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("paint", "slider", "watch"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=10_000)
    parser.add_argument("--store", type=Path, help="a store that `paint` has written, or is to write and keep")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--preset", default="quickstart")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with calibrated():
        found = {"paint": paint, "slider": slider, "watch": watch}[options.what](options)
    print(f"this process took {resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} CPU s")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

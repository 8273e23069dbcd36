"""Real training with the default rule beside the rule of before; and is a replay of the atlas the same run, to the bit?

    python benchmarks/real_runs.py quickstart --seeds 10 --rows rows.json
    python benchmarks/real_runs.py fashion --seeds 5 --rows rows.json

Every seed is trained twice: by the default (`sampled`, the preset's belief) and by the rule `adaptive` with the belief
that the preset had before atlases (`benchmarks/before/`). Then the default is played twice more with an atlas in the
trainer's place, and compared with the run: decisions, losses, probes, joules and seconds of every epoch, all bits.
`bundled`: the atlas that ships, which trains only what was not recorded; its losses have the last bits of the processor
and libraries that recorded it. `here`: an atlas recorded on this machine, as legs are asked for. A run that misses
counts with what it spent. Seeds: those of the bundled atlas that are reported first (`decisions.py`), then 6000 and on.
Rows are kept; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from decisions import BEFORE, DEVELOPMENT, before, interval, reported_of

from relaytrain import api
from relaytrain.relay.assembly import job_of
from relaytrain.relay.job import Ended, Job
from relaytrain.relay.journal import MemoryJournal
from relaytrain.relay.loop import RelayLoop
from relaytrain.relay.replay import AtlasRunner
from relaytrain.scenario import Scenario, load_scenario
from relaytrain.traces.atlas import Atlas, read_atlas

DEFAULT = "default"


@dataclass(frozen=True)
class Run:
    """What one seed came to under one rule, and whether replays of two atlases are the run, to the bit."""

    seed: int
    rule: str
    met: bool
    energy_j: float
    relay: str
    cpu_s: float
    bundled: bool | None = None
    here: bool | None = None


def through(job: Job) -> Ended:
    """A job to its end."""
    first = job.runner.first()
    journal = MemoryJournal("run", first, job.problem.pairs, job.problem.start)
    return RelayLoop(job, journal, job.runner.probe(first).loss).begin(first)


def told(ended: Ended) -> list[Any]:
    """All that a run says of itself but what was measured on this machine."""
    epochs = ((o.decision, o.loss, o.handover_loss, o.energy_j, o.elapsed_s) for o in ended.outcomes)
    return [ended.verdict, ended.loss, ended.energy_j, ended.elapsed_s, *epochs]


def of_seed(tables: dict[str, Any], seed: int) -> Scenario:
    """The scenario with its seeds."""
    return load_scenario(tables, overrides=[f"training.seed={seed}", f"data.seed={seed}"])


def run(name: str, seed: int, rule: str) -> Run:
    """Train one seed, and play it again where the rule is the default."""
    tables = dict(api.scenario(name).resolved)
    if rule == BEFORE:
        past = before(api.scenario(name), name)
        tables = {**past.resolved, "planner": {**past.resolved.get("planner", {}), "rule": "adaptive"}}
    began = time.process_time()
    job = job_of(of_seed(tables, seed))
    ended = through(job)
    cpu_s = time.process_time() - began
    same = [None, None] if rule == BEFORE else [replayed(name, seed, job, ended, atlas) for atlas in atlases(name)]
    relay = " -> ".join(f"{pair} x{count}" for pair, count in ended.legs)
    return Run(seed, rule, ended.verdict == "met", ended.energy_j, relay, cpu_s, *same)


def atlases(name: str) -> tuple[Atlas, Atlas]:
    """What ships, and one that is still to be recorded."""
    from relaytrain.campaigns.atlas_recording import empty_atlas

    return read_atlas(name), empty_atlas(api.scenario(name))


def replayed(name: str, seed: int, job: Job, ended: Ended, atlas: Atlas) -> bool:
    """Whether the job with an atlas in the trainer's place ends as it did, to the bit."""
    from relaytrain.campaigns.atlas_recording import off_grid

    runner = AtlasRunner(atlas, seed, off_grid(api.scenario(name), atlas))
    return told(through(Job(**{**vars(job), "runner": runner}))) == told(ended)


def seeds_of(atlas: Atlas) -> list[int]:
    """Those reported first, then the others that nothing was fitted to."""
    first = reported_of(atlas)
    return [*first, *(seed for seed in sorted(atlas.seeds) if seed >= DEVELOPMENT + 1000 and seed not in first)]


def main() -> None:
    """Train, play, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", choices=["quickstart", "fashion", "deeper"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=Path, metavar="FILE")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    rows: list[Run] = []
    if given.rows is not None and given.rows.exists():
        rows = [Run(**row) for row in json.loads(given.rows.read_text())]
    there = {(row.seed, row.rule) for row in rows}
    seeds = seeds_of(read_atlas(given.scenario))[: given.seeds]
    for seed in seeds:
        for rule in (DEFAULT, BEFORE):
            if (seed, rule) not in there:
                rows.append(run(given.scenario, seed, rule))
                print(rows[-1], flush=True)
                if given.rows is not None:
                    given.rows.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    by = {(row.seed, row.rule): row for row in rows}
    for rule in (DEFAULT, BEFORE):
        mine = [by[seed, rule] for seed in seeds]
        mean_j, met = np.mean([row.energy_j for row in mine]), sum(row.met for row in mine)
        print(f"{rule:8} {mean_j:8.1f} J, met {met} of {len(seeds)}")
    gaps = [by[seed, DEFAULT].energy_j - by[seed, BEFORE].energy_j for seed in seeds]
    print(f"default minus before {interval(gaps, 1)} J")
    for atlas in ("bundled", "here"):
        same = sum(getattr(by[seed, DEFAULT], atlas) is True for seed in seeds)
        print(f"replays of the atlas {atlas}, the same to the bit: {same} of {len(seeds)}")


if __name__ == "__main__":
    main()

"""A store whose every checksum is right and whose bodies are not: verbs say so and end with 9, or do not mind."""

from __future__ import annotations

import shutil

import pytest
import stub
from crafted_bodies import craft
from sample_run import Sample, open_store, write_run
from store_faults import soak

from relaytrain.core.errors import RelayTrainError
from relaytrain.relay import loop
from relaytrain.store import RunStore

RUNS = ("quick-good-1", "quick-open-2")
VERBS = (
    ("ls",), ("show", "RUN"), ("show", "RUN", "--format", "json"), ("report", "RUN", "-o", "run.html"), ("audit",),
    ("store", "check"), ("store", "repair", "--dry-run"), ("export", "RUN", "out"), ("resume", "RUN"),
    ("store", "repair"),
)  # fmt: skip
ALLOWED = {0, 2, 3, 8, 9}
"""All well or not minded; what cannot be resumed or exported; a scenario that is none; a huge loss; damage."""
CASES, RESUMED = (1500, 600) if soak() else (30, 12)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crafted") / "runs"
    store = open_store(folder)
    write_run(store, RUNS[0])
    write_run(store, RUNS[1], Sample(stop_after=6))
    return folder


def test_verbs_never_stumble_over_what_a_body_says(relaytrain, written, tmp_path, monkeypatch):
    folder = tmp_path / "runs"
    monkeypatch.setenv("RELAYTRAIN_STORE", str(folder))
    monkeypatch.chdir(tmp_path)
    damaged = 0
    for seed in range(CASES):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(written, folder)
        run = RUNS[seed % 3 != 0]
        case = craft(folder, run, seed)
        # outside the soak each case asks some of the verbs: together all of them, many times
        asked = VERBS if soak() else [verb for place, verb in enumerate(VERBS) if (seed + place) % 5 == 0]
        for verb in asked:
            call = relaytrain(*(run if word == "RUN" else word for word in verb))
            assert call.status in ALLOWED and "Traceback" not in call.err and "unexpected" not in call.err, (case, call)
            assert call.status == 0 or len((call.err or call.out).strip()) > 20, (seed, case, call)
            damaged += call.status == 9
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert damaged > CASES // 4


def test_a_run_never_goes_on_from_what_no_run_writes(tmp_path):
    """Resumed, refused with 9 and an event's number, or refused as changed; never an exception of ours."""

    def stopped(moment, decision, attempt):
        if moment == "epoch" and decision is not None and decision.epoch == 3:
            raise KeyboardInterrupt

    loop.start(stub.job(fault=stopped), RunStore.open(tmp_path / "written"), run=RUNS[1])
    refused = 0
    for seed in range(RESUMED):
        folder = tmp_path / str(seed)
        shutil.copytree(tmp_path / "written", folder)
        case = craft(folder, RUNS[1], seed)
        try:
            assert loop.resume(stub.job(), RunStore.open(folder), RUNS[1]).verdict == "met", case
        except RelayTrainError as error:
            assert error.exit_status in ALLOWED - {0}, (case, error)
            assert error.exit_status != 9 or "event " in str(error), (case, error)
            refused += error.exit_status == 9
    assert refused > RESUMED // 4

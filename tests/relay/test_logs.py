"""Logs of other tools, read back with those tools' own readers: what the events say, once, whatever happened."""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path

import pytest
import stub

from relaytrain.core.errors import UsageError
from relaytrain.loggers.live_logs import live_logs, targets_of
from relaytrain.loggers.log_entries import EntryReader
from relaytrain.loggers.log_kinds import LogTarget
from relaytrain.loggers.replaying import LogFailed, LogFollower, log_run
from relaytrain.loggers.wandb_log import records
from relaytrain.relay import loop as orchestrator

RUN = "logged-run"


@pytest.fixture
def trained(store):
    """A run with a handover, kept in `store`."""
    ended = orchestrator.start(stub.job(), store, run=RUN)
    assert ended.verdict == "met" and len({o.decision.pair for o in ended.outcomes}) > 1
    return ended


def undone(store, run: str) -> None:
    """A run whose second epoch was rolled back and run again."""

    def epoch(writer, number: int, loss: float) -> None:
        decision = {"epoch": number, "version": "L", "nodes": "gold"}
        writer.append("planned", {"decision": decision}, number)
        writer.append("epoch_done", {"decision": decision, "loss": loss, "energy_j": 2.0, "elapsed_s": 1.0}, number)

    with store.create_run(run, {"initial_loss": 2.0}) as writer:
        epoch(writer, 1, 1.5)
        epoch(writer, 2, 9.0)
        writer.append("rolled_back", {"to_epoch": 1, "reason": "damaged checkpoint"}, 1)
        epoch(writer, 2, 1.25)


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    """What TensorBoard itself reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder))
    reader.Reload()
    return [(row.step, row.value) for row in reader.Scalars(tag)]


def single(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def test_an_entry_has_one_key_and_figures_that_are_numbers(store, trained):
    entries = list(EntryReader().read(store.events(RUN)))
    keys = [entry.key for entry in entries if entry.kind in ("epoch", "node", "handover", "verdict")]
    assert len(set(keys)) == len(keys)
    done = [entry for entry in entries if entry.kind == "epoch"]
    assert [entry.figures["loss"] for entry in done] == [outcome.loss for outcome in trained.outcomes]
    assert done[-1].figures["total/energy_j"] == trained.energy_j


@pytest.mark.slow
def test_tensorboard_reads_the_losses_and_a_second_log_changes_no_byte(store, trained, tmp_path):
    target = LogTarget("tensorboard", str(tmp_path))
    first = log_run(store, RUN, target)
    folder = tmp_path / RUN
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    done = [outcome.loss for outcome in trained.outcomes]
    assert scalars(folder, "loss")[1:] == [(k, single(loss)) for k, loss in enumerate(done, 1)]
    assert first.new > len(done) and log_run(store, RUN, target).new == 0 and file.read_bytes() == whole

    file.write_bytes(whole[: len(whole) * 2 // 3])  # its writer was killed in the middle of a record
    assert log_run(store, RUN, target).new > 0 and file.read_bytes() == whole
    file.write_bytes(whole + b"more")
    log_run(store, RUN, target)
    assert file.read_bytes() == whole

    undone(store, "undone-run")
    follower = LogFollower(store, "undone-run", target)
    events, store_events = [], store.events("undone-run")
    follower.store = type("Growing", (), {"events": lambda self, run, after: tuple(events[after:])})()
    for event in store_events:  # event by event, as a live run gives them
        events.append(event)
        follower.step()
    follower.close()
    assert scalars(tmp_path / "undone-run", "loss") == [(0, 2.0), (1, 1.5), (2, 1.25)]


@pytest.mark.slow
def test_a_live_log_follows_the_run_in_a_process_of_its_own_and_one_that_fails_is_not_noticed(store, tmp_path):
    alone = orchestrator.start(stub.job(), store, run="without-logs")
    (tmp_path / "taken").write_text("a file where a folder should be")
    targets = targets_of([f"tensorboard={tmp_path / 'tb'}", f"tensorboard={tmp_path / 'taken'}"])
    with live_logs(store, RUN, targets) as problems:
        ended = orchestrator.start(stub.job(), store, run=RUN)
    assert [o.loss for o in ended.outcomes] == [o.loss for o in alone.outcomes]
    assert len(scalars(tmp_path / "tb" / RUN, "loss")) == len(ended.outcomes) + 1
    (words,) = problems
    assert "taken" in words and f"relaytrain export {RUN}" in words and "--as tensorboard" in words


@pytest.mark.slow
def test_mlflow_reads_every_metric_once(store, trained, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    target = LogTarget("mlflow", (tmp_path / "mlruns").as_uri())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people's packages
        from mlflow import MlflowClient

        assert log_run(store, RUN, target).new > 0
        assert log_run(store, RUN, target).new == 0
        client = MlflowClient(tracking_uri=target.place)
        experiment = client.get_experiment_by_name("stub")
        (found,) = client.search_runs([experiment.experiment_id])
        losses = {m.step: m.value for m in client.get_metric_history(found.info.run_id, "loss")}
        counted = len(client.get_metric_history(found.info.run_id, "loss"))
        with store.create_run("two-failed-1", {"scenario": {"name": "failures"}}) as writer:
            writer.append("planned", {"decision": {"epoch": 1}}, 1)
            for node in ("edge-1", "edge-2"):
                writer.append("node_failed", {"node": node, "attempt": 0, "reason": "killed"}, 1)
        log_run(store, "two-failed-1", target)
        (failed,) = client.search_runs([client.get_experiment_by_name("failures").experiment_id])
    assert losses == {0: 2.0, **{k: o.loss for k, o in enumerate(trained.outcomes, 1)}} and counted == len(losses)
    assert found.data.tags["relaytrain.verdict"] == "met" and found.info.status == "FINISHED"
    assert found.data.params["target.loss"] == "0.45"
    assert [failed.data.tags[f"relaytrain.failure.1.edge-{i}"] for i in (1, 2)] == ["edge-1: killed", "edge-2: killed"]


@pytest.mark.slow
def test_wandb_keeps_every_row_once_offline(store, trained, tmp_path):
    target = LogTarget("wandb", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from wandb.proto import wandb_internal_pb2

        assert log_run(store, RUN, target).new > 0
        assert log_run(store, RUN, target).new == 0
    (file,) = tmp_path.glob(f"wandb/offline-run-*/run-{RUN}.wandb")
    losses = {}
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        if "loss" in row:
            losses[row["epoch"]] = row["loss"]
    assert losses == {0: 2.0, **{k: o.loss for k, o in enumerate(trained.outcomes, 1)}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tensorbord=tb", "did you mean 'tensorboard'"),
        ("tensorboard", "expected tensorboard=DIR"),
        ("mlflow=", "DIR or tracking URI"),
        ("", "expected tensorboard=DIR, mlflow="),
    ],
)
def test_what_is_no_log_is_refused_before_anything_trains(text, said):
    with pytest.raises(UsageError, match="--log: got") as refused:
        targets_of([text])
    assert said in str(refused.value)


def test_a_tool_that_fails_is_told_in_one_sentence(store, trained, monkeypatch, tmp_path):
    class Broken:
        def __init__(self, *arguments: object) -> None:
            raise RuntimeError("no such server")

    monkeypatch.setattr(LogTarget, "open", lambda self, run: Broken())
    with pytest.raises(LogFailed, match=r"mlflow=http://x: RuntimeError: no such server; the run itself is untouched"):
        log_run(store, RUN, LogTarget("mlflow", "http://x"))

"""`relaytrain pipeline run`: the words around the processes, and the workers that torchrun starts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.train, pytest.mark.slow]
TINY = ("pipeline", "run", "vgg11", "--width", "0.05", "--batch", "4", "--minibatches", "6")
PAIR = ("--device", "pi, 1 GFLOP/s", "--device", "nuc, 2 GFLOP/s")


def test_processes_and_simulator_say_the_same(relaytrain, tmp_path):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    call = relaytrain(*TINY, *PAIR, "--folder", str(tmp_path), "--snapshot-every", "2", "--format", "json")
    assert call.status == 0 and "attempt 1: from update 0 on pi, nuc" in call.err
    real = json.loads(call.out)
    assert real["schema"] == "relaytrain.pipeline-run/1" and real["minibatches"] == 6
    simulated = json.loads(relaytrain(*TINY, *PAIR, "--simulate", "--format", "json").out)
    assert real["losses"] == simulated["losses"] and real["cuts"] == simulated["cuts"]
    assert real["peak_bytes"] == simulated["peak_bytes"]
    assert all(a <= b for a, b in zip(real["peak_bytes"], real["predicted_bytes"], strict=True))
    grown = zip(real["grown_bytes"], real["predicted_bytes"], real["beyond_bytes"], strict=True)
    assert all(whole == held + beyond for whole, held, beyond in grown)
    assert "program code" in real["left_out"] and "grown_bytes" not in simulated
    text = relaytrain(*TINY, *PAIR, "--simulate")
    assert text.status == 0 and "6 minibatches" in text.out and "nuc" in text.out


@pytest.mark.soak
def test_workers_that_torchrun_starts(relaytrain, tmp_path):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    prepared = json.loads(relaytrain(*TINY, *PAIR, "--owner", "master", "--prepare", str(tmp_path / "job")).out)
    assert prepared["processes"] == 3
    expected = json.loads(relaytrain(*TINY, *PAIR, "--simulate", "--format", "json").out)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--master-addr", "127.0.0.1"]
    command += ["--master-port", str(port), "-m", "relaytrain.pipeline.worker", prepared["job"]]
    around = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, env=around, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    said = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert [line["value"] for line in said if line["kind"] == "loss"] == expected["losses"]
    done = [line for line in said if line["kind"] == "done"]
    assert len(done) == 3 and not any(line["pipelining"] for line in done)


@pytest.mark.soak
def test_stages_between_hosts_train_as_on_one(relaytrain, tmp_path):
    """A worker each, as a user starts it on each host, here on loopback; the simulator's losses to the last bit."""
    pytest.importorskip("cryptography")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    names = ("one", "two", "three")
    certs = tmp_path / "certs"
    assert relaytrain("flower", "certs", str(certs), *(word for name in names for word in ("--node", name))).status == 0
    prepared = json.loads(relaytrain(*TINY, *PAIR, "--owner", "master", "--prepare", str(tmp_path / "job")).out)
    expected = json.loads(relaytrain(*TINY, *PAIR, "--simulate", "--format", "json").out)
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    at = [word for name, port in zip(names, ports, strict=True) for word in ("--at", f"{name}=127.0.0.1:{port}")]
    base = [sys.executable, "-m", "relaytrain.pipeline.worker", prepared["job"], *at]
    running = [
        subprocess.Popen(
            [*base, "--rank", str(rank), "--certs", str(certs / "nodes" / name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank, name in enumerate(names)
    ]
    ended = [(*process.communicate(timeout=240), process.returncode) for process in running]
    assert [status for *_, status in ended] == [0, 0, 0], [err.decode()[-800:] for _, err, _ in ended]
    said = [json.loads(line) for out, *_ in ended for line in out.splitlines() if line.startswith(b"{")]
    assert [line["value"] for line in said if line["kind"] == "loss"] == expected["losses"]
    assert sorted(line["rank"] for line in said if line["kind"] == "done") == [0, 1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which stage is this? Start it by torchrun --nproc-per-node 2"),
        (("--rank", "0"), "between hosts: expected --rank, --certs, and --at for each of 2 processes"),
        (("--certs", "nodes/one"), "between hosts: expected --rank, --certs, and --at for each of 2 processes"),
    ],
)
def test_a_worker_that_does_not_know_its_stage_says_so(relaytrain, tmp_path, capsys, monkeypatch, words, said):
    pytest.importorskip("torch")
    from relaytrain.pipeline.worker import main

    prepared = json.loads(relaytrain(*TINY, *PAIR, "--prepare", str(tmp_path / "job")).out)
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert main([prepared["job"], *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("processes", [1, 3])
def test_a_worker_among_other_than_the_jobs_processes_says_so(relaytrain, tmp_path, capsys, monkeypatch, processes):
    pytest.importorskip("torch")
    from relaytrain.pipeline.worker import main

    prepared = json.loads(relaytrain(*TINY, *PAIR, "--prepare", str(tmp_path / "job")).out)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    assert main([prepared["job"]]) == 2
    assert f"torchrun: got {processes} processes, expected --nproc-per-node 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--owner", "nobody"), 2, "expected first or master"),
        (("--lr", "0"), 2, "--lr: got 0"),
        (("--minibatches", "0"), 2, "--minibatches: got 0"),
        (("--optimizer", "lamb"), 2, "expected one of sgd, momentum, adam"),
        (("--data", "nothing"), 3, "expected one of digits"),
        (("--bind", "0.0.0.0"), 2, "--certs and --at"),
        (("--keep", "all"), 2, "expected one of stash, on-demand, best-of"),
        (("--device", "pi, 1 GFLOP/s, 1 kB"), 4, "no split"),
    ],
)
def test_faults_of_a_run_are_words(relaytrain, words, status, said):
    pytest.importorskip("torch")
    call = relaytrain(*TINY, *words)
    assert (call.status, call.out) == (status, "") and said in call.err


def test_a_run_that_is_refused_leaves_nothing_that_another_would_begin_with(relaytrain, tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "snaps"
    refused = relaytrain(*TINY, *PAIR, "--folder", str(folder), "--seed", "1", "--bind", "0.0.0.0")
    assert refused.status == 2 and not folder.exists()


def test_help(relaytrain):
    call = relaytrain("pipeline", "run", "--help")
    assert call.status == 0 and "TLS" in call.out and "torchrun" in call.out and "--trusted" not in call.out

"""TLS and node keys: a relay with them, and everybody who comes without is refused."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from compare import trace
from flower_runs import MISSED, CliRun, free_port, left_behind, write_scenario
from small_relays import three_legs

import relaytrain as rt
from relaytrain.store import RunStore

pytest.importorskip("flwr")
pytestmark = [pytest.mark.train, pytest.mark.slow]
USAGE, LOST, STOPPED = 2, 7, 6
NODES = ("cloud", "edge-1", "edge-2", "far")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def certs(folder):
    options = [word for name in (*NODES, "stranger", "one-more") for word in ("--node", name)]
    made = CliRun("flower", "certs", folder / "certs", "--host", "10.1.2.3", *options)
    assert made.status() == 0 and (folder / "certs" / "nodes" / "far" / "key").stat().st_mode & 0o077 == 0
    return folder / "certs"


def test_certificates_say_what_they_are_for(certs):
    shown = subprocess.run(
        ["openssl", "x509", "-in", certs / "server.crt", "-noout", "-text"], capture_output=True, text=True, check=True
    ).stdout
    assert "IP Address:10.1.2.3" in shown and "DNS:localhost" in shown and "TLS Web Server Authentication" in shown
    subprocess.run(["openssl", "verify", "-CAfile", certs / "ca.crt", certs / "server.crt"], check=True)
    before = (certs / "nodes" / "far" / "key").read_bytes(), (certs / "ca.crt").read_bytes()
    assert CliRun("flower", "certs", certs, "--node", "far", "--node", "one-more").status() == 0
    assert ((certs / "nodes" / "far" / "key").read_bytes(), (certs / "ca.crt").read_bytes()) == before


@pytest.mark.parametrize(
    "words",
    [
        ("run", "quickstart", "--transport", "flower", "--superlink", "10.1.2.3:8000"),
        ("node", "quickstart", "--as", "cloud", "--superlink", "example.org:8000"),
        ("nodes", "--superlink", "192.168.0.7:8000"),
        ("flower", "superlink", "--address", "0.0.0.0:8000"),
    ],
)
def test_beyond_loopback_nothing_goes_in_the_clear(words):
    refused = CliRun(*words)
    assert refused.status() == USAGE and "relaytrain flower certs" in refused.said, refused.said


@pytest.fixture(scope="module")
def superlink(folder, certs):
    """A SuperLink that knows the keys of four nodes and not the stranger's."""
    address = f"127.0.0.1:{free_port()}"
    (certs / "nodes" / "stranger").rename(folder / "stranger")
    os.environ["RELAYTRAIN_TEST_MARK"] = str(folder)
    running = CliRun("flower", "superlink", "--address", address, "--certs", certs)
    running.until("SuperLink at")
    yield address
    running.process.send_signal(signal.SIGTERM)
    assert running.status() == STOPPED
    del os.environ["RELAYTRAIN_TEST_MARK"]
    assert left_behind(f"RELAYTRAIN_TEST_MARK={folder}") == []


@pytest.mark.soak
def test_a_relay_over_tls_is_the_one_in_process_and_strangers_stay_out(folder, certs, superlink):
    scenario, store = write_scenario(folder / "legs.json", three_legs(epochs=3)), folder / "runs"
    rt.run(scenario, store=store, name="in-process-run")
    at = ("--superlink", superlink)

    stranger = CliRun("node", scenario, "--as", "far", *at, "--certs", folder / "stranger")
    assert stranger.status() == LOST and "does not take this node" in stranger.said, stranger.said

    other = folder / "other"
    assert CliRun("flower", "certs", other, "--node", "far").status() == 0
    wrong = CliRun("node", scenario, "--as", "far", *at, "--certs", other / "nodes" / "far")
    assert wrong.status() == LOST and "another certificate" in wrong.said, wrong.said

    keyless = CliRun("node", scenario, "--as", "far", *at, "--certs", certs)
    assert keyless.status() == USAGE and "has no key" in keyless.said, keyless.said
    said = without_key(superlink, certs)
    assert "SuperNode ID" not in said, said

    host, port = superlink.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        assert b"200" not in plain.recv(100)

    nodes = [
        CliRun("node", scenario, "--as", name, *at, "--certs", certs / "nodes" / name, "--site", "lab")
        for name in NODES[:3]
    ]
    impostor = CliRun("node", scenario, "--as", "far", *at, "--certs", certs / "nodes" / "one-more")
    for node in (*nodes, impostor):
        node.until("joined the SuperLink")
    listed = CliRun("nodes", *at, "--certs", certs)
    assert listed.status() == 0 and "cloud" in listed.said and "not believed" in listed.said, listed.said
    impostor.process.send_signal(signal.SIGTERM)
    assert impostor.status() == STOPPED, impostor.said

    nodes.append(CliRun("node", scenario, "--as", "far", *at, "--certs", certs / "nodes" / "far"))
    nodes[-1].until("joined the SuperLink")
    options = ("--transport", "flower", *at, "--certs", certs, "--store", store, "--name", "flower-run")
    run = CliRun("run", scenario, *options)
    assert run.status() == MISSED, run.said
    opened = RunStore.open(store)
    assert trace(opened, "flower-run") == trace(opened, "in-process-run")
    for node in nodes:
        node.process.send_signal(signal.SIGTERM)
    assert [node.status() for node in nodes] == [STOPPED] * 4
    assert any("flower-run, epoch 1, cloud: loss" in line for line in nodes[0].lines), nodes[0].said


def without_key(address: str, certs: Path) -> str:
    """What Flower's own SuperNode says before it ends, with the right certificate and no key."""
    from relaytrain.executors.flower.environment import environment, program
    from relaytrain.executors.flower.nodes_here import Tethered

    command = [program("flower-supernode"), "--superlink", address, "--root-certificates", str(certs / "ca.crt")]
    log = certs.parent / "keyless.log"
    keyless = Tethered("SuperNode", [*command, "--port", str(free_port())], log, environment(certs.parent / "flwr"))
    try:
        assert keyless.process.wait(300) != 0
    finally:
        keyless.end()
    return log.read_text()

"""Three namespaces as three hosts: a relay on the measured clock over shaped links; and nobody calls home."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from pathlib import Path

import pytest
from compare import trace
from flower_runs import MISSED, CliRun, left_behind, write_scenario
from hosts import HUB, hosts, inside, needs_hosts, needs_loss, packets, send_one, sent_again, watched_host
from slow_machine import needs_slow, slow
from small_relays import staged_legs, three_legs

import relaytrain as rt
from relaytrain.core.problem import Pair
from relaytrain.relay.event_bodies import RunPast
from relaytrain.scenario import load_scenario
from relaytrain.store import RunStore

pytest.importorskip("flwr")
pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.soak, needs_hosts]
RATES = {"cloud": 100.0, "edge-1": 20.0, "far": 2.0}
"""Mbit/s."""
SLOW = "edge-1"
PASSES = 400
"""Over its data in an epoch, of every node."""
WATTS = {"cloud": 0.1, "edge-1": 1.0, "far": 6.0}
DECLARED = {
    "gold": {"seconds": 15.0, "energy": 8.0},
    "silver": {"seconds": 8.0, "energy": 40.0},
    "bronze": {"seconds": 14.0, "energy": 330.0},
}
"""About what two idle cores do; but silver's node has a third of one."""
IN_VAIN = 12
"""Times that both ends of a link send again before it is mended: some ten seconds, since they wait ever longer."""
AT = ("--superlink", f"{HUB}:8000")


def test_nobody_calls_home(tmp_path):
    scenario = write_scenario(tmp_path / "legs.json", three_legs(epochs=2))
    with watched_host() as (host, counter):
        before = packets(host, counter)
        run = CliRun(
            "run", scenario, "--transport", "flower", "--local-flower", 1, "--store", tmp_path / "runs", on=inside(host)
        )
        assert run.status() == MISSED, run.said
        assert packets(host, counter) == before
        send_one(host)
        assert packets(host, counter) > before


def legs(epochs: int) -> dict:
    """Gold, silver and bronze of one node each, on the measured clock; an epoch is more than Flower's own seconds."""
    made = three_legs(epochs=epochs, clock="measured", width=1.0, local_epochs=PASSES, lr=0.036 / PASSES)
    nodes = [{**node, "device": node["name"]} for node in made["nodes"] if node["name"] in RATES]
    devices = {name: {"flops_per_s": 1e9, "busy_w": 5.0 * w, "idle_w": w} for name, w in WATTS.items()}
    pairs = [{**row, **DECLARED.get(row["nodes"], {})} if row["energy"] < math.inf else row for row in made["pairs"]]
    sets = [{**group, "nodes": [name for name in group["nodes"] if name in RATES]} for group in made["node_sets"]]
    target = {**made["target"], "deadline": 5000.0}
    return {**made, "nodes": nodes, "node_sets": sets, "target": target, "devices": devices, "pairs": pairs}


@needs_slow
def test_three_hosts(tmp_path, monkeypatch):
    """A node vanishes and comes back; another gets a third of a processor; predictions meet what is measured."""
    monkeypatch.setenv("RELAYTRAIN_TEST_MARK", str(tmp_path))
    scenario, store, certs = write_scenario(tmp_path / "legs.json", legs(10)), tmp_path / "runs", tmp_path / "certs"
    made = CliRun("flower", "certs", certs, "--host", HUB, *(w for name in RATES for w in ("--node", name)))
    assert made.status() == 0
    with hosts(RATES) as net, slow(1 / 3) as slowly:
        hub, around = inside(net.hub), {name: slowly if name == SLOW else [] for name in RATES}
        superlink = CliRun("flower", "superlink", "--address", f"{HUB}:8000", "--certs", certs, on=hub)
        superlink.until("SuperLink at")
        nodes = {name: node_at(name, scenario, certs, [*on, *inside(net.of(name))]) for name, on in around.items()}
        for node in nodes.values():
            node.until("joined the SuperLink")
        listed = CliRun("nodes", *AT, "--certs", certs, on=hub)
        assert listed.status() == 0 and all(name in listed.said for name in RATES), listed.said
        options = ("--transport", "flower", *AT, "--certs", certs, "--store", store, "--name", "hosts-run")
        run = CliRun("run", scenario, *options, on=hub)
        next(line for line in run if line.startswith("k ") and line.split(" | ")[1].endswith("on bronze"))
        before = sent_again(net.hub) + sent_again(net.of("far"))
        net.cut("far")
        assert run.wait_for(lambda: sent_again(net.hub) + sent_again(net.of("far")) >= before + IN_VAIN)
        net.cut("far", again=True)
        assert run.status() == MISSED, run.said
        for node in (*nodes.values(), superlink):
            node.process.send_signal(signal.SIGTERM)
        assert [node.status() for node in (*nodes.values(), superlink)] == [6] * 4
    rows = predictions(store, "hosts-run")
    Path(os.environ.get("RELAYTRAIN_HOSTS_OUT", tmp_path / "hosts.json")).write_text(json.dumps(rows, indent=1))
    print(json.dumps(rows, indent=1), file=sys.stderr)
    assert {row["nodes"] for row in rows} == {"gold", "silver", "bronze"}
    assert all(row["provenance"] in ("modelled", "measured") for row in rows)
    assert left_behind(f"RELAYTRAIN_TEST_MARK={tmp_path}") == []


def test_a_pipeline_of_two_hosts(tmp_path, monkeypatch):
    """Stages link from host to host over TLS, with the nodes' certificates and the key that Flower hands out."""
    nodes = staged_relay_on_hosts(tmp_path, monkeypatch)
    assert "edge-2: stage 0" in nodes["edge-2"].said and "edge-1: stage 1" in nodes["edge-1"].said, nodes["edge-1"].said


@needs_loss
def test_links_that_lose_packets(tmp_path, monkeypatch):
    staged_relay_on_hosts(tmp_path, monkeypatch, loss_percent=2.0)


def staged_relay_on_hosts(folder: Path, monkeypatch, loss_percent: float = 0.0) -> dict[str, CliRun]:
    """A relay with a pipeline leg on four hosts comes to what it comes to in one process; what the nodes said."""
    monkeypatch.setenv("RELAYTRAIN_TEST_MARK", str(folder))
    scenario, store, certs = folder / "legs.json", folder / "runs", folder / "certs"
    write_scenario(scenario, staged_legs())
    rt.run(scenario, store=store, name="in-process-run")
    rates = {"cloud": 100.0, "edge-1": 100.0, "edge-2": 20.0, "far": 20.0}
    made = CliRun("flower", "certs", certs, "--host", HUB, *(w for name in rates for w in ("--node", name)))
    assert made.status() == 0
    with hosts(rates) as net:
        for name in rates if loss_percent else ():
            net.lose(name, loss_percent)
        hub = inside(net.hub)
        superlink = CliRun("flower", "superlink", "--address", f"{HUB}:8000", "--certs", certs, on=hub)
        superlink.until("SuperLink at")
        nodes = {name: node_at(name, scenario, certs, inside(net.of(name))) for name in rates}
        for node in nodes.values():
            node.until("joined the SuperLink")
        options = ("--transport", "flower", *AT, "--certs", certs, "--store", store, "--name", "hosts-run")
        run = CliRun("run", scenario, *options, on=hub)
        assert run.status() == MISSED, run.said
        for node in (*nodes.values(), superlink):
            node.process.send_signal(signal.SIGTERM)
        assert [node.status() for node in (*nodes.values(), superlink)] == [6] * 5
    opened = RunStore.open(store)
    assert trace(opened, "hosts-run") == trace(opened, "in-process-run")
    assert left_behind(f"RELAYTRAIN_TEST_MARK={folder}") == []
    return nodes


def node_at(name: str, scenario: Path, certs: Path, on: list[str]) -> CliRun:
    return CliRun("node", scenario, "--as", name, *AT, "--certs", certs / "nodes" / name, on=on)


def predictions(store: Path, run: str) -> list[dict]:
    """By epoch: where, the seconds predicted just before, and those measured; of its handover by itself too."""
    past, rows = RunPast.of(RunStore.open(store).events(run)), []
    pairs = load_scenario(past.started["scenario"]).problem.pairs
    for outcome in past.history:
        planned, decision = past.planned[outcome.decision.epoch], outcome.decision
        before, now = (pairs.index(pair) for pair in (Pair(*planned["state"]["pair"]), decision.pair))
        row = {
            "epoch": decision.epoch,
            "nodes": decision.nodes,
            "predicted_s": planned["predicted"]["elapsed_s"],
            "measured_s": outcome.elapsed_s,
            "energy_j": outcome.energy_j,
            "provenance": outcome.provenance,
        }
        if before != now:
            row |= {"handover_predicted_s": planned["costs"]["change_s"][before][now], "handover_s": outcome.handover_s}
        rows.append(row)
    return rows

"""The commands of the deployment guide, as they stand there, with namespaces as its three machines."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from flower_runs import CliRun, command, left_behind
from hosts import HUB, hosts, inside, needs_hosts

pytest.importorskip("flwr")
pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.soak, needs_hosts]
GUIDE = Path(__file__).parents[2] / "docs" / "deployment.md"
RATES = {"gold": 100.0, "edge": 20.0}
SCENARIO = """
schema = 1
name = "my"
target = { loss = 0.3, deadline = 600, max_epochs = 2, probability = 0.6 }
start = { loss = 2.3, version = "full", nodes = "gold" }
training = { lr = 0.02, batch = 16, when_infeasible = "continue" }
data = { source = "digits" }
[[versions]]
name = "full"
family = "cnn"
width = 0.5
parameters = 1000
flops_per_sample = 3e6
[[nodes]]
name = "cloud"
device = "box"
samples = 128
[[nodes]]
name = "edge-1"
device = "box"
samples = 64
[[node_sets]]
name = "gold"
nodes = ["cloud"]
[[node_sets]]
name = "both"
nodes = ["cloud", "edge-1"]
[devices.box]
flops_per_s = 1e9
busy_w = 5.0
idle_w = 1.0
[law]
kind = "level"
curves = [{ floor = 0.1, drop = 2.0, scale = 3.0, power = 1.0 }]
"""


def commands() -> list[str]:
    """All of the guide's that are said to have been run, in their order."""
    text = GUIDE.read_text().partition("## Not run here")[0]
    blocks = re.findall(r"^ *```\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def machine(line: str) -> str:
    """Where the guide has a command run."""
    if "--certs cloud" in line:
        return "gold"
    return "edge" if "--certs edge-1" in line else "hub"


def test_every_command_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYTRAIN_TEST_MARK", str(tmp_path))
    (tmp_path / "my.toml").write_text(SCENARIO)
    lines, waiting, staying, done = commands(), [], [], []
    assert len(lines) == 12, lines
    with hosts(RATES) as net:
        addresses = {"10.0.0.1": HUB, "10.0.0.2": net.addresses["gold"], "10.0.0.3": net.addresses["edge"]}
        namespaces = {"hub": net.hub, **{name: net.of(name) for name in RATES}}
        for line in lines:
            there = re.sub(r"10\.0\.0\.\d", lambda found: addresses[found[0]], line)
            program, *words = shlex.split(there)
            on = inside(namespaces[machine(line)])
            if program == "python":
                ran = [*on, sys.executable, *words]
                waiting.append((line, subprocess.Popen(ran, cwd=tmp_path, stdout=subprocess.PIPE, text=True)))
                continue
            run = CliRun(*words, cwd=tmp_path, on=on)
            if words[0] == "node" or words[:2] == ["flower", "superlink"]:
                run.until("joined the SuperLink" if words[0] == "node" else "SuperLink at")
                staying.append(run)
                continue
            assert run.status() in ((0, 5) if words[0] == "run" else (0,)), f"{line}\n{run.said}"
            done.append((line, run.said))
            if words[:2] == ["flower", "certs"]:
                for name in ("cloud", "edge-1"):
                    shutil.copytree(tmp_path / "certs" / "nodes" / name, tmp_path / name)
        for line, process in waiting:
            said, _ = process.communicate(timeout=300)
            assert process.returncode == 0, line
            done.append((line, said))
        for run in reversed(staying):
            run.process.send_signal(signal.SIGTERM)
            assert run.status() == 6, run.said
    for line, said in done:
        print(f"$ {line}\n{said}", file=sys.stderr)
    by = dict(done)
    listed = next(said for line, said in by.items() if line.startswith("relaytrain nodes"))
    assert "rack 4" in listed and "edge-1" in listed
    profiled = next(said for line, said in by.items() if line.startswith("relaytrain profile"))
    assert "full on both" in profiled
    assert '"kind": "loss"' in by[lines[-1]]
    assert subprocess.run(command("store", "check"), cwd=tmp_path, check=False).returncode == 0
    assert left_behind(f"RELAYTRAIN_TEST_MARK={tmp_path}") == []

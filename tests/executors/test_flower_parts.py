"""Parts of the Flower side by themselves: what nodes measured, who is there, and the process that forks apps."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from itertools import combinations
from statistics import fmean
from types import SimpleNamespace

import pytest

from relaytrain.scenario import load_scenario
from relaytrain.testing.small_training import tables

pytest.importorskip("flwr")
pytestmark = [pytest.mark.train, pytest.mark.slow]
VERSION = {"per_batch_s": 0.0, "pass_s": 0.0, "flops_per_sample": 1.0}


def measured_by(per_sample_s: float, samples: dict[str, int], joules: dict[str, float]):
    from relaytrain.executors.flower.profiling import NodeProfile

    versions = {
        name: {**VERSION, "per_sample_s": per_sample_s * k} for name, k in (("full", 3), ("half", 2), ("small", 1))
    }
    shared = {"batch": 16, "local_epochs": 1, "wall_per_cpu": 2.0, "provenance": "modelled"}
    return NodeProfile.read({"versions": versions, "samples": samples, "j_per_cpu_s": joules, **shared})


def test_a_share_of_measured_nodes_costs_what_its_draws_cost_on_average():
    """Of three nodes two are drawn: all draws counted one by one; each node's joules are by its own meter."""
    from relaytrain.executors.flower.profiling import measured_pairs

    made = tables()
    silver = {"name": "silver", "nodes": ["cloud", "edge-1", "edge-2"], "sample_share": 0.5}
    problem = load_scenario({**made, "node_sets": [made["node_sets"][0], silver]}).problem
    both = measured_by(0.02, {"edge-1": 64, "edge-2": 48}, {"edge-1": 3.0, "edge-2": 11.0})
    found = {"cloud": measured_by(0.001, {"cloud": 128}, {"cloud": 5.0}), "edge-1": both, "edge-2": both}
    rows = measured_pairs(problem, found)
    for version, factor in (("full", 3), ("half", 2), ("small", 1)):
        cpu_s = {"cloud": 0.128 * factor, "edge-1": 1.28 * factor, "edge-2": 0.96 * factor}
        joules = {node: cpu_s[node] * rate for node, rate in (("cloud", 5.0), ("edge-1", 3.0), ("edge-2", 11.0))}
        draws = list(combinations(cpu_s, 2))
        assert rows[version, "gold"] == pytest.approx((2.0 * cpu_s["cloud"], joules["cloud"]))
        assert rows[version, "silver"] == pytest.approx(
            (fmean(2.0 * max(cpu_s[n] for n in draw) for draw in draws), fmean(sum(map(joules.get, d)) for d in draws))
        )


@pytest.fixture
def in_a_run(monkeypatch):
    """Messages can only be made in a run."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class _Listed:
    """What a roster sees of a federation: numbers and registered names, and answers of whoever has some."""

    def __init__(self) -> None:
        self.there: dict[int, str] = {}
        self.answers: dict[int, dict] = {}
        self.asked = 0

    def get_nodes(self):
        return [SimpleNamespace(node_id=number, name=name) for number, name in self.there.items()]

    def push_messages(self, messages):
        keys = []
        for message in messages:
            self.asked += 1
            keys.append(f"question {self.asked} to {message.metadata.dst_node_id}")
        return keys

    def pull_messages(self, keys):
        from relaytrain.executors.flower.messages import of_about

        for key in keys:
            number = int(key.split()[-1])
            said = self.answers.get(number)
            if said is not None:
                metadata = SimpleNamespace(reply_to_message_id=key, src_node_id=number)
                content = None if "error" in said else of_about(said)
                error = SimpleNamespace(reason="it has none")
                yield SimpleNamespace(
                    metadata=metadata, content=content, error=error, has_error=lambda content=content: content is None
                )


def test_a_roster_keeps_nothing_of_nodes_that_have_gone(in_a_run):
    from relaytrain.executors.flower.roster import Roster

    grid = _Listed()
    roster = Roster(grid)
    for number in range(1, 200):  # one SuperNode that is always new, and one that never says who it is
        grid.there = {number: "edge-1", 1000 + number: "far"}
        grid.answers = {number: {"nodes": ["edge-1", "cloud"]}, 1000 + number: {"error": True}}
        assert roster.refresh() == {"edge-1": number}
    kept = [value for value in vars(roster).values() if isinstance(value, dict)]
    assert len(kept) == 4 and all(len(value) <= 2 for value in kept)


def test_an_answer_of_a_node_that_has_gone_is_not_believed(in_a_run):
    """Its registered name went with it, and without a name it could claim to be anybody."""
    from relaytrain.executors.flower.roster import Roster

    grid = _Listed()
    roster = Roster(grid)
    grid.there = {1: "edge-1"}
    assert roster.refresh() == {}
    grid.there, grid.answers = {}, {1: {"nodes": ["cloud"]}}
    assert roster.refresh() == {}
    grid.there = {1: "edge-1"}
    assert roster.refresh() == {}


class _Nonsense(http.server.BaseHTTPRequestHandler):
    """Answers that are no protobuf."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(b"\xff no protobuf")
        self.server.seen.release()

    def log_message(self, *words) -> None:
        pass


def test_who_forks_apps_survives_answers_that_are_none(capfd):
    """Until what it serves ends, whose exit status is then its own; it says what is wrong, once."""
    from relaytrain.executors.flower.apps import TaskPlace, _serve

    code = "import sys; sys.stdin.read(); sys.exit(9)"
    served = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Nonsense) as server:
        server.seen = threading.Semaphore(0)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def end_after_three() -> None:
            for _ in range(3):
                server.seen.acquire()
            served.stdin.close()

        threading.Thread(target=end_after_three, daemon=True).start()
        place = TaskPlace(f"127.0.0.1:{server.server_port}", None, b"secret")
        assert _serve("flwr-clientapp", os.abort, place, served.pid) == 9
        server.shutdown()
    served.returncode = 9  # waited for by `_serve`
    said = [line for line in capfd.readouterr().err.splitlines() if "no task from" in line]
    assert len(said) == 1 and said[0].endswith("trying on")


@pytest.mark.parametrize(("code", "words"), [("0", ""), ("3", "status 3"), ("-9", "signal 9")])
def test_a_serverapp_that_failed_is_told_of(capsys, code, words):
    from relaytrain.executors.flower.apps import is_reaped

    end = f"import os; os.kill(os.getpid(), {code[1:]})" if code.startswith("-") else f"raise SystemExit({code})"
    pid = os.posix_spawn(sys.executable, [sys.executable, "-S", "-E", "-c", end], os.environ)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert is_reaped("flwr-serverapp", pid)
    assert capsys.readouterr().err == (f"flwr-serverapp ended ({words})\n" if words else "")

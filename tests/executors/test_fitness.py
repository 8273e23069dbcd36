"""What `relaytrain node` looks at before it joins."""

from __future__ import annotations

import http.server
import threading
import time
from email.utils import formatdate

import pytest

pytest.importorskip("flwr")
from relaytrain.executors.flower import fitness as looked
from relaytrain.executors.flower.security import Link
from relaytrain.scenario import load_scenario


@pytest.fixture
def clock():
    """A server with a clock of its own: its address, and where its seconds ahead of ours are set."""
    ahead = [0.0]

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response_only(200)
            self.send_header("Date", formatdate(time.time() + ahead[0], usegmt=True))
            self.end_headers()

        def log_message(self, *words):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", ahead
    server.shutdown()
    server.server_close()


def test_a_clock_that_is_off_and_memory_that_is_short(clock, tmp_path, monkeypatch):
    address, ahead = clock
    problem = load_scenario("quickstart").problem
    words = list(looked.fitness(Link(address), problem, 32))
    assert "clock: as the SuperLink's" in words and any("MB free" in line for line in words)
    ahead[0] = 120.0
    monkeypatch.setattr(looked, "free_bytes", lambda: 1000)
    words = list(looked.fitness(Link(address), problem, 32))
    assert any("s behind the SuperLink's: set it" in line for line in words), words
    assert any("too little" in line for line in words), words


def test_what_cannot_be_known_is_left_out(tmp_path):
    assert looked.free_bytes(tmp_path / "none") is None
    (tmp_path / "meminfo").write_text("MemTotal: 10 kB\nMemAvailable:  5 kB\n")
    assert looked.free_bytes(tmp_path / "meminfo") == 5120
    assert looked.clock_ahead_s(Link("127.0.0.1:1")) is None

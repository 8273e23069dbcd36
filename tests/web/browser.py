"""A real Chromium and a real dashboard, for tests that look at pages as people do."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HERE = Path(__file__).parent
PATIENCE_S = 120.0
"""Against hangs: busy machines are slow."""


@cache
def chromium() -> str:
    """Where Chromium is; Debian's package is installed where that is wanted and allowed."""
    wanted = os.environ.get("CI") == "true" or os.environ.get("BROWSER") == "install"
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-q", *words], check=False, capture_output=True, timeout=600)
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("no Chromium here: install Debian's chromium, or run as root with BROWSER=install")
    return found


@contextmanager
def launched() -> Iterator[Any]:
    """A browser with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def line_of(process: subprocess.Popen[str], pattern: str) -> str:
    """The next line of a process that holds `pattern`."""
    assert process.stdout is not None
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        ready, _, _ = select.select([process.stdout], [], [], 1.0)
        if ready:
            line = process.stdout.readline()
            if re.search(pattern, line):
                return line
            if not line and process.poll() is not None:
                break
    raise AssertionError(f"no line with {pattern!r}; status {process.poll()}")


@contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    """`relaytrain ui` as a user starts it; its address, token included."""
    words = [sys.executable, "-m", "relaytrain", "ui", "--store", str(folder), "--port", "0", "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield line_of(process, "dashboard: ").split()[1]
    finally:
        process.terminate()
        status = process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()
        assert status == 0


class LiveRun:
    """A run that goes on when it is told to."""

    def __init__(self, folder: Path, run: str) -> None:
        self.run = run
        words = [sys.executable, str(HERE / "live_run.py"), str(folder), run]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.epoch, self.nodes = 0, ""
        self._wait()

    def _wait(self) -> None:
        words = line_of(self.process, "^(epoch|ended) ").split()
        self.epoch, self.nodes = (int(words[1]), words[2]) if words[0] == "epoch" else (-1, words[1])

    def step(self, words: str = "go") -> None:
        """One epoch more; afterwards the next one waits, or the run has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()
        self._wait()

    @property
    def ended(self) -> bool:
        return self.epoch < 0

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def live(folder: Path, run: str) -> Iterator[LiveRun]:
    """A run that is ended with the block, whatever happens in it."""
    going = LiveRun(folder, run)
    try:
        yield going
    finally:
        going.kill()

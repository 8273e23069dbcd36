"""Snapshots of tests lie in memory where they can: what dies here is a process, not the machine."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def in_memory(monkeypatch):
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setenv("TMPDIR", "/dev/shm")
        monkeypatch.setattr("tempfile.tempdir", None)

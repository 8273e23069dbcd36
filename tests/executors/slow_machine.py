"""A machine with a small share of a processor: a control group of its own. Needs root; others here do not notice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

NEEDS = "needs root and a cpu controller of control groups that can be written"
PERIOD_US = 20_000
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def _folder(name: str) -> Path:
    return (V1 if (V1 / "cpu.cfs_quota_us").exists() else V2) / name


def _make(folder: Path, share: float) -> None:
    folder.mkdir()
    quota = int(share * PERIOD_US)
    if (folder / "cpu.cfs_quota_us").exists():
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")


def can_be_slow() -> bool:
    folder = _folder(f"rt{os.getpid()}try")
    try:
        _make(folder, 0.1)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            folder.rmdir()
    return True


needs_slow = pytest.mark.skipif(not can_be_slow(), reason=NEEDS)


@contextmanager
def slow(share: float) -> Iterator[list[str]]:
    """What stands before a command that gets so much of one processor."""
    folder = _folder(f"rt{os.getpid()}slow")
    _make(folder, share)
    try:
        yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
    finally:
        with suppress(OSError):
            folder.rmdir()

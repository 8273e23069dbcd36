"""Memory of a worker as the operating system sees it: what it grew by, what it keeps, what of it is program code.

`import torch` touches far more code than training does. Code is mapped from files and never changed, so its pages may
be given back at any time: what is used again comes back from the system's cache of the file within microseconds, what
only the imports used does not.

The closed form (`planners/pipeline/stage_memory.py`) counts a stage's tensors. A process has more, `LEFT_OUT`: what it
grew by is said beside what was predicted.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

LEFT_OUT = "program code, messages under way, room that torch's kernels take while they run, gaps between tensors"
"""What a worker has that the closed form does not count."""
_DONT_NEED = 4
"""MADV_DONTNEED on Linux."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8
"""glibc's names of them for `mallopt`."""
_LARGEST_FROM_HEAP, _NEVER_TRIMMED = 2**25, 2**31 - 1
"""Blocks below this are taken from what was freed before: the most that glibc allows."""


def rss_bytes(key: str = "VmHWM") -> int:
    """This process's peak memory (`VmHWM`), what it has now (`VmRSS`), of it its own (`RssAnon`); 0 where not known."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


class MemoryGrowth:
    """What this process has grown by since this was made; nothing where the system does not say."""

    def __init__(self) -> None:
        self._began, self._peak, self._code = rss_bytes("VmRSS"), rss_bytes(), rss_bytes("RssFile")

    def growth_bytes(self) -> dict[str, int]:
        """`grown_bytes` at the peak, in all; of it `code_bytes` by now, mapped from files and shared with others.

        The system's own peak counts where it is of this time; one of before (imports, given back since) does not.
        """
        peak = rss_bytes()
        grown = (peak if peak > self._peak else rss_bytes("VmRSS")) - self._began
        return {"grown_bytes": max(0, grown), "code_bytes": max(0, rss_bytes("RssFile") - self._code)}


def keep_freed() -> None:
    """Have this process keep what it frees for its next tensors: all minibatches are alike, so it is needed again.

    Memory that was given back would come back page by page, zeroed, with every action. With glibc only.
    """
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        tune(_MMAP_THRESHOLD, _LARGEST_FROM_HEAP)
        tune(_TRIM_THRESHOLD, _NEVER_TRIMMED)
        tune(_ARENAS, 1)  # threads of links take from the same


def release_code() -> None:
    """Give back the pages of program code; on systems other than Linux nothing happens."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        give_back = ctypes.CDLL(None).madvise
        give_back.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        with open("/proc/self/maps", encoding="utf-8") as maps:
            entries = [line.split(maxsplit=5) for line in maps]
        for where, allowed, *_, name in (entry for entry in entries if len(entry) == 6):
            if allowed == "r-xp" and name.startswith("/"):  # of files, executable, and so never written to
                begin, end = (int(edge, 16) for edge in where.split("-"))
                give_back(begin, end - begin, _DONT_NEED)

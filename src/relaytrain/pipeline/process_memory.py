"""Memory of a process that is program code: `import torch` touches far more of it than training does.

Code is mapped from files and never changed, so its pages may be given back at any time: what is used again comes back
from the system's cache of the file within microseconds, what only the imports used does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

_DONT_NEED = 4
"""MADV_DONTNEED on Linux."""


def rss_bytes(key: str = "VmHWM") -> int:
    """This process's peak memory (`VmHWM`), what it has now (`VmRSS`), of it its own (`RssAnon`); 0 where not known."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


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

"""mcPipe's Theorem 1 as printed."""

from __future__ import annotations

import math


def theorem_1(total: float, workers: int, m: int) -> float:
    """Theorem 1 in numbers stored, not bytes: Omega/N + 2 (m - 1) sqrt(Omega/N)."""
    share = total / workers
    return share + 2 * (m - 1) * math.sqrt(share)

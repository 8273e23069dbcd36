"""Which nodes of a set train in an epoch, where only a share of them does."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def sampled_nodes(nodes: Sequence[str], count: int, *, seed: int, epoch: int) -> tuple[str, ...]:
    """`count` of the nodes, in their order, each as likely as any other; a function of seed, epoch and names alone."""
    if count >= len(nodes):
        return tuple(nodes)

    def lot(node: str) -> bytes:
        return hashlib.sha256(f"relaytrain/sample/{seed}/{epoch}/{node}".encode()).digest()

    drawn = set(sorted(nodes, key=lot)[:count])
    return tuple(node for node in nodes if node in drawn)

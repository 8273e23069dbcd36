"""Images with labels: readers, domains, and their division among nodes. Arrays only; torch is not needed here."""

from __future__ import annotations

from .dataset import Dataset, select, union
from .partition import by_class, by_size, dirichlet, iid, split
from .source import read

__all__ = ["Dataset", "by_class", "by_size", "dirichlet", "iid", "read", "select", "split", "union"]

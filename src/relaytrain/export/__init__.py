"""A finished run for others: what it trained, and what its epochs showed.

Read in this order: `epoch_table` (its epochs as CSV or Parquet), `run_traces` (as traces to learn from),
`network_formats` (the bytes of every kind of file), `exported_network` (what it trained), `export_readme` (what is
said beside it).
"""

from __future__ import annotations

from pathlib import Path

from ..core.errors import UsageError


def empty_folder(folder: str | Path, *, force: bool) -> Path:
    """`folder`, if it is missing or empty, or if `force` lets other files be."""
    place = Path(folder)
    if place.is_dir() and any(place.iterdir()) and not force:
        raise UsageError(f"{place}: not empty; choose another folder, or add --force to write into it")
    return place

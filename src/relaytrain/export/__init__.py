"""A finished run for others: `exported_network` writes what it trained, `run_traces` what its epochs showed.

`network_formats` has the bytes of every kind of file.
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

"""The checkpoint that a run starts from, where the scenario names a file of one."""

from __future__ import annotations

from pathlib import Path

from ..core.errors import ScenarioError
from ..store.files import read_regular
from .checkpoint import Checkpoint

START_LIMIT_BYTES = 1 << 32
"""The largest `start` file that is read."""


def start_file(path: Path, folder: Path | None) -> Checkpoint:
    """The checkpoint that `training.start` names, of any origin; a relative path is seen from `folder`."""
    place = path if folder is None or path.is_absolute() else folder / path
    try:
        data = read_regular(place, START_LIMIT_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(
            f"training.start: cannot read {path} ({reason}); expected a checkpoint, and no link to one"
        ) from None
    return Checkpoint.from_bytes(data, where=f"training.start: {path}")

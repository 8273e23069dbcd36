"""Finished trainings kept beside the figures: a reproduction that is interrupted, or asked for more, goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import UsageError
from ..store.files import make_dir, write_atomic


def kept(
    folder: Path,
    name: str,
    of: Mapping[str, Any],
    train: Callable[[], Any],
    enough: Callable[[Any], bool] = lambda result: True,
) -> Any:
    """What a training gave, as JSON has it: read if its file is there and it is `enough`, else trained and written.

    The file is called `name` and a digest of `of`, all that the training depends on.
    """
    used = json.loads(json.dumps(of))
    digest = hashlib.sha256(json.dumps(used, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"{name}-{digest}.json"
    try:
        known = json.loads(path.read_text("utf-8"))
        if known["of"] == used and enough(known["result"]):
            return known["result"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    result = json.loads(json.dumps(train()))
    make_dir(folder)
    write_atomic(path, json.dumps({"of": used, "result": result}))
    return result


def at_least_one(seeds: int) -> int:
    """A number of seeds that can be trained."""
    if seeds < 1:
        raise UsageError(f"seeds: got {seeds}, expected at least 1")
    return seeds

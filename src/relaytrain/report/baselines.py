"""What other ways to train came to, as rows to set beside a run: trained themselves, or only predicted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core.errors import ScenarioError, UsageError
from ..core.explain import say_share
from .event_fields import number, text

How = Literal["trained", "predicted"]
MAX_BYTES = 1 << 20
MAX_ROWS = 100


@dataclass(frozen=True)
class Baseline:
    """One way to train. `success` is True or False for one run, a share of runs for several, None when unknown."""

    name: str
    energy_j: float | None
    success: float | None
    how: How
    elapsed_s: float | None = None
    loss: float | None = None

    @classmethod
    def of(cls, row: Any, where: str = "baselines") -> Baseline:
        """From a table with name, energy (or energy_j), success, how, and perhaps elapsed_s and loss."""
        if not isinstance(row, Mapping) or not text(row.get("name")):
            raise ScenarioError(f"{where}: got {str(row)[:80]}, expected a table with name, energy, success and how")
        how = row.get("how", "predicted")
        if how not in ("trained", "predicted"):
            raise ScenarioError(f"{where}.how: got {str(how)[:40]!r}, expected trained or predicted")
        success = row.get("success")
        share = float(success) if isinstance(success, bool) else number(success)
        if share is not None and not 0.0 <= share <= 1.0:
            raise ScenarioError(f"{where}.success: got {share:g}, expected true, false or a share from 0 to 1")
        energy_j = number(row.get("energy_j", row.get("energy")))
        return cls(text(row["name"]), energy_j, share, how, number(row.get("elapsed_s")), number(row.get("loss")))

    @property
    def succeeded(self) -> str:
        """In a word or a share."""
        if self.success is None:
            return "unknown"
        return {0.0: "no", 1.0: "yes"}.get(self.success, say_share(self.success))


def read_baselines(path: Path) -> tuple[Baseline, ...]:
    """A JSON file with a list of rows."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ScenarioError(f"{path}: more than {MAX_BYTES} bytes, expected a short list of baselines")
        rows = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ScenarioError(f"{path}: not readable as JSON, expected a list of baselines") from None
    if not isinstance(rows, list) or len(rows) > MAX_ROWS:
        raise ScenarioError(f"{path}: expected a list of at most {MAX_ROWS} baselines")
    return tuple(Baseline.of(row, f"{path}: [{index}]") for index, row in enumerate(rows))

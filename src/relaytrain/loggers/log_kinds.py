"""A tool to log to by its name: `tensorboard=DIR`, `mlflow=DIR-or-URI`, `wandb=DIR`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..core.errors import UsageError, did_you_mean, need_packages
from .log_entries import LogEntry

LOGS = ("tensorboard", "mlflow", "wandb")
PLACES = {"tensorboard": "DIR", "mlflow": "DIR or tracking URI", "wandb": "DIR (offline)"}


class RunLog(Protocol):
    """A run in another tool's form. `new`: entries that were not there yet; `where`: what to point the tool at."""

    new: int

    @property
    def where(self) -> str:
        """The place, in the tool's own words."""
        ...

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Add entries, in order, from the run's first event; those that are there already are left out."""
        ...

    def close(self) -> None:
        """All that was written is the tool's to read."""
        ...


@dataclass(frozen=True)
class LogTarget:
    """Which tool, and where."""

    kind: str
    place: str

    @classmethod
    def of(cls, text: str, *, option: str = "--log") -> LogTarget:
        """`KIND=PLACE`, checked for form and for the package that it needs."""
        kind, equals, place = text.partition("=")
        if kind not in LOGS:
            known = ", ".join(f"{name}={PLACES[name]}" for name in LOGS)
            raise UsageError(f"{option}: got '{text[:60]}', expected {known}{did_you_mean(kind, LOGS)}")
        if not equals or not place or not place.isprintable():
            raise UsageError(f"{option}: got '{text[:60]}', expected {kind}={PLACES[kind]}")
        need_packages(f"{option} {kind} needs", {kind: "export"})
        return cls(kind, place)

    def __str__(self) -> str:
        return f"{self.kind}={self.place}"

    def open(self, run: str) -> RunLog:
        """The log of `run` there; its tool is imported."""
        if self.kind == "tensorboard":
            from .tensorboard_log import TensorBoardLog

            return TensorBoardLog(self.place, run)
        if self.kind == "mlflow":
            from .mlflow_log import MlflowLog

            return MlflowLog(self.place, run)
        from .wandb_log import WandbLog

        return WandbLog(self.place, run)

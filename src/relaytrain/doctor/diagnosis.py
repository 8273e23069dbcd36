"""What a look at anything comes to: one thing, how bad it is, and what helps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Diagnosis:
    """One thing looked at. `error` stands in the way of a run, `warning` may spoil it, `note` is good to know."""

    level: Level
    where: str
    what: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """Where, what, and what helps."""
        return f"{self.where}: {self.what}" + (f"; {self.remedy}" if self.remedy else "")

    def __str__(self) -> str:
        return f"{self.level}: {self.words}"

    def to_dict(self) -> dict[str, str]:
        """Plain JSON values."""
        return asdict(self)


def install(extra: str) -> str:
    """The command that brings an extra of relaytrain."""
    return "pip install relaytrain" if extra == "core" else f"pip install 'relaytrain[{extra}]'"

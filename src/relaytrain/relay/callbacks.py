"""What a user hangs into a run from Python: functions called after an epoch, after a handover and at the end.

They are called when what they tell of is safe in the store. An exception in one is the user's, with file and line: the
run ends as "failed" with nothing lost, and can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.errors import RelayTrainError, UsageError
from ..core.user_code import LONGEST, UserCodeError, place_of
from .job import Ended, HandoverMade, Line, Notice, Told

OnEpoch = Callable[[Line], object]
OnHandover = Callable[[HandoverMade], object]
OnVerdict = Callable[[Any], object]


@dataclass(frozen=True)
class Callbacks:
    """Hears a run for several: `told` first, then the user's functions."""

    told: Told | None = None
    on_epoch: OnEpoch | None = None
    on_handover: OnHandover | None = None
    on_verdict: OnVerdict | None = None

    def __post_init__(self) -> None:
        for name in ("on_epoch", "on_handover", "on_verdict"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise UsageError(f"{name}: got {given!r:.60}, expected a function of one argument")

    def __call__(self, line: Line) -> None:
        """An epoch that is safe."""
        if self.told is not None:
            self.told(line)
        _call("on_epoch", self.on_epoch, line)

    def happened(self, notice: Notice) -> None:
        """Anything else, as it happens, for `told` alone."""
        heard = getattr(self.told, "happened", None)
        if heard is not None:
            heard(notice)

    def handed_over(self, handover: HandoverMade) -> None:
        """A handover that is safe."""
        _call("on_handover", self.on_handover, handover)

    def concluded(self, ended: Ended) -> None:
        """The verdict is recorded."""
        _call("on_verdict", self.on_verdict, ended)


def _call(name: str, function: Callable[[Any], object] | None, value: Any) -> None:
    if function is None:
        return
    try:
        function(value)
    except RelayTrainError:
        raise
    except Exception as error:
        module = getattr(function, "__module__", "") or ""
        place = place_of(error, f"{name} {module}:{getattr(function, '__qualname__', '')}")
        words = " ".join(str(error).split())[:LONGEST]
        said = f"{place or name}: {type(error).__name__}{': ' if words else ''}{words} (in {name})"
        go_on = "" if name == "on_verdict" else ", and it can be resumed"
        raise UserCodeError(f"{said}; what the run had done is kept{go_on}") from error

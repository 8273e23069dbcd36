"""Every error a user can meet, and the exit status each one means.

::

    RelayTrainError            1   our bug, unless a subclass says otherwise
    +-- UsageError             2   the call's words are off
    +-- ScenarioError          3   the scenario (or another input file) is wrong
    |   +-- UserCodeError      3   code that the scenario names failed (in `user_code`)
    +-- InfeasibleError        4   no plan can meet the target
    +-- TargetMissed           5   the run ended above its target
    +-- StoppedByUser          6   Ctrl-C or `relaytrain stop`
    +-- WorkerLost             7   too few nodes answered
    +-- NonFiniteTraining      8   losses stayed NaN or infinite after roll-backs
    |   +-- ImplausibleTraining    or were such as no training makes
    +-- StoreDamaged           9   no usable checkpoint or event log is left
    +-- NoSpace               10   the disk refused to hold more
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec


class RelayTrainError(Exception):
    """The root of the tree; `exit_status` is what the command line ends with."""

    exit_status: int = 1


class UsageError(RelayTrainError):
    """A command or function was called with arguments that do not fit."""

    exit_status = 2


class ScenarioError(RelayTrainError):
    """An input file is wrong: the message names file, line, key, what was got and what is expected."""

    exit_status = 3


class InfeasibleError(RelayTrainError):
    """The target cannot be met; the message carries the nearest targets that can."""

    exit_status = 4


class TargetMissed(RelayTrainError):
    """A run ended, in order, without reaching its target."""

    exit_status = 5


class StoppedByUser(RelayTrainError):
    """A run was stopped on purpose and can be resumed."""

    exit_status = 6


class WorkerLost(RelayTrainError):
    """Too few nodes answered for the epoch to count."""

    exit_status = 7


class NonFiniteTraining(RelayTrainError):
    """Training kept producing NaN or infinity after the allowed roll-backs."""

    exit_status = 8


class ImplausibleTraining(NonFiniteTraining):
    """A loss that is a number, but none that training arrives at: somebody's update was wrong, or it diverged."""


class StoreDamaged(RelayTrainError):
    """A run's store has no usable state left."""

    exit_status = 9


class NoSpace(RelayTrainError):
    """The file system refused to hold more."""

    exit_status = 10


def interrupted(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or was made of one: compiled code turns it into a SystemError."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: `; did you mean 'x'?`, or nothing where no known name is near."""
    import difflib  # only those who mistype pay for it

    near = difflib.get_close_matches(str(name)[:80], list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


LEARNING = {"sklearn": "estimators", "torch": "train"}
"""Packages that learning an estimator needs -> the extra of relaytrain that brings each."""


def need_packages(who_needs: str, packages: Mapping[str, str]) -> None:
    """Refuse in a sentence that begins with `who_needs` when one of `packages` (name -> extra) is not installed."""
    for package, extra in packages.items():
        if find_spec(package) is None:
            raise UsageError(f"{who_needs} {package}, which is not installed: pip install 'relaytrain[{extra}]'")

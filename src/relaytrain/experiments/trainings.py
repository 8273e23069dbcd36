"""What figures that train share: PyTorch, a data set that is here, and who is told meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from ..core.errors import ScenarioError, UsageError

Progress = Callable[[str], None]
SIZES = {"digits": "8x8", "cifar10": "16x16 (halved)", "fashion-mnist": "14x14 (halved)"}
"""Images as they are trained on, by data set."""


def nothing(line: str) -> None:
    """Nobody wants to be told."""


def need_torch(figure: str) -> None:
    """Refuse in a sentence when PyTorch is missing."""
    if find_spec("torch") is None:
        raise UsageError(
            f"reproduce: {figure} trains, which needs PyTorch; install it: pip install 'relaytrain[train]'"
        )


def data_set(wanted: tuple[str, ...]) -> tuple[str, str | None]:
    """The first of `wanted` on this machine, and what to do to get the first of all, where that is another."""
    from ..data.source import read

    why = None
    for name in wanted:
        try:
            read(name, split="test")
        except (ScenarioError, ModuleNotFoundError) as error:
            why = why or f"{wanted[0]} is not here ({error})"
            continue
        return name, why
    return "digits", why

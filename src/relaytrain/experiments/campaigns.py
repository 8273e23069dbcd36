"""The traces that figures are drawn from: those that ship, or those in the folder of $RELAYTRAIN_TRACES."""

from __future__ import annotations

from ..core.errors import UsageError
from ..traces.format import bundled_traces
from ..traces.trace import TraceSet


def campaigns(only: str | None = None) -> dict[str, TraceSet]:
    """Campaigns by name, all or one."""
    found = bundled_traces()
    if only is None:
        return found
    if only not in found:
        raise UsageError(f"campaign: got '{only}', expected one of {', '.join(sorted(found))}")
    return {only: found[only]}


def need_learning() -> None:
    """Refuse in a sentence when a package for learning is missing."""
    from importlib.util import find_spec

    for package, extra in (("sklearn", "estimators"), ("torch", "train")):
        if find_spec(package) is None:
            raise UsageError(f'reproduce: this table learns with {package}: pip install "relaytrain[{extra}]"')

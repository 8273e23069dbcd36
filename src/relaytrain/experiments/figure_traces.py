"""The traces that figures are drawn from: those that ship, or those in the folder of $RELAYTRAIN_TRACES."""

from __future__ import annotations

from ..core.errors import LEARNING, UsageError, need_packages
from ..traces.trace import TraceSet
from ..traces.trace_files import bundled_traces


def campaigns(only: str | None = None) -> dict[str, TraceSet]:
    """Campaigns like PACT's (gold, silver, bronze) by name, all or one."""
    known = {name: traces for name, traces in bundled_traces().items() if not _of_depl(name)}
    if not known:
        raise UsageError(
            "traces: got DepL's alone, expected a campaign with gold, silver and bronze nodes, e.g. preset v16s"
        )
    if only is None:
        return known
    if only not in known:
        raise UsageError(f"campaign: got '{only}', expected one of {', '.join(sorted(known))}")
    return {only: known[only]}


def depl_campaign(network: str = "AlexNet", *, switched: bool = False) -> tuple[str, TraceSet]:
    """The campaign like DepL's (two clusters, test loss) with a network.

    Of several: with `switched` the one with the most ways of switching, else the one with the most seeds; then the
    largest. Traces tell their network in `model` of `meta.json`; those that do not say MobileNet count as AlexNet's.
    """
    known = {
        name: traces for name, traces in bundled_traces().items() if _of_depl(name) and _network(traces) == network
    }
    if not known:
        preset = "depl-small-mobilenet" if network == "MobileNet" else "depl-small"
        wanted = f"expected some: relaytrain collect --preset {preset} DIR"
        raise UsageError(f"traces: got none of DepL's campaign with {network}, {wanted}")

    def size(name: str) -> tuple[int, int]:
        traces = known[name]
        return _ways(traces) if switched else len(traces.seeds), traces.images

    name = max(known, key=size)
    return name, known[name]


def _ways(traces: TraceSet) -> int:
    """How many switches differ in more than the seed."""
    return len({(s.k, s.run) for s in traces.switches})


def _network(traces: TraceSet) -> str:
    return "MobileNet" if str(traces.meta.get("model", "")).startswith("MobileNet") else "AlexNet"


def _of_depl(name: str) -> bool:
    return name.startswith("depl")


def need_learning() -> None:
    """Refuse in a sentence when a package for learning is missing."""
    need_packages("reproduce: this table learns with", LEARNING)

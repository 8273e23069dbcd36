"""Trace format v1: a folder of `meta.json`, `epochs.csv` and `switches.csv` (or `.csv.gz`), read and written.

Numbers are written so that reading gives them back exactly. Nothing is written that `read_traces` would refuse.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple, replace
from functools import cache
from pathlib import Path

from ..core.errors import ScenarioError
from ..store.files import make_dir, write_atomic
from .trace import TraceSet
from .trace_reader import EPOCH_COLUMNS, FORMAT, SWITCH_COLUMNS, build, read_traces

TRACES_VARIABLE = "RELAYTRAIN_TRACES"
"""Names a folder of traces that takes the place of the bundled ones."""
LINE = "\r\n"
"""As RFC 4180 ends the rows of a CSV file; a plain line feed is read as well."""
BUNDLED = Path(__file__).parent / "data"
__all__ = ["BUNDLED", "FORMAT", "TRACES_VARIABLE", "bundled_traces", "merged", "read_traces", "write_traces"]


def write_traces(traces: TraceSet, folder: str | Path, *, compress: bool = False) -> None:
    """Write a trace folder; equal traces give equal bytes. `meta.json` comes last, so a folder that has it is whole.

    Args:
        traces: what to write; checked as a reader would.
        folder: made when it is not there.
        compress: `epochs.csv.gz` and `switches.csv.gz`, without time stamps.
    """
    folder = make_dir(folder)
    tables = {"epochs.csv": _epochs(traces), "switches.csv": _switches(traces)}
    meta = json.dumps({"format": FORMAT, **traces.meta}, indent=1, ensure_ascii=True) + "\n"
    build(meta, {name: (str(folder / name), text) for name, text in tables.items()}, str(folder / "meta.json"))
    for name, text in tables.items():
        data = gzip.compress(text.encode(), mtime=0) if compress else text.encode()
        write_atomic(folder / (f"{name}.gz" if compress else name), data)
    write_atomic(folder / "meta.json", meta)


def bundled_traces() -> dict[str, TraceSet]:
    """The traces that ship with RelayTrain by campaign, or those in the folder that $RELAYTRAIN_TRACES names.

    That folder is a trace folder, or holds trace folders; folders made the same way (equal `meta.json`) with other
    seeds are taken as one campaign. A campaign is named by its `preset`, else by its folder.
    """
    given = os.environ.get(TRACES_VARIABLE)
    return read_campaigns(Path(given), f"${TRACES_VARIABLE}") if given else dict(_shipped())


@cache
def _shipped() -> dict[str, TraceSet]:
    return read_campaigns(BUNDLED, "bundled traces")


def read_campaigns(folder: Path, what: str = "traces") -> dict[str, TraceSet]:
    """All campaigns in `folder`: itself a trace folder, or one that holds some."""
    if (folder / "meta.json").exists() or not folder.is_dir():
        places = [folder]
    else:
        places = sorted(p for p in folder.iterdir() if (p / "meta.json").exists())
    if not places:
        raise ScenarioError(f"{folder}: got no meta.json ({what}), expected a trace folder or one that holds some")
    campaigns: dict[str, TraceSet] = {}
    for place in places:
        traces = read_traces(place)
        name = str(traces.meta.get("preset", place.name))
        if name in campaigns and _without_seeds(campaigns[name].meta) != _without_seeds(traces.meta):
            name = place.name
        campaigns[name] = merged([campaigns[name], traces], str(place)) if name in campaigns else traces
    return campaigns


def merged(parts: Iterable[TraceSet], where: str = "traces") -> TraceSet:
    """Traces of other seeds of one campaign as one set, ordered by seed and run."""
    parts = list(parts)
    seen: set[int] = set()
    for part in parts:
        twice = seen & set(part.seeds)
        if twice:
            raise ScenarioError(f"{where}: got seed {min(twice)} twice, expected every seed of a campaign once")
        seen |= set(part.seeds)
    segments = sorted((s for part in parts for s in part.segments), key=lambda s: (s.seed, s.run))
    return replace(parts[0], segments=tuple(segments))


def _without_seeds(meta: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in meta.items() if key not in {"seed", "seeds"}}


def _epochs(traces: TraceSet) -> str:
    lines = [",".join(EPOCH_COLUMNS)]
    for s in traces.segments:
        start = s.seed, s.run, "" if s.parent is None else s.parent, s.stage
        data = s.node_set, s.classes, s.samples, s.pruned_fraction
        for i in range(len(s)):
            cells = (*start, s.k[i], i + 1, *data, s.train_loss[i], s.test_loss[i], s.test_accuracy[i])
            lines.append(",".join(_cell(cell) for cell in cells))
    return LINE.join(lines) + LINE


def _switches(traces: TraceSet) -> str:
    rows = (",".join(_cell(cell) for cell in astuple(switch)) for switch in traces.switches)
    return LINE.join([",".join(SWITCH_COLUMNS), *rows]) + LINE


def _cell(value: object) -> str:
    if isinstance(value, float):  # numpy's too
        return repr(float(value)).removesuffix(".0")
    return str(value)

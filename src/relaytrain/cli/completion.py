"""What a shell offers after the Tab key: presets and files, runs, planners, keys of a scenario, nodes.

Standard library alone, and no error: whoever types waits, and wants no message in the middle of a line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import typer

SCENARIOS = Path(__file__).parent.parent / "scenario"
MOST = 200
ESTIMATORS = ("prior", "auto", "paper", "zero-trace")

Completer = Callable[[typer.Context, str], list[str]]


def preset_names() -> list[str]:
    """The scenarios that ship, by their files."""
    return sorted(file.stem for file in (SCENARIOS / "presets").glob("*.toml"))


def among(names: Iterable[str]) -> Completer:
    """Offers these names."""

    def offered(context: typer.Context, incomplete: str) -> list[str]:
        return _fitting(names, incomplete)

    return offered


def scenarios(context: typer.Context, incomplete: str) -> list[str]:
    """Presets, scenario files and the folders on the way to them."""
    return _fitting([*preset_names(), *_files(incomplete)], incomplete)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Runs of the store that the command will read, the one begun last first."""
    import sqlite3

    folder = context.params.get("store") or os.environ.get("RELAYTRAIN_STORE") or "relaytrain-runs"
    with suppress(sqlite3.Error, OSError, ValueError):
        file = (Path(folder) / "runs.sqlite").resolve(strict=True)
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
            rows = connection.execute("SELECT run FROM event WHERE seq = 1 ORDER BY wall_s DESC")
            return _fitting([row[0] for row in rows], incomplete)
    return []


def keys(context: typer.Context, incomplete: str) -> list[str]:
    """Keys of a scenario that `--set` may change, each with its `=`; a table's own keys once its name is typed."""
    with suppress(OSError, ValueError, KeyError):
        schema = json.loads((SCENARIOS / "scenario.schema.json").read_bytes())
        return _fitting([f"{key}=" for key in _leaves(schema, schema, ())], incomplete)
    return []


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Node sets and nodes of the scenario that is named before."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        tables = _tables(str(context.params.get("scenario") or "quickstart"))
        named = [row.get("name") for key in ("node_sets", "nodes") for row in tables.get(key, ())]
        return _fitting([name for name in named if isinstance(name, str)], incomplete)
    return []


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)][:MOST]


def _files(incomplete: str) -> Iterator[str]:
    """TOML and JSON files, and folders with a slash, that begin so."""
    above, _, _ = incomplete.rpartition("/")
    with suppress(OSError):
        for entry in sorted(os.scandir(above or ("/" if incomplete.startswith("/") else ".")), key=lambda e: e.name):
            path = f"{above}/{entry.name}" if "/" in incomplete else entry.name
            if entry.name.startswith(".") and not incomplete.rpartition("/")[2].startswith("."):
                continue
            if entry.is_dir():
                yield f"{path}/"
            elif entry.name.endswith((".toml", ".json")):
                yield path


def _tables(scenario: str) -> Mapping[str, Any]:
    import tomllib

    path = SCENARIOS / "presets" / f"{scenario}.toml" if scenario in preset_names() else Path(scenario)
    text = path.read_text(encoding="utf-8")
    tables: Mapping[str, Any] = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    return tables


def _leaves(schema: Mapping[str, Any], table: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    """Dotted keys of everything in `table` that is a value and no table."""
    for name, value in table.get("properties", {}).items():
        below = _table_of(schema, value)
        if below is None or len(above) > 4:
            yield ".".join((*above, name))
        else:
            yield from _leaves(schema, below, (*above, name))


def _table_of(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The table that a key holds, if it holds one."""
    for choice in (value, *value.get("anyOf", ()), *value.get("allOf", ())):
        definition = schema["$defs"].get(choice.get("$ref", "").rpartition("/")[2])
        if definition is not None and "properties" in definition:
            table: Mapping[str, Any] = definition
            return table
    return None

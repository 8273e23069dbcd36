"""Writes the reference pages before every build, from the code itself: verbs, scenario tables, public names.

Nothing of `docs/reference/` is written by hand or kept in the repository: what the command line, the
schema and `relaytrain.__all__` say is what the pages say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import click
import typer

import relaytrain


def setup(app: Any) -> dict[str, bool]:
    """Sphinx asks for this."""
    app.connect("autodoc-process-docstring", _as_markdown_means_it)
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _as_markdown_means_it(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written with single backticks; reStructuredText wants two."""
    lines[:] = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``\\ ", "\n".join(lines)).split("\n")


def write_pages(folder: Path) -> None:
    """All three."""
    pages = {"command-line.md": command_line(), "scenario.md": scenario_tables(), "python.md": public_names()}
    for name, text in pages.items():
        page = folder / name
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def command_line() -> str:
    """Every verb with the help it prints."""
    from relaytrain.cli.app import GROUPS, VERBS, _app

    root = typer.main.get_command(_app((*VERBS, *GROUPS)))
    parts = ["# Command line", "", "As `relaytrain VERB --help` prints it.", ""]
    for names, command in _verbs(root, ("relaytrain",)):
        context = click.Context(command, info_name=" ".join(names), terminal_width=100, max_content_width=100)
        parts += [
            f"## {' '.join(names[1:])}",
            "",
            "```text",
            click.unstyle(command.get_help(context)).rstrip(),
            "```",
            "",
        ]
    return "\n".join(parts)


def _verbs(command: click.Command, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield names, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None:
            yield from _verbs(found, (*names, name))


def scenario_tables() -> str:
    """Every table of a scenario with its keys, from the JSON Schema that editors complete by."""
    schema = json.loads(resources.files("relaytrain.scenario").joinpath("scenario.schema.json").read_text())
    parts = ["# Scenario tables", "", "What a key means in detail, with units, is in [formats](../formats.md).", ""]
    parts += _table("the file itself", schema, schema)
    for name in sorted(schema.get("$defs", {})):
        definition = schema["$defs"][name]
        if definition.get("properties"):
            parts += _table(definition.get("title", name), definition, schema)
    return "\n".join(parts)


def _table(title: str, table: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    lines = [f"## {title}", ""]
    if table.get("description"):
        lines += [table["description"].strip(), ""]
    lines += ["| key | takes | default | |", "|---|---|---|---|"]
    required = set(table.get("required", ()))
    for key, entry in table.get("properties", {}).items():
        default = "needed" if key in required else json.dumps(entry["default"]) if "default" in entry else ""
        meaning = " ".join(entry.get("description", "").split())
        lines.append(f"| `{key}` | {_cell(_kind(entry))} | {_cell(default)} | {_cell(meaning)} |")
    return [*lines, ""]


def _kind(entry: dict[str, Any]) -> str:
    if "$ref" in entry:
        return f"table {entry['$ref'].rsplit('/', 1)[-1]}"
    if "const" in entry:
        return json.dumps(entry["const"])
    if "enum" in entry:
        return ", ".join(json.dumps(value) for value in entry["enum"])
    for several in ("anyOf", "oneOf"):
        if several in entry:
            return " or ".join(dict.fromkeys(_kind(part) for part in entry[several]))
    if entry.get("type") == "array":
        return f"list of {_kind(entry.get('items', {}))}"
    if entry.get("type") == "object" and isinstance(entry.get("additionalProperties"), dict):
        return f"names with {_kind(entry['additionalProperties'])}"
    kind = entry.get("type", "anything")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def public_names() -> str:
    """`relaytrain.__all__`, classes with their public members."""
    parts = ["# Python", "", "The names of `import relaytrain as rt`. They are imported when they are first used.", ""]
    for name in relaytrain.__all__:
        value = getattr(relaytrain, name)
        directive = "autoclass" if isinstance(value, type) else "autofunction"
        if isinstance(value, type) and issubclass(value, Exception):
            directive = "autoexception"
        options = [":members:"] if directive == "autoclass" else []
        parts += [f"## {name}", "", "```{eval-rst}", f".. {directive}:: {value.__module__}.{value.__qualname__}"]
        parts += [f"   {option}" for option in options]
        parts += ["```", ""]
    return "\n".join(parts)

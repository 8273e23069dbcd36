"""What is wrong with a scenario, in one message: `file:line: key: got X, expected Y`, up to five of them."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from ..core.errors import ScenarioError, did_you_mean
from .fields import KeyPath, shown
from .read import Document
from .schema import ScenarioFile

MAX_SHOWN = 5
_WORDS = {
    "list_type": "a list",
    "bool_type": "true or false",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "string_type": "a text",
}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, at one key."""

    path: KeyPath
    got: str
    expected: str


def raise_faults(document: Document, faults: list[Fault]) -> None:
    """Raise one `ScenarioError` for all of `faults`; nothing happens when there are none."""
    if not faults:
        return
    lines = [_line(document, fault) for fault in faults[:MAX_SHOWN]]
    if len(faults) > MAX_SHOWN:
        lines.append(f"... and {len(faults) - MAX_SHOWN} more of the kind")
    raise ScenarioError("\n".join(lines))


def _line(document: Document, fault: Fault) -> str:
    return f"{_where(document, fault.path)}: {key_text(fault.path)}: got {fault.got}, expected {fault.expected}"


def _where(document: Document, path: KeyPath) -> str:
    for override, text in document.overrides.items():
        if path[: len(override)] == override or override[: len(path)] == path:
            return f"{document.label} with --set {shown(text)[1:-1]}"
    from .lines import find_line  # its patterns take a hundredth of a quick verb, and a sound file needs none

    line = find_line(document.text, path, json=document.is_json) if document.text else None
    return document.label if line is None else f"{document.label}:{line}"


YOURS_TO_SAY: dict[KeyPath, str] = {
    ("target", "loss"): ": what is to be reached, which only you know; write it there, or --set target.loss=NUMBER"
}
"""What `new` has to leave out: nobody else can fill it in, so its absence says how to."""


def key_text(path: KeyPath) -> str:
    """`("pairs", 2, "seconds")` -> `pairs[2].seconds`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part if part.replace("_", "").replace("-", "").isalnum() and part.isascii() else shown(part)
            text += f".{plain}" if text else plain
    return text or "scenario"


def from_pydantic(error: ValidationError) -> list[Fault]:
    """pydantic's findings as faults, with a suggestion for unknown keys."""
    faults: list[Fault] = []
    for item in error.errors(include_url=False):
        path = tuple(part for part in item["loc"] if part not in {"function-plain", "[key]"})
        kind, context = item["type"], item.get("ctx", {})
        value = item.get("input")
        if len(faults) >= MAX_SHOWN:  # only counted: words for tens of thousands would take minutes
            faults.append(Fault(path, "", ""))
        elif kind == "refused":
            faults.append(Fault(path, str(context["got"]), str(context["expected"])))
        elif kind == "extra_forbidden":
            faults.append(Fault(path, "an unknown key", _known_keys(path)))
        elif kind == "missing":
            faults.append(Fault(path, "nothing", _field_words(path) + YOURS_TO_SAY.get(path, "")))
        elif kind == "literal_error":
            words = str(context.get("expected", "another value"))
            known = [word.strip("'") for word in words.replace(" or ", ", ").split(", ")]
            faults.append(Fault(path, shown(value), words + did_you_mean(value, known)))
        elif kind in {"too_long", "too_short"}:
            bound = context.get("max_length", context.get("min_length"))
            side = "at most" if kind == "too_long" else "at least"
            faults.append(Fault(path, f"{context.get('actual_length', 'a number of')} entries", f"{side} {bound}"))
        else:
            faults.append(Fault(path, shown(value), _WORDS.get(kind, item["msg"].lower())))
    return faults


def _known_keys(path: KeyPath) -> str:
    model = _model_at(path[:-1])
    if model is None:
        return "one of the known keys"
    names = [info.alias or name for name, info in model.model_fields.items()]
    near = did_you_mean(path[-1], names)
    return f"a known key{near}" if near else f"one of {', '.join(names)}"


def _field_words(path: KeyPath) -> str:
    model = _model_at(path[:-1])
    for name, info in (model.model_fields if model else {}).items():
        if path[-1] == (info.alias or name):
            for mark in info.metadata:
                if hasattr(mark, "expected"):
                    return str(mark.expected)
            inner = _model_of(info.annotation)
            if inner is not None:
                key = key_text(path)
                return f"[[{key}]] entries" if typing.get_origin(info.annotation) is list else f"a table [{key}]"
            words = [f"'{word}'" for word in typing.get_args(info.annotation)]
            return " or ".join(words) or "a value"
    return "a value"


def _model_at(path: KeyPath) -> type[BaseModel] | None:
    model: type[BaseModel] | None = ScenarioFile
    for part in path:
        if model is None:
            return None
        if isinstance(part, int):
            continue
        match = next((i for n, i in model.model_fields.items() if (i.alias or n) == part), None)
        if match is not None:
            model = _model_of(match.annotation)
    return model


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in typing.get_args(annotation):
        model = _model_of(inner)
        if model is not None:
            return model
    return None

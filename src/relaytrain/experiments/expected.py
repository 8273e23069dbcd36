"""The findings that ship with a figure: the paper's words, the limits that decide, the verdict known so far.

Each figure has a TOML file beside its module::

    [[finding]]
    id = "near-optimum"
    finding = "PACT closely matches the optimum"
    holds = true
    limits = { ratio = 1.05 }   # read by the check
    why = "..."                 # the reason, put behind the figures that the check saw
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .result import WORDS, Finding, Source, Verdict

Judgement = tuple[Verdict, str]
"""A check's verdict and the figures it rests on."""
NOT_SHOWN = WORDS[None]
"""How a TOML file, which has no word for nothing, spells a verdict that was not shown."""


@dataclass(frozen=True)
class Expected:
    """One finding as it ships."""

    id: str
    finding: str
    holds: Verdict
    why: str = ""
    source: Source = "paper"
    limits: Mapping[str, float] = field(default_factory=dict)


def expected_of(module_file: str) -> dict[str, Expected]:
    """The findings of the TOML file beside a figure's module, by id."""
    entries: list[dict[str, Any]] = tomllib.loads(Path(module_file).with_suffix(".toml").read_text("utf-8"))["finding"]
    return {entry["id"]: Expected(**{**entry, "holds": shipped(entry["holds"])}) for entry in entries}


def shipped(holds: bool | str) -> Verdict:
    """A verdict as a TOML file spells it."""
    if isinstance(holds, bool):
        return holds
    if holds != NOT_SHOWN:
        raise AssertionError(f"a shipped verdict is true, false or '{NOT_SHOWN}', not '{holds}'")
    return None


def judged(figure: str, expected: Mapping[str, Expected], seen: Mapping[str, Judgement]) -> tuple[Finding, ...]:
    """Every expected finding with the verdict of its check; a check without a finding, or the reverse, is our bug."""
    if expected.keys() != seen.keys():
        raise AssertionError(f"{figure}: checks {sorted(seen)} do not match the expected findings {sorted(expected)}")
    findings = []
    for key, entry in expected.items():
        verdict, figures = seen[key]
        holds = None if verdict is None else bool(verdict)  # numpy has a truth of its own
        # The shipped reason explains the shipped verdict; with another verdict it would mislead.
        reason = entry.why if holds is entry.holds else f"Differs from the shipped run: {WORDS[entry.holds]} there"
        why = f"{figures}. {reason}." if reason else f"{figures}."
        findings.append(Finding(figure, entry.finding, holds, why, entry.holds, entry.source))
    return tuple(findings)

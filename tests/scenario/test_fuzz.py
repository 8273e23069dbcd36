"""Mutated scenarios: the outcome is a plan or a refusal, never anything else; what is accepted validates again.

300 mutants by default, 1,000 with RELAYTRAIN_TIER=soak. A failing seed replays alone.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest
from malformed import BASE, EPOCH

import relaytrain
from relaytrain.cli.app import main
from relaytrain.core.errors import InfeasibleError, ScenarioError
from relaytrain.scenario import load_scenario, preset_names
from relaytrain.scenario.read import PRESETS

MUTANTS = 1000 if os.environ.get("RELAYTRAIN_TIER") == "soak" else 300
BATCHES = 10
TEXTS = [BASE, EPOCH, *((PRESETS / f"{name}.toml").read_text() for name in preset_names())]
ODD_VALUES: list[Any] = [
    None, True, False, 0, -0.0, 1, -1, 2, 0.5, 1e-9, 1e9, 1e308, 5e-324, 2**70, math.inf, -math.inf, math.nan, "",
    "inf",
    "10m", "2 kJ", "L", "gold", "L on gold", "* on gold", "*", "..", "a/b", "\u202e", "x" * 70, [], [1, 2], [0.5], {},
    {"name": "L"}, [{}], [[[]]],
]  # fmt: skip
ODD_TEXT = [
    "=",
    "[",
    "]",
    '"',
    "inf",
    "nan",
    "-",
    "#",
    "\n",
    "[[",
    "{",
    ".",
    "0",
    "9",
    "e",
    "\0",
    "é",
    "\u202e",
    " on ",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def mutate_tables(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(data)
    gentle = rng.random() < 0.5  # half the mutants stay plausible, so that planning is reached
    for _ in range(rng.randint(1, 3)):
        spots = places(data)
        if not spots:
            break
        *parents, last = rng.choice(spots)
        holder: Any = data
        for part in parents:
            holder = holder[part]
        value = holder[last]
        number = isinstance(value, float | int) and not isinstance(value, bool)
        move = 0.0 if gentle else rng.random()
        if gentle and not number:
            continue
        if move < 0.45:
            if number and (gentle or rng.random() < 0.6):
                holder[last] = value * rng.choice([0.5, 2, 0.1, 10, 1.1, 0.9, 1e3, 1e-3, *([] if gentle else [-1, 0])])
            else:
                holder[last] = rng.choice(ODD_VALUES)
        elif move < 0.65:
            del holder[last]
        elif move < 0.8 and isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        elif isinstance(holder, dict):
            other = rng.choice(spots)[-1]
            holder[other if isinstance(other, str) else "extra"] = copy.deepcopy(holder[last])
    return data


def mutate_text(rng: random.Random, text: str) -> str:
    for _ in range(rng.randint(1, 4)):
        here = rng.randrange(len(text))
        lines = text.split("\n")
        move = rng.random()
        if move < 0.3:
            text = text[:here] + rng.choice(ODD_TEXT) + text[here:]
        elif move < 0.5:
            text = text[:here] + text[here + rng.randint(1, 8) :]
        elif move < 0.75:
            del lines[rng.randrange(len(lines))]
            text = "\n".join(lines)
        else:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            text = "\n".join(lines)
    return text


def mutant(seed: int, folder: Path) -> Any:
    rng = random.Random(seed)
    text = rng.choice(TEXTS)
    if rng.random() < 0.4:
        path = folder / f"m{seed}.toml"
        path.write_bytes(mutate_text(rng, text).encode())
        return path
    data = mutate_tables(rng, tomllib.loads(text))
    if rng.random() < 0.3:
        path = folder / f"m{seed}.json"
        path.write_text(json.dumps(data))
        return path
    return data


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers(item)]
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def outcome(source: Any) -> str:
    """What became of `source`: "plan", "infeasible" or "refused". Anything else is the failure looked for."""
    try:
        scenario = load_scenario(source)
    except ScenarioError as error:
        assert "expected" in str(error)
        return "refused"
    assert load_scenario(scenario.resolved) == scenario
    assert load_scenario(json.loads(json.dumps(scenario.resolved, allow_nan=False))) == scenario
    try:
        plan = relaytrain.plan(source)
    except (ScenarioError, InfeasibleError):
        return "infeasible"
    written = plan.to_dict()
    json.dumps(written, allow_nan=False)
    assert all(math.isfinite(n) for n in numbers(written))
    return "plan"


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutants_are_planned_or_refused(batch: int, tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    for seed in range(batch, MUTANTS, BATCHES):
        try:
            kind = outcome(mutant(seed, tmp_path))
        except Exception as error:
            raise AssertionError(f"mutant {seed}: {type(error).__name__}: {error}") from error
        seen[kind] = seen.get(kind, 0) + 1
    assert seen.get("refused", 0) > 0
    assert seen.get("plan", 0) + seen.get("infeasible", 0) > 0


@pytest.mark.slow
def test_the_command_line_ends_with_0_3_or_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(MUTANTS // 3):
        source = mutant(seed, tmp_path)
        if not isinstance(source, Path):
            continue
        status = main(["plan", str(source), "--format", "json"])
        said = capsys.readouterr()
        assert status in (0, 3, 4), (seed, said.err)
        assert "Traceback" not in said.err
        if status == 0:
            assert json.loads(said.out)["met"]

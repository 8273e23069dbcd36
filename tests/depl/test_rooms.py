"""The rooms of DepL's planners: the exact search knows nothing of the paper's procedure, what both need of neither."""

import re
from pathlib import Path

import relaytrain.planners.depl as depl

ROOT = Path(depl.__file__).parent
SHARED = (
    "allocation",
    "allocation_dual",
    "cumulants",
    "data_choice",
    "quickest",
    "schedule_losses",
    "solution",
    "waterfill",
)


def imports(file):
    return re.findall(r"^\s*from (\.\S+) import", file.read_text("utf-8"), re.MULTILINE)


def test_the_exact_search_imports_nothing_of_the_papers():
    assert [f.name for f in (ROOT / "exact").glob("*.py") if any("paper" in name for name in imports(f))] == []


def test_what_both_rooms_need_stands_before_both():
    rooms = {f: [n for n in imports(ROOT / f"{f}.py") if n.startswith((".exact", ".paper"))] for f in SHARED}
    assert rooms == {name: [] for name in SHARED}
    within = {n.removeprefix("..") for f in (ROOT / "exact").glob("*.py") for n in imports(f) if re.match(r"\.\.\w", n)}
    assert within <= set(SHARED)

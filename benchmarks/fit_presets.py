"""Where `[law]` and `[prior]` of the presets `quickstart`, `fashion` and `deeper` come from: their bundled atlases.

    python benchmarks/fit_presets.py             # writes both tables of all three anew
    python benchmarks/fit_presets.py --check     # only says whether the files are what the atlases teach

The belief is fitted to the development seeds of an atlas (5000 and on; `estimators/prior/fitting.py`, what `relaytrain
atlas FILE --teach` does); the test seeds (6000 and on) are for `benchmarks/decisions.py` to report.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import relaytrain
from relaytrain.estimators.prior.fitting import fit_belief, tables_of
from relaytrain.scenario import Scenario, load_scenario
from relaytrain.scenario.wide import epoch_worth
from relaytrain.traces.atlas import Atlas, read_atlas

PRESETS = {"quickstart": (0.5, 1.8), "fashion": (1.0, 1.3), "deeper": (0.5, 1.8)}
"""With floor and drop of pairs that no atlas has, because no memory holds them."""
SPARE = "pairs that fit no memory need a curve all the same"
DEVELOPMENT = range(5000, 6000)
HEAD = """\
# What losses do, fitted to relays of real training (benchmarks/fit_presets.py, seeds that nothing is reported on).
# The loss after x epochs is floor + drop (1 + x / scale)^-power: gold's pictures, seen by other cameras, leave the
# highest floor, bronze's own the lowest. Few images teach a network little before it knows what it is about: `progress`
# by epoch, and in [prior] how a leg's floor and pace depend on the experience (`entered`, in epochs on gold) that it
# begins with.
"""


def figure(value: Any) -> str:
    """One value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(figure(part) for part in value)}]"
    return f"{value:g}"


def lines_of(table: str, rows: dict[str, Any]) -> list[str]:
    """A table and its arrays of tables."""
    plain = {key: value for key, value in rows.items() if not (isinstance(value, list) and isinstance(value[0], dict))}
    lines = [f"[{table}]", *(f"{key} = {figure(value)}" for key, value in plain.items()), ""]
    for key in (key for key in rows if key not in plain):
        for row in rows[key]:
            said = "" if "version" in row or "from" in row else f"  # {SPARE}"
            lines += [f"[[{table}.{key}]]{said}", *(f"{name} = {figure(part)}" for name, part in row.items())]
        lines.append("")
    return lines


def taught_scenario(scenario: Scenario, atlas: Atlas) -> Scenario:
    """The scenario with the belief that an atlas teaches, as `fitted` writes it."""
    tables = tables_of(fit_belief(atlas, epoch_worth(scenario.problem)), atlas.pairs, "fitted")
    floor, drop = PRESETS.get(scenario.name, (0.5, 1.8))
    tables["law"]["curves"].insert(0, {"floor": floor, "drop": drop, "scale": 10.0, "power": 4.0})
    kept = {key: value for key, value in scenario.resolved.items() if key not in ("law", "prior", "estimator")}
    return load_scenario({**kept, **tables})


def fitted(path: Path) -> str:
    """The preset's text with the tables that its atlas teaches."""
    source = Path(relaytrain.__file__).parent / "traces" / "atlases" / f"{path.stem}.npz"
    atlas = read_atlas(source)
    atlas = atlas.only([seed for seed in sorted(atlas.seeds) if seed in DEVELOPMENT])
    said = f"benchmarks/fit_presets.py, {len(atlas.seeds)} seeds of the atlas {path.stem}, from {min(atlas.seeds)} on"
    worth = epoch_worth(load_scenario(path.stem).problem)
    tables = tables_of(fit_belief(atlas, worth), atlas.pairs, said)
    floor, drop = PRESETS[path.stem]
    tables["law"]["curves"].insert(0, {"floor": floor, "drop": drop, "scale": 10.0, "power": 4.0})
    text = path.read_text(encoding="utf-8")
    kept = text[: text.index("# What losses do")]
    return kept + HEAD + "\n".join(lines_of("law", tables["law"]) + lines_of("prior", tables["prior"])).rstrip() + "\n"


def main() -> int:
    """Write the presets, or compare them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    folder, differ = Path(relaytrain.__file__).parent / "scenario" / "presets", 0
    for name in PRESETS:
        path = folder / f"{name}.toml"
        text = fitted(path)
        same = text == path.read_text(encoding="utf-8")
        print(f"{name}: {'as the atlas teaches' if same else 'differs' if check else 'written anew'}")
        differ += not same
        if not same and not check:
            path.write_text(text, encoding="utf-8")
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main())

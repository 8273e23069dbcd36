"""The gallery: `python docs/images/gallery/draw.py FOLDER [NAME ...]` draws the papers' figures and writes the page.

Figures whose results lie in FOLDER already are not computed again. Some train for minutes: name a few to draw them
first. The page shows those that FOLDER holds, and says of each which findings of its paper hold, and why not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from relaytrain.experiments import _TRAINED, available

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "gallery.md"
WIDE, COLOURS = 1000, 48
OWN = ("pact-table1-mixed", "pact-algorithm3", "pact-gamma-t", "mcpipe-width")
"""Figures that no paper has, with what they add to its."""
RUN = (*_TRAINED, *OWN, "depl-fig2", "depl-fig4", "depl-table1")
"""Trained or fitted for the page: the caption says what, and at which size."""
PAPERS = {"pact": "PACT", "depl": "DepL", "mcpipe": "mcPipe"}
HEAD = """# Gallery: the papers' figures, redrawn

Every picture is written by one command, with its numbers as CSV beside it and a verdict on every finding of the paper:

```bash
relaytrain reproduce --list
relaytrain reproduce pact-fig5
```

*Holds* means: seen in the figure as it was drawn here, by a check that the command repeats. Where a paper prints no
curves, stand-ins take their place, so orderings and shapes are compared, not numbers
([what was run, and what differs](reproduction.md)). `python docs/images/gallery/draw.py FOLDER` writes this page.
"""


def result(folder: Path, name: str) -> dict[str, Any]:
    """What `relaytrain reproduce NAME` says, computed once."""
    kept = folder / f"{name}.json"
    if not kept.exists():
        words = [sys.executable, "-m", "relaytrain", "reproduce", name, "--out", str(folder), "--as", "png",
                 "--format", "json"]  # fmt: skip
        kept.write_text(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def shrink(source: Path, target: Path) -> None:
    """A picture for a page: no wider than it is shown, with the few colours that it has."""
    with Image.open(source) as picture:
        plain = picture.convert("RGB")
        if plain.width > WIDE:
            plain = plain.resize((WIDE, round(plain.height * WIDE / plain.width)), Image.Resampling.LANCZOS)
        plain.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


def section(name: str, found: dict[str, Any]) -> str:
    """One figure: picture, what was run, command, findings; of a figure that no paper has, those seen here."""
    own = name in OWN
    rows = [row for row in found["findings"] if own or row["source"] == "paper"]
    held = sum(row["holds"] is True for row in rows)
    lines = [f"### {found['title']}", "", f"![{found['title']}](images/gallery/{name}.png)", ""]
    if name in RUN:
        lines += [f"What was run: {'; '.join(note.rstrip('.') for note in found['notes'])}.", ""]
    lines += [f"`relaytrain reproduce {name}`: {held} of {len(rows)} findings hold.", ""]
    for row in rows:
        word = {True: "holds", False: "does not hold"}.get(row["holds"], "not shown")
        lines.append(f"* **{word}**: {row['finding']}. *{row['why'].rstrip('.')}.*")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Draw what was named, write the page."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        result(folder, name)
    parts, paper = [HEAD], ""
    for name in available():
        pictures = sorted(folder.glob(f"{name}.png"))
        if not (folder / f"{name}.json").exists() or not pictures:
            continue
        if paper != (paper := PAPERS[name.split("-")[0]]):
            parts.append(f"## {paper}\n")
        shrink(pictures[0], HERE / f"{name}.png")
        parts.append(section(name, result(folder, name)))
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()

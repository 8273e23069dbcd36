"""The code blocks of the documentation, found and run in the order in which a reader meets them.

A page is run in an empty folder of its own. By a block's language:

* `bash`: run as a script, which has to end with the status that is stated (0);
* `console`: the line behind `$` is run, what stands below it is what it has to print;
* `python`: run; the blocks of a page share their names;
* any, with a first line `# file: NAME`: written to that file;
* others (`text`, `toml` without a name): shown, not run.

A comment before a block says what is special: `<!-- slow -->` (run by `make docs` alone), `<!-- exit: 4 -->`,
`<!-- not run: WHY -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?:<!-- (?P<say>(?:slow|exit: \d+|not run: [^>]+)) -->\n+)?"
    r"^(?P<fence>```+)(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
FILE = re.compile(r"# file: (\S+)\n")
RUN = ("bash", "console", "python")


@dataclass(frozen=True)
class Block:
    """One block: where it stands, what it says, what is said about it."""

    page: Path
    line: int
    language: str
    text: str
    say: str

    @property
    def slow(self) -> bool:
        """Left to `make docs`."""
        return self.say == "slow"

    @property
    def reason(self) -> str:
        """Why it is never run, if so."""
        return self.say.partition("not run: ")[2]

    @property
    def status(self) -> int:
        """The exit status it ends with."""
        return int(self.say.partition("exit: ")[2] or 0)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """README, CONTRIBUTING and all written pages; decisions and change log tell of the past."""
    written = (page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"decisions", "_build"} & set(page.parts))
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]


def blocks(page: Path) -> list[Block]:
    """The page's blocks, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start("fence")) + 1, found["language"], found["text"], found["say"] or "")
        for found in FENCE.finditer(text)
    ]


def runnable(page: Path, *, slow: bool) -> Iterator[Block]:
    """What is run of a page."""
    for block in blocks(page):
        if not block.reason and (slow or not block.slow) and (block.language in RUN or FILE.match(block.text)):
            yield block


def run(block: Block, folder: Path, names: dict[str, Any]) -> str:
    """Run one block in `folder`; what went wrong, or nothing."""
    if named := FILE.match(block.text):
        (folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
        (folder / named[1]).write_text(block.text)
        return ""
    if block.language == "python":
        names.setdefault("__name__", "page")
        with chdir(folder):
            sys.path.insert(0, str(folder))
            try:
                exec(compile(block.text, str(block), "exec"), names)
            finally:
                sys.path.remove(str(folder))
        return ""
    if block.language == "bash":
        ran = _shell(f"set -e\n{block.text}", folder)
        return "" if ran.returncode == block.status else f"status {ran.returncode}\n{ran.stdout}{ran.stderr}"
    for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", block.text, re.MULTILINE):
        ran = _shell(command, folder)
        if ran.stdout.rstrip() != printed.rstrip():
            return f"$ {command}\nprinted\n{ran.stdout}{ran.stderr}\ninstead of\n{printed}"
    return ""


def _shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    here = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "RELAYTRAIN_REPO": str(ROOT),
    }
    here.pop("RELAYTRAIN_STORE", None)
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env=here, capture_output=True, text=True, timeout=900, check=False
    )

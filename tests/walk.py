"""How far one epoch walks through the house: `python tests/walk.py [SRC]`. A measurement, not a test.

The second epoch of a real `run quickstart`, nodes in this process, is followed call by call: from the moment the run
tells that epoch 1 is safe until it tells the same of epoch 2. `SRC` is the folder that holds `relaytrain` (by default
the one that Python finds), so that two trees can be compared; only public names are used.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

EPOCH = 2


class Walk:
    """Every call of our own code: who called whom, and which packages were entered."""

    def __init__(self, root: Path) -> None:
        self.root = f"{root}/"
        self.calls: Counter[tuple[str, str]] = Counter()
        self.functions: set[tuple[str, str, str]] = set()
        self.rooms: dict[str, None] = {}
        self._names: dict[str, str | None] = {}

    def file(self, frame: FrameType) -> str | None:
        """The file of a frame below the package's root; None for code of others."""
        path = frame.f_code.co_filename
        if path not in self._names:
            self._names[path] = path.removeprefix(self.root) if path.startswith(self.root) else None
        return self._names[path]

    def hear(self, frame: FrameType, event: str, _argument: Any) -> None:
        """What `sys.setprofile` tells; the caller is the nearest frame of ours, whoever stands between."""
        here = self.file(frame) if event == "call" else None
        if here is None:
            return
        self.rooms.setdefault(room(here))
        above = frame.f_back
        while above is not None and self.file(above) is None:
            above = above.f_back
        there = self.file(above) if above is not None else None
        if there is not None and there != here:
            self.calls[there, here] += 1
            self.functions.add((there, here, frame.f_code.co_qualname))

    @property
    def files(self) -> set[str]:
        """All files that called another or were called."""
        return {file for call in self.calls for file in call}

    @property
    def changes(self) -> int:
        """Calls from one package into another."""
        return sum(count for (there, here), count in self.calls.items() if room(there) != room(here))


def room(file: str) -> str:
    """A file's package, or the root module it is."""
    return file.partition("/")[0].removesuffix(".py")


def walk_epoch() -> Walk:
    """Run quickstart until its second epoch is safe, and follow that epoch."""
    import relaytrain

    walk = Walk(Path(relaytrain.__file__).parent)
    epochs = 0

    def told(_progress: Any) -> None:
        nonlocal epochs
        sys.setprofile(None)
        epochs += 1
        if epochs == EPOCH - 1:
            sys.setprofile(walk.hear)

    with tempfile.TemporaryDirectory() as folder:
        follow = {"told": told, "stop": lambda: epochs >= EPOCH}
        relaytrain.run("quickstart", store=folder, seed=0, transport="in-process", **follow)
    return walk


def main() -> None:
    """Walk and print."""
    if len(sys.argv) > 1:
        sys.path.insert(0, str(Path(sys.argv[1]).resolve()))
    walk = walk_epoch()
    print(f"{'files visited':<32}{len(walk.files):>6}")
    print(f"{'distinct calls between files':<32}{len(walk.functions):>6}")
    print(f"{'distinct pairs of files':<32}{len(walk.calls):>6}")
    print(f"{'changes between packages':<32}{walk.changes:>6}")
    print("\nroom          files  entered from other rooms")
    for name in walk.rooms:
        entered = sum(count for (there, here), count in walk.calls.items() if room(here) == name != room(there))
        print(f"{name:<14}{sum(room(file) == name for file in walk.files):>5}{entered:>9}")
    print("\nmost of these calls")
    crossed = Counter({call: count for call, count in walk.calls.items() if room(call[0]) != room(call[1])})
    for (there, here), count in crossed.most_common(8):
        print(f"{count:>5}  {there} -> {here}")


if __name__ == "__main__":
    main()

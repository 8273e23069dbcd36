"""What others wrote and we ship is what they published."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

VENDORED = {
    "uplot-1.6.32.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_vendored_files_are_unchanged_and_have_their_licence():
    spec = find_spec("relaytrain")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "web" / "static" / "vendor"
    told = (folder / "README.txt").read_text("utf-8")
    for name, sha256 in VENDORED.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
        assert sha256 in told
    assert "MIT License" in (folder / "uplot-LICENSE.txt").read_text("utf-8")
    assert {path.name for path in folder.iterdir()} == {*VENDORED, "README.txt", "uplot-LICENSE.txt"}

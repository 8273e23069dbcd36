"""Which code of the user's own a run rests on: the references of its scenario, and the files they brought with them."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.user_code import INSTALLED
from .resolve import split_reference

_OURS = Path(__file__).resolve().parent.parent
_TRAINING = ("loss", "step", "evaluate", "optimizer", "lr_schedule")


def references_of(resolved: Mapping[str, Any]) -> tuple[str, ...]:
    """The `module:function` references of a resolved scenario: networks, data, and all that trains."""
    versions = resolved.get("versions")
    tables = [resolved.get("data"), resolved.get("training"), *(versions if isinstance(versions, list | tuple) else ())]
    known = [table if isinstance(table, Mapping) else {} for table in tables]  # a stored one may be anything
    named = [version.get(key) for version in known[2:] for key in ("factory", "student")]
    named += [known[0].get("source"), *(known[1].get(key) for key in _TRAINING)]
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and ":" in name))


def loaded_code(folder: Path | None, references: Iterable[str]) -> dict[str, str]:
    """SHA-256 by file name of all modules loaded from `folder`, and of the referenced ones wherever they are.

    Names are relative to `folder`, or to the entry of the import path that an installed module was found in.
    """
    named = {split_reference(reference)[0] for reference in references}
    root = None if folder is None else folder.resolve()
    digests: dict[str, str] = {}
    for name, module, file in _modules(root, named):
        inside = None if root is None else _inside(file, root)
        if inside is not None or name in named:
            digests[inside or _on_path(name, module, file)] = _sha256(file)
    return dict(sorted(digests.items()))


def changed_code(kept: Mapping[str, str], folder: Path | None) -> list[str]:
    """The files of `kept` that are other ones now, or gone; nothing is imported."""
    places = [*([] if folder is None else [folder]), *map(Path, sys.path)]
    changed = []
    for name, sha256 in kept.items():
        file = next((place / name for place in places if (place / name).is_file()), None)
        if file is None or _sha256(file) != sha256:
            changed.append(name if file is None else str(file))
    return changed


def _modules(root: Path | None, named: Collection[str]) -> Iterator[tuple[str, ModuleType, Path]]:
    """Modules in folders below `root`, and the named ones: thousands are loaded, so every folder is looked at once."""
    below: dict[str, bool] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name == "__main__" or name.partition(".")[0] in sys.stdlib_module_names:
            continue
        place = os.path.dirname(file)
        if place not in below:
            below[place] = root is not None and Path(place).resolve().is_relative_to(root)
        if (below[place] or name in named) and Path(file).is_file():
            yield name, module, Path(file).resolve()


def _inside(file: Path, folder: Path) -> str | None:
    """The file's name from `folder`; None outside, in an environment that lies inside, or for our own files."""
    if not file.is_relative_to(folder) or file.is_relative_to(_OURS):
        return None
    parts = file.relative_to(folder).parts
    if any(part.startswith(".") or part in INSTALLED for part in parts):
        return None
    return "/".join(parts)


def _on_path(name: str, module: ModuleType, file: Path) -> str:
    parts = name.split(".") if hasattr(module, "__path__") else name.split(".")[:-1]
    return "/".join((*parts, file.name))


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()

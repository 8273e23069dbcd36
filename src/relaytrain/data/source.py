"""`read`: a dataset by name, by folder or by `module:function`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ScenarioError
from ..core.user_code import user_code
from .cifar import CLASSES, cifar
from .dataset import Dataset, from_arrays
from .digits import digits
from .idx import idx_folder
from .partition import split as split_by_class

NAMES = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100")
SPLITS = ("train", "test")
DIGITS_TEST_SHARE = 0.2
FOLDER_VARIABLE = "RELAYTRAIN_DATA"


def read(
    name: str,
    *,
    split: str = "train",
    folder: Path | None = None,
    resolve: Callable[[str], Callable[..., Any]] | None = None,
) -> Dataset:
    """The dataset called `name`: one of `NAMES`, or `module:function`.

    Args:
        name: digits are embedded; the others need files on disk; a function is called with the split and returns a
            `Dataset` or (images, labels).
        split: `train` or `test`; digits are split 80/20, the same way each time.
        folder: where the files are; by default the conventional places are tried.
        resolve: follows a reference; without it none is followed.
    """
    if split not in SPLITS:
        raise ScenarioError(f"data: split {split!r}, expected train or test")
    if ":" in name:
        return _called(name, split, resolve)
    if name == "digits":
        whole = digits()
        shares = {"train": 1.0 - DIGITS_TEST_SHARE, "test": DIGITS_TEST_SHARE}
        return whole.part(split_by_class(whole.labels, shares, seed=0)[split], f"digits {split}")
    if name not in NAMES:
        raise ScenarioError(f"data: got {name!r}, expected one of {', '.join(NAMES)}, or module:function")
    place = folder if folder is not None else _conventional(name)
    if name in CLASSES:
        return cifar(place, split, kind=name)
    return idx_folder(place, split, name=f"{name} {split}")


def places(name: str) -> list[Path]:
    """Where the files of `name` are looked for, in order: $RELAYTRAIN_DATA, ./data, the user's and the system's."""
    roots = [Path(os.environ[FOLDER_VARIABLE])] if os.environ.get(FOLDER_VARIABLE) else []
    share = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    roots += [Path("data"), Path(share) / "datasets", Path("/usr/local/share/datasets"), Path("/usr/share/datasets")]
    return [root / name for root in roots]


def _conventional(name: str) -> Path:
    tried = places(name)
    for place in tried:
        if place.is_dir():
            return place
    hint = "; on Debian: apt-get install dataset-fashion-mnist" if name == "fashion-mnist" else ""
    listed = ", ".join(str(place) for place in tried)
    raise ScenarioError(f"data: {name} is in none of {listed}; name its folder or set {FOLDER_VARIABLE}{hint}")


def _called(reference: str, split: str, resolve: Callable[[str], Callable[..., Any]] | None) -> Dataset:
    if resolve is None:
        raise ScenarioError(f"data: {reference} is only called when you pass resolve= (or name it in your scenario)")
    function = resolve(reference)
    with user_code(reference):
        result = function(split)
    if isinstance(result, Dataset):
        return result
    if isinstance(result, tuple) and len(result) == 2:
        images, labels = (np.asarray(part) for part in result)
        return from_arrays(images, labels, name=f"{reference} {split}")
    raise ScenarioError(f"data: {reference}({split!r}) returned {type(result).__name__}, expected (images, labels)")

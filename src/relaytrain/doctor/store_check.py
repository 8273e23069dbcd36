"""The run store as the doctor sees it: room on the disk, and whether its promises hold."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..core.errors import RelayTrainError
from ..store import RunStore, check
from ..store.check import errors
from ..store.database import exists
from .diagnosis import Diagnosis, Level

LOW_SPACE_BYTES = 1e9


def check_store(folder: Path) -> list[Diagnosis]:
    """The run store: whether it can be read and kept, and whether its promises hold."""
    place = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    level: Level = "warning" if free < LOW_SPACE_BYTES else "ok"
    diagnoses = [Diagnosis(level, "store", f"{free / 1e9:.3g} GB free", "make room" if level == "warning" else "")]
    if not os.access(place, os.W_OK):
        diagnoses.append(
            Diagnosis("error", "store", f"{place} cannot be written", "choose another folder with --store")
        )
    if not exists(folder):
        return [*diagnoses, Diagnosis("ok", "store", f"{folder}: none yet, the first run makes it")]
    try:
        findings = check(folder)
        diagnoses += [
            Diagnosis("error" if f.level == "error" else "note", f.where, f.what, f"relaytrain store check {folder}")
            for f in findings
        ]
        if errors(findings):
            diagnoses.append(Diagnosis("error", "store", f"{folder}: damaged", f"relaytrain store repair {folder}"))
        else:
            diagnoses.append(Diagnosis("ok", "store", f"{folder}: {len(RunStore.open(folder).runs())} runs"))
    except RelayTrainError as error:
        diagnoses.append(Diagnosis("error", "store", str(error)))
    return diagnoses

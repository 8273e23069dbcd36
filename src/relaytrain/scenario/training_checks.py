"""What no single field of `[training]`, `[data]` and a version's network can know."""

from __future__ import annotations

from ..core.families import FAMILIES
from .checks import missing
from .faults import Fault
from .fields import shown
from .schema import ScenarioFile


def check_training(file: ScenarioFile) -> list[Fault]:
    """What no single field of these tables can know."""
    faults: list[Fault] = []
    earlier: list[str] = []
    for index, version in enumerate(file.versions):
        at = ("versions", index)
        if len(version.ways) > 1:
            faults.append(Fault(at, " and ".join(version.ways), "one of family, factory, ratio, student"))
        if version.of is not None and version.ratio is None:
            faults.append(Fault((*at, "of"), "of without ratio", "ratio beside it"))
        elif version.of is not None and version.of not in earlier and version.of != "full":
            faults.append(
                Fault((*at, "of"), shown(version.of), f"a version declared before: {', '.join(earlier) or 'none'}")
            )
        if version.way is not None and version.ratio is None:
            faults.append(Fault((*at, "way"), f"way = {shown(version.way)} without ratio", "ratio beside it"))
        if version.width is not None and version.family is None and version.student is None:
            faults.append(Fault((*at, "width"), "width without family", "family or student beside it"))
        for key in ("family", "student"):
            name = getattr(version, key)
            if name is not None and ":" not in name and name not in FAMILIES:
                faults.append(Fault((*at, key), shown(name), f"one of {', '.join(FAMILIES)}"))
        earlier.append(version.name)
    for index, version in enumerate(file.versions if file.data is not None else []):
        if not version.ways or (index == 0 and "ratio" in version.ways):
            wanted = "family or factory" if index == 0 else "family, factory, ratio or student"
            faults.append(
                Fault(("versions", index), f"no network for {version.name}", f"{wanted}: with [data] it trains")
            )
    nodes = [n.name for n in file.nodes]
    if file.training is not None:
        faults += [f for n in file.training.devices for f in missing(("training", "devices", n), n, nodes, "node")]
    if file.data is not None:
        faults += [f for n in file.data.nodes for f in missing(("data", "nodes", n), n, nodes, "node")]
        faults += [f for n in file.data.classes for f in missing(("data", "classes", n), n, nodes, "node")]
        if file.data.partition == "by-class" and not file.data.classes:
            faults.append(Fault(("data", "classes"), "nothing", "the classes of each node: partition is by-class"))
    return faults

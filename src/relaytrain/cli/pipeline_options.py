"""What the verbs of `relaytrain pipeline` share: options, and devices read from text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import UsageError

if TYPE_CHECKING:
    from ..planners.pipeline.partition import Device


def option(flag: str, metavar: str, help: str) -> Any:
    """An option whose help says its default."""
    return typer.Option(flag, metavar=metavar, help=help, show_default=False)


def argument(metavar: str, help: str) -> Any:
    """An argument whose help says its default."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


def device_option(usual: str) -> Any:
    """The devices, one by one; `usual` are those that stand in for none."""
    words = f"A device, in order (repeatable; {usual})."
    return typer.Option("--device", metavar="NAME,SPEED[,MEMORY[,LINK]]", help=words)


Batch = Annotated[int, option("--batch", "N", "Samples of a minibatch (8).")]
InFlight = Annotated[
    int | None, typer.Option("--in-flight", "-m", metavar="N", help="Minibatches under way (as many as devices).")
]
Keep = Annotated[str, option("--keep", "NAME", "best-of, stash or on-demand (best-of).")]


def named(kind: Any, option: str, name: str) -> Any:
    """The member of an enumeration that `name`, given as `option`, means."""
    if name not in {member.value for member in kind}:
        raise UsageError(f"{option}: got {name[:40]!r}, expected one of {', '.join(member.value for member in kind)}")
    return kind(name)


def devices_of(texts: list[str] | tuple[str, ...]) -> list[Device]:
    """Devices as `NAME,SPEED[,MEMORY[,LINK]]`."""
    from ..planners.pipeline.partition import Device
    from ..scenario.units import BYTES, RATE, SPEED

    devices: list[Device] = []
    for text in texts:
        name, *words = (part.strip() for part in text.split(","))
        if not name or not 1 <= len(words) <= 3 or name in {other.name for other in devices}:
            raise UsageError(
                f"--device: got {text[:80]!r}, expected a name of its own, a speed and, if you like, memory and link"
            )
        figures = [math.inf] * 3
        for index, (word, kind) in enumerate(zip(words, (SPEED, BYTES, RATE), strict=False)):
            value = kind.read(word)
            if value is None:
                raise UsageError(
                    f"--device {name}: got {word[:40]!r}, expected {kind.name} such as {kind.example.split(' or ')[0]}"
                )
            figures[index] = value
        devices.append(Device(name, figures[0], figures[1], figures[2] / 8))
    return devices

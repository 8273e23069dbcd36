"""What torch can train on here, against what `training.devices` asks for."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..core.errors import ScenarioError, did_you_mean
from ..core.problem import Problem


def usable_devices() -> list[str]:
    """The devices that `training.devices` may name on this machine."""
    cards = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return ["cpu", *cards, *(["mps"] if torch.backends.mps.is_available() else [])]


def check_devices(devices: Mapping[str, str], problem: Problem) -> None:
    """Refuse a device that is not there, and one for a node that is not, before anything is spent on training."""
    nodes = {node.name for node in problem.nodes} | {name for group in problem.node_sets for name in group.nodes}
    for node, name in devices.items():
        if node not in nodes:
            near = did_you_mean(node, nodes)
            raise ScenarioError(
                f"training.devices.{node}: no such node, expected one of {', '.join(sorted(nodes))}{near}"
            )
        if name == "cpu":
            continue
        try:
            torch.zeros(1, device=name)
        except Exception as error:  # each kind of device refuses in its own way
            why = str(error).strip().splitlines()[0][:120]
            raise ScenarioError(
                f"training.devices.{node}: got '{name}', which torch cannot use on this machine ({why}); "
                f"expected one of {', '.join(usable_devices())}"
            ) from None

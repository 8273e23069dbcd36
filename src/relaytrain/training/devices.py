"""What torch can train on here, against what `training.devices` asks for."""

from __future__ import annotations

import torch

from ..core.errors import ScenarioError, did_you_mean
from ..core.problem import Problem
from .settings import TrainingSettings


def usable_devices() -> list[str]:
    """The devices that `training.devices` may name on this machine."""
    cards = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return ["cpu", *cards, *(["mps"] if torch.backends.mps.is_available() else [])]


def check_devices(settings: TrainingSettings, problem: Problem) -> None:
    """Refuse a device that is not there, and one for a node that is not, before anything is spent on training."""
    nodes = {node.name for node in problem.nodes} | {name for group in problem.node_sets for name in group.nodes}
    for node in settings.devices:
        if node not in nodes:
            near = did_you_mean(node, nodes)
            raise ScenarioError(
                f"training.devices.{node}: no such node, expected one of {', '.join(sorted(nodes))}{near}"
            )
    asked = {f"devices.{node}": name for node, name in settings.devices.items()}
    if nodes - set(settings.devices):
        asked["device"] = settings.device
    for key, name in asked.items():
        why = None if name == "cpu" else _unusable(name)
        if why is not None:
            raise ScenarioError(
                f"training.{key}: got '{name}', which torch cannot use on this machine ({why}); "
                f"expected one of {', '.join(usable_devices())}"
            )


def _unusable(device: str) -> str | None:
    """Why torch cannot compute there, or None when it can."""
    try:
        torch.zeros(1, device=device)
    except Exception as error:  # each kind of device refuses in its own way
        return str(error).strip().splitlines()[0][:120]
    return None

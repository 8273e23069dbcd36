"""What torch can train on here."""

from __future__ import annotations

import torch


def torch_devices() -> list[str]:
    """The devices that `training.devices` may name on this machine."""
    cards = [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    return ["cpu", *cards, *(["mps"] if torch.backends.mps.is_available() else [])]

"""The transport that the settings name."""

from __future__ import annotations

from ..training.setup import TrainingSetup
from .inprocess import InProcess
from .processes import Processes


def make_transport(setup: TrainingSetup) -> InProcess | Processes:
    """In-process, or local processes with as many workers as the settings say."""
    if setup.settings.transport == "processes":
        return Processes(setup, setup.settings.workers)
    return InProcess(setup)

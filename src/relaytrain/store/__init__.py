"""What a run did, kept so that `kill -9` loses nothing that was acknowledged: events, checkpoints, one writer a run."""

from .check import Damage, check
from .events import Event, check_run_id, new_run_id
from .gc import Removed
from .lease import LeaseHeld, LeaseLost
from .rules import Totals
from .runs import KeptCheckpoint, RunStore, RunSummary, store_path
from .salvage import Salvage, SalvagedRun, salvage
from .writer import Clock, RunWriter

__all__ = [
    "Clock",
    "Damage",
    "Event",
    "KeptCheckpoint",
    "LeaseHeld",
    "LeaseLost",
    "Removed",
    "RunStore",
    "RunSummary",
    "RunWriter",
    "Salvage",
    "SalvagedRun",
    "Totals",
    "check",
    "check_run_id",
    "new_run_id",
    "salvage",
    "store_path",
]

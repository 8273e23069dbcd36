"""What a run did, kept so that `kill -9` loses nothing that was acknowledged: events, checkpoints, one writer a run."""

from .check import check
from .events import Event, new_run_id
from .lease import LeaseHeld, LeaseLost
from .runs import RunStore, store_path
from .salvage import Salvage, SalvagedRun, salvage
from .writer import Clock, RunWriter

__all__ = [
    "Clock",
    "Event",
    "LeaseHeld",
    "LeaseLost",
    "RunStore",
    "RunWriter",
    "Salvage",
    "SalvagedRun",
    "check",
    "new_run_id",
    "salvage",
    "store_path",
]

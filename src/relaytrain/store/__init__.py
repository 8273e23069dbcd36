"""What a run did, kept so that `kill -9` loses nothing that was acknowledged: events, checkpoints, one writer a run.

Read `files` (the only module that writes), `events` and `rules` (what may be said of a run), `database`, `blobs`
(checkpoints by content) and `trail` (events once more), `lease` and `writer` (who may write, and how), `runs` (where
everybody starts), `following` (runs that grow), `thinning` (what is no longer needed). When something broke: `check`,
`lost_events`, `salvage`.
"""

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

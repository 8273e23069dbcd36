"""`relaytrain stop`: ask a running run, in whatever process, to stop after its epoch."""

from __future__ import annotations

from .output import emit
from .reading import LastRun, Store, find_run, open_store

SHORT = "Ask a run to stop after its epoch."
HELP = """Ask a run in another shell to stop in order after the epoch it is at; `relaytrain resume` goes on later."""
EXAMPLES = """\b
Examples:
  relaytrain stop
  relaytrain stop quickstart-1a2b3c4d
"""


def stop(run: LastRun = None, store: Store = None) -> int:
    """Leave the request."""
    opened = open_store(store)
    name = find_run(opened, run)
    opened.request_stop(name)
    from ..relay.going_on import go_on

    later = go_on(name, opened.summary(name).started, opened.folder_to_name)
    emit(f"{name} was asked to stop after its epoch; to go on later: {later}")
    return 0

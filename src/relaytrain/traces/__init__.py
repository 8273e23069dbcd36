"""What trainings showed, as traces; those of our own campaigns are in `data/`.

`trace` is the tree of segments, `trace_files` writes it and finds folders of it, `trace_reader` believes no file.
`atlas` holds the losses of all relays on a grid, `atlas_scenario` says which scenario it speaks of.
"""

from .trace import Segment, TracePath, TraceSet, TraceSwitch
from .trace_files import bundled_traces, read_traces, write_traces

__all__ = ["Segment", "TracePath", "TraceSet", "TraceSwitch", "bundled_traces", "read_traces", "write_traces"]

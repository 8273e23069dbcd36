"""Traces of training: the format, the campaigns that collect them, and those that ship with RelayTrain."""

from .trace import Configuration, Path, Segment, TraceSet, TraceSwitch
from .trace_files import bundled_traces, read_traces, write_traces

__all__ = [
    "Configuration",
    "Path",
    "Segment",
    "TraceSet",
    "TraceSwitch",
    "bundled_traces",
    "read_traces",
    "write_traces",
]

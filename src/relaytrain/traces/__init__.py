"""Traces of training: the format, the campaigns that collect them, and those that ship with RelayTrain."""

from .format import bundled_traces, read_traces, write_traces
from .trace import Configuration, Path, Segment, TraceSet, TraceSwitch

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

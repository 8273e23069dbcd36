"""A run for TensorBoard: one event file a run, `DIR/RUN/events.out.tfevents.SECONDS.relaytrain`.

The file's bytes follow from the run's events alone, so what is there already is compared and kept, and only what is new
is added; a file that ends in the middle of a record, or says otherwise, is written anew. Epochs that were rolled back
are taken back as TensorBoard knows it, by a restart at their step. Figures are 32-bit floats there.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..core.errors import UsageError
from ..store.files import append_unsynced, make_dir, read_regular, write_atomic
from .log_entries import LogEntry

LARGEST_BYTES = 1 << 30


class TensorBoardLog:
    """Writes one run's event file below `folder`."""

    def __init__(self, folder: str, run: str) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event: Any = event_pb2
        self._summary: Any = summary_pb2
        self._tensors: Any = (tensor_pb2, tensor_shape_pb2, types_pb2)
        self._writer: Any = RecordWriter
        self._folder = Path(folder) / run
        self._path: Path | None = None
        self._kept = b""  # what the file holds
        self._whole = bytearray()  # what it should hold, as far as the entries go
        self.new = 0

    @property
    def where(self) -> str:
        """The folder to point TensorBoard at."""
        return str(self._folder.parent)

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Add what is not there yet."""
        data = bytearray()
        for entry in entries:
            if self._path is None:
                self._open(entry)
                first = self._event.Event(wall_time=entry.wall_s, file_version="brain.Event:2")
                data += self._record(first)
            at, records = len(self._whole) + len(data), self._records(entry)
            self.new += self._kept[at : at + len(records)] != records
            data += records
        self._add(bytes(data))

    def close(self) -> None:
        """A file that says more than the events do is written anew."""
        if self._path is not None and len(self._kept) > len(self._whole):
            self._write_anew()

    def _open(self, entry: LogEntry) -> None:
        make_dir(self._folder)
        self._path = self._folder / f"events.out.tfevents.{int(entry.wall_s)}.relaytrain"
        try:
            self._kept = read_regular(self._path, LARGEST_BYTES)
        except FileNotFoundError:
            self._kept = b""
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror}; choose another folder for the log") from None

    def _add(self, data: bytes) -> None:
        if self._path is None or not data:
            return
        there = self._kept[len(self._whole) :]
        self._whole += data
        if there.startswith(data):
            return
        if there:
            self._write_anew()
        else:
            append_unsynced(self._path, data)
            self._kept = bytes(self._whole)

    def _write_anew(self) -> None:
        assert self._path is not None
        write_atomic(self._path, bytes(self._whole), durable=False)
        self._kept = bytes(self._whole)

    def _records(self, entry: LogEntry) -> bytes:
        if entry.kind == "roll-back":
            start = self._event.SessionLog(status=self._event.SessionLog.START)
            undo = self._event.Event(wall_time=entry.wall_s, step=entry.epoch + 1, session_log=start)
            return self._record(undo) + self._texts(entry)
        values = [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in entry.figures.items()]
        if not values:
            return self._texts(entry)
        summary = self._summary.Summary(value=values)
        figures = self._event.Event(wall_time=entry.wall_s, step=entry.epoch, summary=summary)
        return self._record(figures) + self._texts(entry)

    def _texts(self, entry: LogEntry) -> bytes:
        """Words under `relay/KIND`, for the text tab; facts as a table."""
        words = entry.words
        if entry.facts and entry.kind == "started":
            rows = "".join(f"| {name} | {str(value)[:500]} |\n" for name, value in entry.facts.items())
            words = f"| what | |\n|---|---|\n{rows}"
        if not words or entry.kind == "epoch":
            return b""
        tensors, shapes, types = self._tensors
        shape = shapes.TensorShapeProto(dim=[shapes.TensorShapeProto.Dim(size=1)])
        text = tensors.TensorProto(dtype=types.DT_STRING, string_val=[words.encode()], tensor_shape=shape)
        plugin = self._summary.SummaryMetadata.PluginData(plugin_name="text", content=b"")
        about = self._summary.SummaryMetadata(plugin_data=plugin, data_class=self._summary.DATA_CLASS_TENSOR)
        value = self._summary.Summary.Value(tag=f"relay/{entry.kind}", metadata=about, tensor=text)
        summary = self._summary.Summary(value=[value])
        return self._record(self._event.Event(wall_time=entry.wall_s, step=entry.epoch, summary=summary))

    def _record(self, event: Any) -> bytes:
        buffer = io.BytesIO()
        self._writer(buffer).write(event.SerializeToString(deterministic=True))
        return buffer.getvalue()

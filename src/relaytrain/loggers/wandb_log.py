"""A run for Weights & Biases, offline: `DIR/wandb/offline-run-TIME-RUN/`, for `wandb sync` whenever you like.

Nothing is sent. Every entry is one row of history with its key in `relaytrain/key`; rows that earlier folders of the
same run hold already are left out, so a run may be logged again from its first event.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..core.errors import UsageError
from ..store.files import make_dir, read_regular
from .log_entries import LogEntry

KEY = "relaytrain/key"
WRITTEN_S = 60.0
"""How long W&B's own process may take to write what it was given."""
LARGEST_BYTES = 1 << 30
_MAGIC = b":W&B"
_BLOCK, _FILE_HEADER, _HEADER = 1 << 15, 7, struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class WandbLog:
    """Writes one run below `folder`; a folder of W&B's is made once there is something new."""

    def __init__(self, folder: str, run: str) -> None:
        import wandb

        self._wandb: Any = wandb
        self._folder, self._run_id = Path(folder), run
        self._run: Any = None
        self._known: set[str] = set()
        self._first: LogEntry | None = None
        self.new = 0
        self._known |= self._written()

    @property
    def where(self) -> str:
        """What `wandb sync` takes."""
        return str(self._folder / "wandb" / f"offline-run-*-{self._run_id}")

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Add what is not there yet."""
        for entry in entries:
            self._first = self._first or entry
            key = f"{entry.seq}|{entry.epoch}|{entry.kind}|{entry.key.node}"
            if key in self._known:
                continue
            run = self._opened(self._first)
            row: dict[str, Any] = {KEY: key, "epoch": entry.epoch, **entry.figures}
            if entry.words:
                row[f"relay/{entry.kind}"] = entry.words
            run.log(row)
            if entry.kind == "verdict":
                run.summary["verdict"] = entry.words
            self._known.add(key)
            self.new += 1

    def close(self) -> None:
        """Let W&B finish its file, which its own process writes: it is waited for until all rows can be read back."""
        if self._run is None:
            return
        self._run.finish()
        self._run = None
        until_s = time.monotonic() + WRITTEN_S
        while missing := self._known - self._written():
            if time.monotonic() > until_s:
                raise UsageError(f"{self.where}: W&B has not written {len(missing)} of {len(self._known)} rows")
            time.sleep(0.05)

    def _written(self) -> set[str]:
        """The rows that are on disk, in all folders of the run."""
        files = self._folder.glob(f"wandb/offline-run-*-{self._run_id}/run-{self._run_id}.wandb")
        return set().union(*map(written_keys, files))

    def _opened(self, first: LogEntry) -> Any:
        if self._run is None:
            make_dir(self._folder)
            self._run = self._wandb.init(
                mode="offline",
                dir=str(self._folder),
                project=str(first.facts.get("scenario") or "relaytrain"),
                id=self._run_id,
                name=self._run_id,
                config=dict(first.facts),
                reinit="create_new",
                settings=self._wandb.Settings(
                    silent=True,
                    console="off",
                    disable_git=True,
                    disable_code=True,
                    save_code=False,
                    x_disable_stats=True,
                    x_disable_meta=True,
                    x_disable_machine_info=True,
                ),
            )
            self._run.define_metric("epoch")
            self._run.define_metric("*", step_metric="epoch")
        return self._run


def written_keys(file: Path) -> set[str]:
    """The keys of all rows of history in a file of W&B's, as far as it is whole."""
    from wandb.proto import wandb_internal_pb2

    proto: Any = wandb_internal_pb2
    keys = set()
    for data in records(read_regular(file, LARGEST_BYTES)):
        record = proto.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            if (item.key or "/".join(item.nested_key)) == KEY:
                keys.add(str(json.loads(item.value_json)))
    return keys


def records(data: bytes) -> Iterator[bytes]:
    """The records of a `.wandb` file: LevelDB's log format behind a header of seven bytes; a torn end is left out."""
    if not data.startswith(_MAGIC):
        return
    at, parts = _FILE_HEADER, list[bytes]()
    while at + _HEADER.size <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:  # the end of a block is filled up
            at += left
            continue
        _, length, kind = _HEADER.unpack_from(data, at)
        part = data[at + _HEADER.size : at + _HEADER.size + length]
        if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or len(part) < length:
            return
        at += _HEADER.size + length
        parts = [part] if kind in (_WHOLE, _FIRST) else [*parts, part]
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts)

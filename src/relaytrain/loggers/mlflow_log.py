"""A run for MLflow: an experiment a scenario, a run a run (tag `relaytrain.run`), its figures as metrics by epoch.

A place that is a folder becomes `sqlite:///FOLDER/mlflow.db`; any tracking URI is taken as it is. Metrics that are
there already, by name, step and time, are left out, so a run may be logged again from its first event.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..store.files import make_dir
from .log_entries import LogEntry

RUN_TAG = "relaytrain.run"
STATUSES = {"met": "FINISHED", "missed": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
MOST_METRICS, MOST_PARAMS, LONGEST_PARAM = 900, 90, 480
"""What MLflow takes in one call, and of one text, with some room."""
_URI = re.compile(r"[a-z][a-z0-9+.-]+:", re.ASCII)


class MlflowLog:
    """Writes one run to the tracking server or folder `place`."""

    def __init__(self, place: str, run: str) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self.where = place if _URI.match(place) else _database(Path(place))
        self.new = 0
        self._run = run
        self._client: Any = MlflowClient(tracking_uri=self.where)
        self._id = ""
        self._known: set[tuple[str, int, int]] = set()

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Add what is not there yet."""
        from mlflow.entities import Metric

        metrics: list[Any] = []
        for entry in entries:
            if not self._id:
                self._open(entry)
            rows = [(_key(name), entry.epoch, int(entry.wall_s * 1000), value) for name, value in entry.figures.items()]
            fresh = [row for row in rows if row[:3] not in self._known]
            self._known.update(row[:3] for row in fresh)
            self.new += bool(fresh)
            metrics += [Metric(key, value, timestamp, step) for key, step, timestamp, value in fresh]
            if entry.kind in ("handover", "failure", "roll-back"):
                node = f".{_key(entry.key.node)}" if entry.key.node else ""  # several may fail in an epoch
                name = f"relaytrain.{entry.kind}.{entry.epoch}{node}"
                self._client.set_tag(self._id, name, entry.words[:LONGEST_PARAM])
            elif entry.kind == "resumed":
                self._client.update_run(self._id, status="RUNNING")
            elif entry.kind == "verdict":
                self._end(entry)
        for part in _parts(metrics, MOST_METRICS):
            self._client.log_batch(self._id, metrics=part)

    def close(self) -> None:
        """Nothing is held open."""

    def _open(self, first: LogEntry) -> None:
        from mlflow.entities import Param
        from mlflow.exceptions import MlflowException

        name = str(first.facts.get("scenario") or "relaytrain")
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            with suppress(MlflowException):  # somebody else makes it at the same moment
                self._client.create_experiment(name)
            experiment = self._client.get_experiment_by_name(name)
        runs = self._client.search_runs([experiment.experiment_id], filter_string=f"tags.`{RUN_TAG}` = '{self._run}'")
        if runs:
            self._id = runs[0].info.run_id
            for key in runs[0].data.metrics:
                self._known |= {(m.key, m.step, m.timestamp) for m in self._client.get_metric_history(self._id, key)}
            return
        started_ms = int(first.wall_s * 1000)
        run = self._client.create_run(
            experiment.experiment_id, start_time=started_ms, tags={RUN_TAG: self._run}, run_name=self._run
        )
        self._id = run.info.run_id
        params = [Param(_key(name), str(value)[:LONGEST_PARAM]) for name, value in first.facts.items()]
        for part in _parts(params, MOST_PARAMS):
            self._client.log_batch(self._id, params=part)

    def _end(self, entry: LogEntry) -> None:
        self._client.set_tag(self._id, "relaytrain.verdict", entry.words)
        self._client.set_terminated(self._id, STATUSES.get(entry.words, "FINISHED"), int(entry.wall_s * 1000))


def _database(folder: Path) -> str:
    from ..core.errors import need_packages

    need_packages("an MLflow database in a folder needs", {"sqlalchemy": "export", "alembic": "export"})
    return f"sqlite:///{make_dir(folder).resolve()}/mlflow.db"


def _key(name: str) -> str:
    """MLflow refuses what names of ours may hold."""
    return re.sub(r"[^A-Za-z0-9_./ -]", "_", name)[:240]


def _parts(rows: list[Any], most: int) -> Iterator[list[Any]]:
    for at in range(0, len(rows), most):
        yield rows[at : at + most]

"""The default transport: nodes train one after the other in this process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from ..core.user_code import UserCodeError
from ..training.local import Site, deadline, train_node
from ..training.setup import TrainingSetup
from ..training.task import NodeResult, NodeTask, failed


class InProcess:
    """Tasks in the order given. A deadline is looked at after every batch, so one batch is the longest it overruns."""

    def __init__(self, setup: TrainingSetup) -> None:
        self.setup = setup
        self._sites: dict[str, Site] = {}

    def send(self, tasks: Iterable[NodeTask]) -> Iterator[NodeResult]:
        """Results as they are done; a failure is a result."""
        began = time.monotonic()
        for task in tasks:
            yield self._one(task, began)

    def close(self) -> None:
        """Let go of the data."""
        self._sites.clear()

    def _one(self, task: NodeTask, began: float) -> NodeResult:
        if task.node not in self.setup.datasets:
            return failed(task, "refused", f"no node {task.node!r} here; known: {', '.join(self.setup.datasets)}")
        try:
            site = self._sites.get(task.node) or self.setup.site(task.node)
        except UserCodeError as error:
            return failed(task, "user", str(error))
        except Exception as error:  # a device that is gone
            return failed(task, "refused", f"{type(error).__name__}: {str(error).strip()[:300]}")
        self._sites[task.node] = site
        return train_node(task, site, deadline(began, task.timeout_s))

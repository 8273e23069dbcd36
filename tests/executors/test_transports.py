"""Both transports under the public suite."""

from __future__ import annotations

from typing import Any

import pytest

from relaytrain.executors.inprocess import InProcess
from relaytrain.executors.processes import Processes
from relaytrain.testing.transport_suite import TransportSuite

pytestmark = pytest.mark.train


class TestInProcess(TransportSuite):
    def make(self, setup: Any) -> InProcess:
        return InProcess(setup)


@pytest.mark.slow
class TestProcesses(TransportSuite):
    def make(self, setup: Any) -> Processes:
        return Processes(setup, workers=2)

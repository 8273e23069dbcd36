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


@pytest.mark.parametrize("suite", [TestInProcess, TestProcesses])
def test_no_clause_of_the_contract_is_weakened(suite: type[TransportSuite]) -> None:
    """What is asserted of a transport stands in the public suite; a subclass here only says how to make one."""
    clauses = [name for name in vars(TransportSuite) if name.startswith("test_")]
    assert len(clauses) >= 8
    assert all(getattr(suite, name) is getattr(TransportSuite, name) for name in clauses)

"""The public suite over Flower; `test_flower.py` has pytest run this file inside a ServerApp, where the grid is."""

from __future__ import annotations

from typing import Any

import pytest

from relaytrain.executors.flower.inside import the_grid
from relaytrain.executors.flower.transport import FlowerTransport
from relaytrain.testing.transport_suite import TransportSuite

pytestmark = pytest.mark.train


class TestFlower(TransportSuite):
    def make(self, setup: Any) -> FlowerTransport:
        return FlowerTransport(setup, the_grid())

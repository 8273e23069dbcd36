"""The command line, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from relaytrain.cli.app import main
from relaytrain.cli.compiled import FIRST_TIME


class Call(NamedTuple):
    """How a command ended and what it said."""

    status: int
    out: str
    err: str


@pytest.fixture
def relaytrain(capsys: pytest.CaptureFixture[str]) -> Callable[..., Call]:
    """Run the command line in this process."""

    def call(*arguments: str) -> Call:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        # on a machine that has no compiled code yet, any first search announces it
        return Call(status, said.out, said.err.replace(FIRST_TIME + "\n", ""))

    return call

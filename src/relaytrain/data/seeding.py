"""One seed for all that may draw in a pass: torch, numpy and Python itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch

from .held import Held


def seed_torch(seed: int) -> None:
    """torch.manual_seed, for the devices that are there.

    For others torch would note the seed and its caller's stack, milliseconds each time, and keep both for good.
    """
    if _accelerated():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@cache
def _accelerated() -> bool:
    return bool(torch.accelerator.is_available())


@contextmanager
def seeded(seed: int, *held: Held) -> Iterator[None]:
    """Everything drawn inside is a function of `seed`; the caller's random states are as they were afterwards.

    A plain loop does the same by `torch.manual_seed(seed)`, `numpy.random.seed(seed % 2**32)` and `random.seed(seed)`.

    Args:
        seed: of the pass.
        held: data whose own generators are to draw from it too.
    """
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        seed_torch(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        for data in held:
            data.reseed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)

"""The paper's dataset stage: exact where K T is submodular, warned about where it is not."""

import math

import numpy as np
import pytest

from relaytrain.planners.depl.data_choice import exhaustive
from relaytrain.planners.depl.paper.proxy import NotSubmodular, minimum_norm_choice


def epochs_times_duration(volumes, base, fall, fixed):
    def proxy(chosen):
        volume = sum(volumes[d] for d in chosen)
        return (base - fall * math.log1p(volume)) * (fixed + volume)

    return proxy


@pytest.mark.parametrize("seed", range(8))
def test_submodular_products_are_minimised(seed):
    random = np.random.default_rng(seed)
    volumes = random.uniform(0.1, 0.6, 6)
    proxy = epochs_times_duration(volumes, random.uniform(8, 12), random.uniform(2, 4), random.uniform(1.0, 1.9))
    least = exhaustive(6, lambda chosen, below: proxy(chosen)).value
    assert minimum_norm_choice(6, proxy).value == pytest.approx(least)


@pytest.mark.parametrize("seed", range(8))
def test_cuts_are_minimised(seed):
    """Submodular with interior minima: a cut of a random graph plus a price for each vertex."""
    random = np.random.default_rng(seed)
    edges, price = np.triu(random.uniform(0, 1, (7, 7)), 1), random.uniform(-2, 2, 7)

    def value(chosen):
        inside = np.isin(np.arange(7), chosen)
        return 20 + float((edges * (inside[:, None] != inside)).sum() + price[inside].sum())

    least = exhaustive(7, lambda chosen, below: value(chosen)).value
    assert minimum_norm_choice(7, value).value == pytest.approx(least)


def test_a_long_fixed_time_is_not_submodular():
    with pytest.warns(NotSubmodular, match="not submodular"):
        minimum_norm_choice(3, epochs_times_duration([0.3, 1.0, 1.0], 2.5, 1.0, 10.0))


def test_large_values_and_modular_functions_end():
    """Values in the tens of thousands that just add up: the smallest single dataset is best."""
    price = (17860.4, 22271.6, 14825.5)
    found = minimum_norm_choice(3, lambda chosen: sum(price[d] for d in chosen))
    assert found.chosen == (2,)

"""A drawn campaign, and estimators fitted to it."""

from __future__ import annotations

import pytest
from drawn_campaign import drawn_bundle

from relaytrain.estimators.learned.bundle import Bundle
from relaytrain.estimators.learned.fitted import Fitted


@pytest.fixture(scope="session")
def campaign() -> Bundle:
    return drawn_bundle()


@pytest.fixture(scope="session")
def auto(campaign: Bundle) -> Fitted:
    from relaytrain.estimators.learned.fit import fit

    return fit(campaign, epochs=6)


@pytest.fixture(scope="session")
def paper(campaign: Bundle) -> Fitted:
    from relaytrain.estimators.learned.fit import fit

    return fit(campaign, name="paper", change_target="first-epoch", epochs=6)

"""Stores with runs of every kind, a dashboard before them, and, for those who can, a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from dashboards import HOST, TOKEN, fill

from relaytrain.store import RunStore


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A store that no test changes."""
    return fill(tmp_path_factory.mktemp("dashboard") / "runs")


@pytest.fixture(scope="session")
def client_of() -> Callable[..., object]:
    """A client with the token, as a browser is after the first page."""
    from fastapi.testclient import TestClient

    from relaytrain.web.app import create_app
    from relaytrain.web.guard import Door

    def made(store: RunStore, *, token: str | None = TOKEN) -> TestClient:
        app = create_app(store, Door(TOKEN, frozenset({HOST})), warm=False)
        app.app.state.dashboard.readings.patience_s = 60.0  # a crowded machine is no long run
        client = TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)
        if token is not None:
            client.headers["authorization"] = f"Bearer {token}"
        return client

    return made


@pytest.fixture(scope="session")
def client(filled: RunStore, client_of: Callable[..., object]) -> Iterator[object]:
    yield client_of(filled)

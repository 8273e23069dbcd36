"""The dashboard's description of itself, fuzzed: whatever is asked within it or beyond, no answer is our error."""

from __future__ import annotations

import os

import pytest
from dashboards import HOST, TOKEN

pytestmark = pytest.mark.slow
SOAK = os.environ.get("RELAYTRAIN_TIER") == "soak"
CASES = 1000 if SOAK else 100
RUNS = ("stub-met-1", "stub-missed", "sample-trouble", "sample-broken", "not-there-1")


def test_no_question_makes_the_dashboard_fail(filled):
    """So many cases over all routes; half of them with names of runs that are there."""
    pytest.importorskip("schemathesis")
    import hypothesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import openapi

    from relaytrain.web.app import create_app
    from relaytrain.web.guard import Door

    app = create_app(filled, Door(TOKEN, frozenset({HOST})), warm=False)
    app.bucket.per_second = 1e9  # this is a flood, and meant to be one
    schema = openapi.from_asgi("/api/openapi.json", app, headers=_headers())
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 13
    statuses: dict[int, int] = {}

    for operation in operations:  # more than their share: some have but a few cases
        quiet = settings(
            max_examples=3 * CASES // (2 * len(operations)), deadline=None, database=None, derandomize=True,
            phases=[Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip

        @quiet
        @given(case=operation.as_strategy(), pick=hypothesis.strategies.sampled_from((None, *RUNS)))
        def asked(case, pick):
            if pick is not None and "run" in case.path_parameters:
                case.path_parameters["run"] = pick
            answer = case.call(headers=_headers())
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code < 500, (case.method, case.path, answer.status_code)
            case.validate_response(answer, checks=_checks())

        asked()
    assert sum(statuses.values()) >= CASES
    assert statuses.get(200, 0) > CASES // 10
    print(f"{sum(statuses.values())} cases over {len(operations)} routes: {dict(sorted(statuses.items()))}")


def _headers() -> dict[str, str]:
    return {"authorization": f"Bearer {TOKEN}", "host": HOST, "origin": f"http://{HOST}"}


def _checks():
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    return [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

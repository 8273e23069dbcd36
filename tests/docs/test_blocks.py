"""Every code block of the documentation does what the page says: quick ones here, all of them in `make docs`."""

from __future__ import annotations

import os
from typing import Any

import pytest
from page_blocks import blocks, pages, run, runnable

ALL = os.environ.get("RELAYTRAIN_DOCS") == "all"
pytestmark = pytest.mark.slow


@pytest.mark.train
@pytest.mark.parametrize(
    "page", [page for page in pages() if any(runnable(page, slow=ALL))], ids=lambda page: page.stem
)
def test_blocks_run(page, tmp_path):
    names: dict[str, Any] = {}
    for block in runnable(page, slow=ALL):
        wrong = run(block, tmp_path, names)
        assert not wrong, f"{block}: {wrong}"


def test_what_is_not_run_says_why():
    for page in pages():
        for block in blocks(page):
            assert "not run" not in block.say or len(block.reason) > 10, str(block)

"""The example notebook runs from top to bottom, and its plan is a picture."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "relay.ipynb"


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("RELAYTRAIN_DOCS") != "all", reason="part of make docs, which brings a kernel")
@pytest.mark.filterwarnings("default")  # of Jupyter's own making
def test_the_notebook_runs():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("<svg" in output.get("data", {}).get("text/html", "") for output in shown)
    assert not any(output.output_type == "error" for output in shown)

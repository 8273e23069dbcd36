"""How the documentation is built (`make docs`): Markdown by MyST, the theme Furo, references made from the code."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "RelayTrain"
author = "the RelayTrain developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "reference_pages"]
html_theme = "furo"
html_title = "RelayTrain"
html_static_path: list[str] = []
exclude_patterns = ["_build", "_extensions"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "description"
suppress_warnings = ["myst.xref_missing"]  # pages also link to files of the repository, which are not pages

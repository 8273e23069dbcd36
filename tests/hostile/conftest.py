from __future__ import annotations

import sys
from pathlib import Path

for folder in ("chaos", "relay"):  # forked processes, stub runners and how runs are compared
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

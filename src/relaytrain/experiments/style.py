"""One look for all figures: colours that colour-blind readers can tell apart, and files that are the same each run.

Strategies and versions keep their colour from figure to figure (palette: Okabe and Ito). Line styles and markers differ
too, so that a figure survives a grey printer.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import UsageError
from ..store.files import make_dir, write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
DEFAULT_FORMATS = ("png", "svg")

STRATEGIES: dict[str, dict[str, Any]] = {
    # The optimum is a broad pale line so that PACT, which mostly lies on it, can be seen on top.
    "Optimum": {"color": "#B8B8B8", "linewidth": 4.5, "linestyle": "-", "marker": "s", "markersize": 8},
    "PACT": {"color": "#0072B2", "linewidth": 1.6, "linestyle": "-", "marker": "o", "markersize": 5},
    "OneSwitch": {"color": "#D55E00", "linewidth": 1.6, "linestyle": "--", "marker": "^", "markersize": 6},
    "StaticLearn": {"color": "#009E73", "linewidth": 1.6, "linestyle": "-.", "marker": "D", "markersize": 5},
}
BESIDE: dict[str, Any] = {"color": "#CC79A7", "linewidth": 1.6, "linestyle": ":", "marker": "X", "markersize": 6}
"""A rule drawn beside PACT's own."""
VERSIONS = {"L": "#CC79A7", "M": "#E69F00", "S": "#56B4E9"}
HATCHES = {"L": "", "M": "//", "S": ".."}
SEQUENCE_MARKS = ("o", "v", "s", "P", "D", "X", "^")

_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "svg.hashsalt": "relaytrain",  # otherwise ids in the SVG are drawn at random
    "svg.fonttype": "path",
}


@contextmanager
def house_style() -> Iterator[None]:
    """The settings above inside the block; says what to install when matplotlib is missing."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise UsageError(
            "reproduce: figures need matplotlib, which is not installed; install it: pip install 'relaytrain[figures]'"
        ) from None
    with mpl.rc_context(_SETTINGS):
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """A figure of its own, outside pyplot's global state; lays itself out when drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width_in, height_in), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06))
    FigureCanvasAgg(figure)
    return figure


def sequence(count: int) -> list[tuple[float, float, float, float]]:
    """`count` colours from dark to light, in an order that everyone sees (plasma)."""
    import matplotlib as mpl

    scale = mpl.colormaps["plasma"]
    return [scale(0.86 * i / max(count - 1, 1)) for i in range(count)]


def diverging(values: Sequence[float]) -> list[Any]:
    """Blue below zero, black at zero, red above; stronger farther away."""
    import matplotlib as mpl

    scale = mpl.colormaps["RdBu_r"]
    reach = max(map(abs, values)) or 1.0

    def colour(value: float) -> Any:
        strength = 0.45 + 0.55 * abs(value) / reach
        return "#000000" if value == 0 else scale(0.5 + 0.5 * strength * (1 if value > 0 else -1))

    return [colour(value) for value in values]


def legend_below(figure: Figure, axes: Axes, *, columns: int) -> None:
    """One legend for all panels, under them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def save(figure: Figure, out_dir: Path, name: str, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write the figure in every format, the same bytes each time."""
    unknown = [item for item in formats if item not in FORMATS]
    if unknown or not formats:
        got = ", ".join(map(repr, unknown)) or "none"
        raise UsageError(f"formats: got {got}, expected some of {', '.join(FORMATS)}")
    # Dates and program versions in the files would make them differ from run to run.
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": "RelayTrain"},
        "pdf": {"CreationDate": None, "Creator": "RelayTrain", "Producer": None},
    }
    make_dir(out_dir)
    written = []
    for item in formats:
        data = io.BytesIO()
        figure.savefig(data, format=item, metadata=metadata[item])
        path = out_dir / f"{name}.{item}"
        write_atomic(path, data.getvalue())
        written.append(path)
    return tuple(written)

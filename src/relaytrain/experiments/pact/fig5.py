"""PACT figure 5: the reachable expanded graph of a toy, with Omega and its edges by kind of switch.

The paper prints the toy's resolutions, target and deadline; the preset `fig5` chooses the rest. Its graph is too large
to be read at once, so the figure shows every first action and the paths that cost little more than the best.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api import scenario
from ...core.state import Grid
from ...planners.pact.level_tables import Tables
from ...planners.pact.rules import choose
from ...scenario import Scenario
from ..expected import Judgement, expected_of, judged
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, new_figure, save
from .graph import KINDS, OMEGA, Edge, ExpandedGraph, Kind, Vertex, near_best, reachable_graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "pact-fig5"
TITLE = "PACT Fig. 5: expanded graph of the toy"
EXTRA = 0.3
"""How much more than the best path a path may cost to be drawn, in the toy's cost units."""

_EDGES: dict[Kind, dict[str, Any]] = {
    "node": {"color": "#009E73", "linestyle": "-", "label": "other nodes"},
    "model": {"color": "#7B3294", "linestyle": "-", "label": "other model"},
    "both": {"color": "#0072B2", "linestyle": "--", "label": "both"},
    "neither": {"color": "#000000", "linestyle": ":", "label": "neither"},
    "goal": {"color": "#888888", "linestyle": "-", "label": "feasible, free to Ω"},
}
_CHOSEN, _FEASIBLE, _START, _PLAIN = "#F0C05A", "#F7C6DA", "#DDEBF7", "#FFFFFF"
_COLUMN, _BOX = 2.75, (1.66, 0.46)  # distance of the columns and size of a vertex, in units of the rows


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS) -> Reproduction:
    """Draw the graph and check what the paper says about it."""
    where = scenario("fig5")
    grid = where.planner.grid
    assert grid is not None
    graph = reachable_graph(where, grid)
    path = chosen_path(where, grid)
    first = tuple(edge for edge in graph.edges if edge.source == graph.start)
    shown = tuple(dict.fromkeys((*first, *near_best(graph, EXTRA))))
    with house_style():
        files = save(_draw(where, grid, graph, shown, path), out_dir, NAME, formats)
    rows = _rows(graph)
    hidden = len(graph.vertices) - len({v for e in shown for v in e[:2] if v != OMEGA})
    notes = (
        f"drawn: every first action, and all paths to Omega that cost at most {EXTRA:g} more than the best and end at "
        f"their first feasible vertex; {hidden} of {len(graph.vertices)} reachable vertices are only in the table",
    )
    findings = judged("Fig. 5", expected_of(__file__), _checks(graph, path))
    return written(NAME, TITLE, out_dir, files, rows, findings, notes)


def chosen_path(where: Scenario, grid: Grid) -> tuple[Vertex, ...]:
    """The path that PACT would follow from the start, with the rule that the preset names."""
    tables = Tables(where.problem, where.costs, where.law, grid)
    start = tables.start(where.problem.first_state)
    solution = choose(tables, start, "robust").solution
    spot = Vertex(0, start.pair, int(start.loss), int(start.elapsed_s))
    passed = [spot]
    for now, loss in zip(solution.actions, solution.losses, strict=True):
        spent = grid.time_index(float(where.costs.epoch_s[spot.pair, now]))
        spot = Vertex(spot.epoch + 1, now, round(loss), spot.time_index + spent)
        passed.append(spot)
    return tuple(passed)


def _rows(graph: ExpandedGraph) -> tuple[Row, ...]:
    kinds: dict[int, Counter[str]] = defaultdict(Counter)
    for edge in graph.edges:
        kinds[edge.source.epoch][edge.kind] += 1
    layers = Counter(vertex.epoch for vertex in graph.vertices)
    return tuple(
        {"epoch": k, "vertices": layers[k], "feasible": kinds[k]["goal"]}
        | {f"edges_{kind}": kinds[k][kind] for kind in KINDS}
        for k in sorted(layers)
    )


def _checks(graph: ExpandedGraph, path: tuple[Vertex, ...]) -> dict[str, Judgement]:
    first = Counter(edge.kind for edge in graph.edges if edge.source == graph.start)
    weights = {(edge.source, edge.target): edge.energy for edge in graph.edges}
    steps = list(pairwise(path))
    on_graph = all(step in weights for step in steps) and path[-1] in graph.feasible
    energy = sum(weights.get(step, float("inf")) for step in steps)
    least = sum(edge.energy for edge in _best(graph))
    drawn = near_best(graph, EXTRA)
    return {
        "four-kinds": (
            all(first[kind] == 1 for kind in KINDS),
            "edges from the start: " + ", ".join(f"{kind} {first[kind]}" for kind in KINDS),
        ),
        "shortest-path": (
            on_graph and abs(energy - least) < 1e-9,
            f"the path that PACT takes costs {energy:.2f}, the shortest way to Omega {least:.2f}",
        ),
        "one-feasible": (
            len(graph.feasible) == 1,
            f"{len(graph.feasible)} of {len(graph.vertices)} reachable vertices are feasible "
            f"({sum(edge.kind == 'goal' for edge in drawn)} of them drawn)",
        ),
    }


def _best(graph: ExpandedGraph) -> tuple[Edge, ...]:
    """One least-energy path: with nothing extra allowed, follow any edge that is left."""
    edges = {edge.source: edge for edge in near_best(graph, 0.0)}
    spot, passed = graph.start, []
    while spot != OMEGA:
        passed.append(edges[spot])
        spot = edges[spot].target
    return tuple(passed)


def _places(shown: tuple[Edge, ...], path: tuple[Vertex, ...]) -> dict[Vertex, tuple[float, float]]:
    """Columns by epoch; inside a column, vertices near the mean height of those they come from and lead to."""
    columns: dict[int, list[Vertex]] = defaultdict(list)
    for vertex in sorted({v for e in shown for v in e[:2] if v != OMEGA}, key=lambda v: (v not in path, v)):
        columns[vertex.epoch].append(vertex)
    height = {v: -float(i) for column in columns.values() for i, v in enumerate(column)}
    for sweep in range(12):
        forward = sweep % 2 == 0
        for epoch in sorted(columns, reverse=not forward):
            wish = {}
            for vertex in columns[epoch]:
                ends = [(e.target, e.source) if forward else (e.source, e.target) for e in shown if e.kind != "goal"]
                near = [other for this, other in ends if this == vertex]
                wish[vertex] = sum(height[v] for v in near) / len(near) if near else height[vertex]
            columns[epoch].sort(key=lambda v: (-wish[v], v))
            middle = (len(columns[epoch]) - 1) / 2
            for i, vertex in enumerate(columns[epoch]):
                height[vertex] = middle - i
    return {vertex: (_COLUMN * vertex.epoch, y) for vertex, y in height.items()}


def _draw(
    where: Scenario, grid: Grid, graph: ExpandedGraph, shown: tuple[Edge, ...], path: tuple[Vertex, ...]
) -> Figure:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    place = _places(shown, path)
    right = max(x for x, _ in place.values())
    place[OMEGA] = (right + 0.85 * _COLUMN, 0.0)
    figure = new_figure(14.0, 7.2)
    axes = figure.add_subplot()
    axes.set_axis_off()
    walked = set(zip(path, (*path[1:], OMEGA), strict=True))
    for edge in shown:
        _arrow(axes, place, edge, edge[:2] in walked)
    going_on = {edge.source for edge in shown}
    for vertex, spot in place.items():
        if vertex == OMEGA:
            axes.plot(*spot, marker="o", markersize=30, color="#333333", zorder=4)
            axes.text(*spot, "Ω", color="white", fontsize=15, ha="center", va="center", zorder=5)
            continue
        fill = _FEASIBLE if vertex in graph.feasible else _START if vertex == graph.start else _PLAIN
        _vertex(axes, spot, label(where, grid, vertex), fill)
        if vertex not in going_on:
            axes.text(spot[0] + _BOX[0] / 2 + 0.12, spot[1], "…", fontsize=13, va="center", color="#555555")
    top = max(y for _, y in place.values())
    for epoch in range(max(v.epoch for v in place) + 1):
        axes.text(_COLUMN * epoch, top + 0.62, f"k = {epoch}", ha="center", va="center", color="#555555")
    axes.set_xlim(-1.1, place[OMEGA][0] + 0.6)
    axes.set_ylim(min(y for _, y in place.values()) - 0.5, top + 0.9)
    target = where.problem.target
    axes.set_title(
        rf"Vertices (k, m, n, ℓ, T), edges with their energy; $\gamma_T$ = {grid.time_step_s:g}, "
        rf"$\gamma_\ell$ = {grid.loss_step:g}, $\ell^{{max}}$ = {target.loss:g}, $T^{{max}}$ = {target.deadline_s:g}"
        f"\nShown: every first action, and the paths to Ω that cost at most {EXTRA:g} more than the best"
    )
    handles: list[Any] = [Line2D([], [], linewidth=1.8, **style) for style in _EDGES.values()]
    handles += [
        Line2D([], [], color=_CHOSEN, linewidth=7, label="chosen path"),
        Patch(facecolor=_START, edgecolor="#333333", label="start"),
        Patch(facecolor=_FEASIBLE, edgecolor="#333333", label=r"feasible: ℓ ≤ $\ell^{max}$, T ≤ $T^{max}$"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=8, frameon=False)
    return figure


def _arrow(axes: Axes, place: dict[Vertex, tuple[float, float]], edge: Edge, chosen: bool) -> None:
    (x0, y0), (x1, y1) = place[edge.source], place[edge.target]
    left, right = x0 + _BOX[0] / 2, x1 - (_BOX[0] / 2 if edge.target != OMEGA else 0.26)
    if chosen:
        axes.plot([left, right], [y0, y1], color=_CHOSEN, linewidth=8, solid_capstyle="round", zorder=1)
    style = {key: value for key, value in _EDGES[edge.kind].items() if key != "label"}
    thin = 0.9 if edge.kind == "goal" else 1.7
    axes.annotate(
        "",
        (right, y1),
        (left, y0),
        zorder=2,
        arrowprops={"arrowstyle": "-|>", "linewidth": thin, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 10, **style},
    )
    if edge.kind != "goal":
        share = 0.3  # where edges have fanned out but do not cross yet
        spot = (left + share * (right - left), y0 + share * (y1 - y0))
        box = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        colour = style["color"]
        axes.text(*spot, f"{edge.energy:g}", fontsize=7.5, ha="center", va="center", color=colour, bbox=box, zorder=3)


def _vertex(axes: Axes, spot: tuple[float, float], text: str, fill: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = spot, _BOX
    box = FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.12")
    box.set(facecolor=fill, edgecolor="#333333", linewidth=0.8, zorder=4)
    axes.add_patch(box)
    axes.text(x, y, text, fontsize=8, ha="center", va="center", zorder=5)


def label(where: Scenario, grid: Grid, vertex: Vertex) -> str:
    """A vertex as the paper writes it: k, m, n, l, T."""
    version, nodes = where.problem.pairs[vertex.pair]
    loss, time = vertex.loss_index * grid.loss_step, vertex.time_index * grid.time_step_s
    return f"{vertex.epoch}, {version}, {nodes}, {loss:.1f}, {time:.1f}"

"""DepL figure 9: the loss over epochs, expected and between its 1st and 99th percentile (AlexNet)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...store.files import write_atomic
from ..expected import Seen, judged
from ..result import Reproduction, Row, table_csv
from ..style import DEFAULT_FORMATS, house_style, legend_below, new_figure, save
from .study import DEPL, GREEDY, OPTIMUM, SCALE, STYLES, Real, Study, findings_of, measured_notes, named, study

NAME = "depl-fig9"
TITLE = "DepL Fig. 9: evolution of expected and guaranteed loss, AlexNet"
PRESET = "depl_alexnet"
SHOWN = (5.0, 9.0, 13.0)
LINES = (OPTIMUM, DEPL, GREEDY)
Bands = dict[float, dict[str, tuple[Real, Real, Real]]]


def reproduce(out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, curves: str = "stand-in") -> Reproduction:
    """Follow every strategy's distribution, draw and judge."""
    found = study(PRESET, curves)
    bands: Bands = {t: {name: found[t][name].band(0.01, 0.99) for name in LINES} for t in SHOWN}
    with house_style():
        figure = new_figure(12.5, 4.3)
        panels = figure.subplots(1, 3)
        for axes, target in zip(panels, SHOWN, strict=True):
            for name in LINES:
                mean, low, high = bands[target][name]
                style = {key: STYLES[name][key] for key in ("color", "linestyle", "linewidth")}
                axes.plot(mean, label=name, **style)
                axes.fill_between(range(len(mean)), low, high, color=style["color"], alpha=0.25, linewidth=0)
            axes.axhline(found[target][OPTIMUM].instance.target.loss, color="#777777", linewidth=0.8, linestyle=":")
            axes.set(title=f"guaranteed loss {target:g}", xlabel="epoch", ylabel="loss")
        legend_below(figure, panels[0], columns=3)
        files = save(figure, out_dir, named(NAME, curves), formats)
    rows: tuple[Row, ...] = tuple(
        {
            "target": t,
            "strategy": name,
            "epoch": k,
            "expected": float(mean[k]),
            "q01": float(low[k]),
            "q99": float(high[k]),
        }
        for t in SHOWN
        for name, (mean, low, high) in bands[t].items()
        for k in range(len(mean))
    )
    path = out_dir / f"{named(NAME, curves)}.csv"
    write_atomic(path, table_csv(rows))
    expected = findings_of(__file__, curves)
    findings = judged("DepL Fig. 9", expected, _checks(found, bands, expected["matches"].limits["loss"]))
    return Reproduction(
        NAME,
        TITLE,
        (*files, path),
        rows,
        findings,
        ("independent epochs, as in the paper", *measured_notes(PRESET, curves)),
    )


def _checks(found: Study, bands: Bands, near: float) -> dict[str, Seen]:
    lengths = {t: {name: len(found[t][name].plan.versions) for name in LINES} for t in SHOWN}
    wide = {t: {name: float((high - low)[-1]) for name, (_, low, high) in bands[t].items()} for t in SHOWN}
    rises = []
    for t in SHOWN:
        run, (mean, _, _) = found[t][OPTIMUM], bands[t][OPTIMUM]
        steps = -np.diff(mean)
        rises += [steps[k - 1] < min(steps[k - 2], steps[min(k, len(steps) - 1)]) for k in run.switches]
    unit = SCALE / found[SHOWN[0]][OPTIMUM].instance.initial_loss
    apart = unit * max(
        float(np.abs(bands[t][OPTIMUM][0][:n] - bands[t][DEPL][0][:n]).max())
        for t in SHOWN
        for n in [min(lengths[t][OPTIMUM], lengths[t][DEPL]) + 1]
    )
    told = "; ".join(f"{t:g}: " + ", ".join(f"{name} {n}" for name, n in row.items()) for t, row in lengths.items())
    return {
        "peaks": (
            all(rises) and bool(rises),
            f"progress is less in the switching epoch than around it in {sum(rises)} of {len(rises)} switches of the optimum",
        ),
        "shorter": (all(lengths[t][DEPL] < lengths[t][GREEDY] for t in SHOWN), f"epochs: {told}"),
        "wider": (
            all(wide[t][GREEDY] > wide[t][DEPL] for t in SHOWN),
            "distance of the 1st and 99th percentile at the end: "
            + "; ".join(f"{t:g}: best-exp {wide[t][GREEDY]:.2f}, DepL {wide[t][DEPL]:.2f}" for t in SHOWN),
        ),
        "matches": (apart <= near, f"expected losses of DepL and the optimum at most {apart:.2f} apart"),
    }

"""PACT figure 4: one held-out relay, its true loss against expected and robust forecasts of the next epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.curve import Array
from ...core.errors import ScenarioError
from ...estimators.learned.auto import EPOCHS
from ...estimators.learned.bundle import Bundle, LegCurve, LegSwitch, bundle_of
from ...estimators.learned.features import Seen, rows_of
from ...estimators.learned.fit import change_model, held_out_quarter, run_model
from ..expected import Expected, Judgement, expected_of, judged
from ..figure_traces import campaigns, need_learning
from ..result import Reproduction, Row, written
from ..style import DEFAULT_FORMATS, house_style, legend_below, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "pact-fig4"
TITLE = "PACT Fig. 4: true loss, expected and robust estimates of the next epoch, a relay never seen"
WANTED = (25.0, 0.75, 40.0, 0.5)
"""K1, F1, K2 and F2 of the paper; the nearest relay of each campaign is taken."""
ESTIMATORS = ("paper", "auto")


@dataclass(frozen=True)
class Relay:
    """A relay of the campaign that was held out: its legs cut at their switches, and the switches."""

    legs: tuple[LegCurve, ...]
    switches: tuple[LegSwitch, ...]
    words: str


def reproduce(
    out_dir: Path, *, formats: tuple[str, ...] = DEFAULT_FORMATS, campaign: str | None = None, epochs: int = EPOCHS
) -> Reproduction:
    """Fit without the relay's configuration, forecast epoch after epoch, draw and judge."""
    need_learning()
    bundles = {name: bundle_of(traces, "train") for name, traces in campaigns(campaign).items()}
    drawn = {name: forecast(bundle, epochs=epochs) for name, bundle in bundles.items()}
    rows = tuple(row for name, (_, forecasts) in drawn.items() for row in forecast_rows(name, forecasts))
    with house_style():
        figure = new_figure(5.2 * len(drawn), 6.4)
        panels = figure.subplots(len(ESTIMATORS), len(drawn), squeeze=False)
        for column, (name, (relay, forecasts)) in enumerate(drawn.items()):
            for line, estimator in enumerate(ESTIMATORS):
                _draw(panels[line][column], forecasts[estimator])
                panels[line][column].set_title(f"{name}, {estimator}: {relay.words}")
        legend_below(figure, panels[0][0], columns=4)
        files = save(figure, out_dir, NAME, formats)
    expected = expected_of(__file__)
    findings = judged("Fig. 4", expected, _checks(rows, expected))
    note = (
        "the paper's K1 = 25, F1 = 0.75, K2 = 40, F2 = 0.5; drawn is the nearest relay of each campaign, left out of "
        "the "
        "fit with all of its K1 and F1"
    )
    return written(NAME, TITLE, out_dir, files, rows, findings, (note,))


def chosen(bundle: Bundle) -> Relay:
    """The relay of two switches nearest to the paper's, of the lowest seed."""
    by_run = {(c.seed, c.run): c for c in bundle.curves}
    into = {(s.seed, s.run): s for s in bundle.switches}

    def distance(last: LegCurve) -> float:
        second, first = into[last.seed, last.run], into[last.seed, last.parent or 0]
        relay_has = (first.epoch, first.ratio, second.epoch - first.epoch, second.ratio)
        return sum(abs(g - w) / w for g, w in zip(relay_has, WANTED, strict=True))

    ends = [c for c in bundle.curves if c.stage == 2 and (c.seed, c.parent or 0) in into]
    if not ends:
        raise ScenarioError(
            "traces: no relay with two switches, expected one to draw; collect a campaign that has some"
        )
    last = min(ends, key=lambda c: (c.seed, distance(c), c.run))
    middle = by_run[last.seed, last.parent or 0]
    first = by_run[last.seed, middle.parent or 0]
    one, two = into[middle.seed, middle.run], into[last.seed, last.run]
    words = f"K1 = {one.epoch}, F1 = {one.ratio:g}, K2 = {two.epoch - one.epoch}, F2 = {two.ratio:g}"
    return Relay((_cut(first, len(one.history)), _cut(middle, len(two.history)), last), (one, two), words)


def _cut(curve: LegCurve, epochs: int) -> LegCurve:
    from dataclasses import replace

    return replace(curve, losses=curve.losses[:epochs])


def forecast(bundle: Bundle, *, epochs: int = EPOCHS) -> tuple[Relay, dict[str, dict[str, Array]]]:
    """The relay, and for each estimator arrays over its epochs: truth, mean, low, high, which follow a switch."""
    relay = chosen(bundle)
    group = relay.legs[-1].group
    kept = bundle.only([c.group != group for c in bundle.curves], [s.group != group for s in bundle.switches])
    roots = [c.stage == 0 and c.seed == relay.legs[0].seed for c in kept.curves]
    fold = held_out_quarter(kept.only([not r for r in roots], [True] * len(kept.switches)))
    forecasts = {}
    for name in ESTIMATORS:
        model = run_model("paper" if name == "paper" else "auto", fold, epochs=epochs)
        change = change_model("paper" if name == "paper" else "probe", "first-epoch", fold, epochs=epochs)
        parts: dict[str, list[float]] = {key: [] for key in ("epoch", "truth", "mean", "low", "high", "switch")}
        switches = (None, *relay.switches)
        for leg, switch in zip(relay.legs, switches, strict=True):
            lead = [leg.start] if model.with_start and leg.start is not None else []
            whole = np.array([*lead, *leg.losses])
            for k in range(len(leg.losses)):
                history = whole[: k + len(lead)]
                if k == 0 and switch is not None:
                    bands = change.bands(change.rows([switch]))
                    before = float(switch.history[-1])
                    values = [before + float(v[0]) for v in (bands.mean, bands.low, bands.high)]
                elif not len(history):
                    continue
                else:
                    facts = np.array([leg.fixed], dtype=np.float64)
                    ahead = model.bands(Seen(rows_of([history]), np.array([float(k)]), facts, np.array([leg.stage])))
                    values = [float(history[-1] + v[0, 0]) for v in (ahead.mean, ahead.low, ahead.high)]
                row = (leg.epoch + k + 1, leg.losses[k], *values, float(k == 0 and switch is not None))
                for key, value in zip(parts, row, strict=True):
                    parts[key].append(float(value))
        forecasts[name] = {key: np.array(values) for key, values in parts.items()}
    return relay, forecasts


def forecast_rows(campaign: str, forecasts: Mapping[str, Mapping[str, Array]]) -> list[Row]:
    """One row an estimator."""
    rows: list[Row] = []
    for name, parts in forecasts.items():
        running = parts["switch"] == 0.0
        error = np.abs(parts["truth"] - parts["mean"])
        rows.append(
            {
                "campaign": campaign,
                "estimator": name,
                "epochs": len(error),
                "mae_run": float(error[running].mean()),
                "mae_switch": float(error[~running].mean()),
                "loss_range": float(np.ptp(parts["truth"])),
                "below_robust": float((parts["truth"] <= parts["high"])[running].mean()),
                "inside": float(((parts["truth"] >= parts["low"]) & (parts["truth"] <= parts["high"])).mean()),
            }
        )
    return rows


def _draw(axes: Axes, parts: Mapping[str, Array]) -> None:
    axes.plot(parts["epoch"], parts["truth"], color="black", linewidth=1.6, label="true loss")
    running = parts["switch"] == 0.0
    axes.plot(
        np.where(running, parts["epoch"], np.nan),
        np.where(running, parts["mean"], np.nan),
        color="#D55E00",
        linewidth=1.0,
        label="expected",
    )
    band = {"color": "#D55E00", "alpha": 0.18, "label": "0.05 to 0.95 (robust)", "linewidth": 0}
    axes.fill_between(parts["epoch"], parts["low"], parts["high"], where=running.tolist(), **band)  # type: ignore[arg-type]
    at = ~running
    spans = np.stack([parts["mean"][at] - parts["low"][at], parts["high"][at] - parts["mean"][at]])
    axes.errorbar(
        parts["epoch"][at],
        parts["mean"][at],
        np.maximum(spans, 0.0),
        fmt="o",
        color="#009E73",
        markersize=5,
        label="after a switch",
    )
    axes.set_xlabel("epoch")
    axes.set_ylabel("training loss")
    axes.set_ylim(bottom=0.0)


def _checks(rows: tuple[Row, ...], expected: Mapping[str, Expected]) -> dict[str, Judgement]:
    share = expected["accurate"].limits["share"]
    least = expected["robust-above"].limits["share"]

    def words(key: str, ok: str) -> str:
        return ", ".join(f"{r['campaign']} {r['estimator']} {r[key]:.3f}{ok.format(**r)}" for r in rows)

    papers = [r for r in rows if r["estimator"] == "paper"]
    autos = {r["campaign"]: r for r in rows if r["estimator"] == "auto"}
    return {
        "accurate": (
            all(r["mae_run"] <= share * r["loss_range"] for r in papers),
            words("mae_run", " of a range of {loss_range:.2f}"),
        ),
        "robust-above": (all(r["below_robust"] >= least for r in papers), words("below_robust", "")),
        "switch-worse": (
            all(r["mae_switch"] > r["mae_run"] for r in papers),
            words("mae_switch", " against {mae_run:.3f} elsewhere"),
        ),
        "auto-switch": (
            all(autos[r["campaign"]]["mae_switch"] < r["mae_switch"] for r in papers),
            words("mae_switch", ""),
        ),
    }

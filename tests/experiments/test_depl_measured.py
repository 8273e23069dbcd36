"""DepL's figures with measured curves: what is fitted, and that the verdicts are the shipped ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from relaytrain.experiments import run
from relaytrain.experiments.depl import study
from relaytrain.experiments.depl.measured import measured, with_measured
from relaytrain.experiments.depl.study import findings_of, instance_of
from relaytrain.experiments.figure_traces import campaigns
from relaytrain.experiments.result import WORDS


def test_the_fits_are_the_least_squares_of_the_changes() -> None:
    """Against scipy, from the segments themselves."""
    from scipy.optimize import curve_fit

    k, y = [], []
    for path in campaigns("v16s")["v16s"].paths():
        leg = path.segments[-1]
        if (
            leg.stage == 1
            and leg.node_set == "silver"
            and abs(leg.pruned_fraction - 0.5) < 1e-3
            and len(leg.loss("train")) == 20
        ):
            losses = [leg.switch.after("train"), *leg.loss("train")]
            y += list(-np.diff(losses))
            k += list(range(1, 21))
    (gain, offset), _ = curve_fit(lambda at, a, b: a / np.sqrt(at + b), np.array(k, float), np.array(y), p0=(0.5, 1.0))
    found = measured("v16s").fits[1]
    assert found[:2] == pytest.approx((gain, offset), rel=2e-2)
    x = np.array(y) * np.sqrt(np.array(k) + found[1]) / found[0]
    assert found[3:] == pytest.approx((x.mean(), x.var(), (x < 0).mean()), rel=1e-6)


def test_what_the_paper_prints_stays_and_targets_keep_their_share() -> None:
    printed, seen = instance_of("depl_alexnet", 13.0), instance_of("depl_alexnet", 13.0, "measured")
    assert [m.work for m in seen.versions] == [m.work for m in printed.versions]
    assert seen.node_sets == printed.node_sets
    assert seen.target.loss / seen.initial_loss == pytest.approx(13.0 / 20.0)
    assert with_measured(printed, "depl_alexnet", 13.0).switches[1][0] is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["depl-fig7", "depl-fig9"])
def test_verdicts_with_measured_curves_are_the_shipped_ones(tmp_path: Path, name: str) -> None:
    made = run(name, tmp_path, formats=("svg",), curves="measured")
    assert made.as_expected
    assert {path.name for path in made.files} == {f"{name}-measured.svg", f"{name}-measured.csv"}
    assert any("R2" in words for words in made.notes)


@pytest.mark.parametrize("number", [5, 6, 7, 8, 9])
def test_the_page_shows_the_shipped_verdicts(number: int) -> None:
    page = Path(__file__).parents[2] / "docs" / "reproduction.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith(f"| Measured DepL Fig. {number} |")]
    module = Path(study.__file__).with_name(f"fig{number}.py")
    shipped = findings_of(str(module), "measured").values()
    assert [line.split(" | ")[2].strip("*") for line in lines] == [WORDS[entry.holds] for entry in shipped]

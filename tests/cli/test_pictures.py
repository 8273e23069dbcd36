"""Pictures and tables of plans: well-formed, self-contained, and safe with any name."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from rich.console import Console

import relaytrain as rt
from relaytrain.report.canvas import clock_ticks, text_width, ticks
from relaytrain.report.plan_svg import plan_html, plan_svg
from relaytrain.scenario import preset_names

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('x')</script>&\"\x00\x1b[31m\ud800]]>"


def _numbers(root: ET.Element) -> list[float]:
    texts = " ".join(
        value for e in root.iter() for key, value in e.attrib.items() if key not in {"fill", "stroke", "font-family"}
    )
    assert not re.search(r"\b(nan|inf)\b", texts)
    return [float(v) for e in root.iter() for k in ("x", "y", "x1", "x2", "y1", "y2") for v in [e.get(k)] if v]


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("deadline", ["inf", "5", "180"])
def test_every_plan_can_be_drawn(name, deadline):
    if deadline == "inf" and (name == "fig5" or name.startswith("depl_")):
        pytest.skip("its grid, or paying by the rate, needs a deadline")
    root = ET.fromstring(plan_svg(rt.plan(name, overrides=[f"target.deadline={deadline}"])))
    assert all(0 <= value <= 960 for value in _numbers(root))
    assert not [e for e in root.iter() if e.tag in {f"{SVG}image", f"{SVG}script", f"{SVG}use"} or e.get("href")]


def test_the_picture_shows_legs_handovers_target_and_energy():
    plan = rt.plan("smart_factory")
    root = ET.fromstring(plan_svg(plan))
    words = [e.text for e in root.iter(f"{SVG}text")]
    for leg in plan.legs:
        assert f"{leg.version} on {leg.nodes} ×{leg.epochs}" in words
    assert "target 0.15" in words and "92.4 cost" in words and f"handover ({len(plan.handovers)})" in words
    tips = [e.text for e in root.iter(f"{SVG}title")]
    assert any("epochs 7-88" in tip for tip in tips)


def test_bars_are_as_long_as_the_legs_take():
    plan = rt.plan("smart_factory")
    bars = [e for e in ET.fromstring(plan_svg(plan)).iter(f"{SVG}rect") if len(e)]
    widths = sorted(float(bar.get("width")) + 1 for bar in bars)
    times = sorted(leg.elapsed_s for leg in plan.legs)
    for wide, long in zip(widths, times, strict=True):
        assert wide / widths[-1] == pytest.approx(long / times[-1], abs=0.01)


def test_words_stand_clear_of_axes_and_curves():
    """A deadline at the left edge is named to its right; where losses end high, the legend stands below them."""
    early = ET.fromstring(plan_svg(rt.plan("worlds", overrides=["target.deadline=0.7"])))
    name = next(e for e in early.iter(f"{SVG}text") if e.text.startswith("deadline"))
    assert name.get("text-anchor") == "start" and float(name.get("x")) > 70
    for losses, below in ((1.0, 0.2), False), ((1.0, 0.95), True):
        plan = rt.plan("worlds", overrides=["target.deadline=100"])
        count = len(plan.losses)
        drawn = tuple(losses[0] + (losses[1] - losses[0]) * (i + 1) / count for i in range(count))
        root = ET.fromstring(plan_svg(replace(plan, losses=drawn, guaranteed=drawn)))
        legend = next(e for e in root.iter(f"{SVG}text") if e.text.startswith("expected"))
        assert (float(legend.get("y")) > 300) is below


def test_no_name_can_break_out():
    plan = rt.plan("smart_factory")
    legs = tuple(replace(leg, version=HOSTILE, nodes=HOSTILE) for leg in plan.legs)
    nasty = replace(plan, problem=HOSTILE, legs=legs, time_unit=HOSTILE, energy_unit=HOSTILE, warnings=(HOSTILE,))
    assert not [e for e in ET.fromstring(plan_svg(nasty)).iter() if "script" in e.tag]
    assert "<script" not in plan_html(nasty)


def test_many_legs_and_infinite_bands_are_drawn():
    plan = rt.plan("smart_factory")
    endless = replace(plan, guaranteed=tuple(math.inf if i > 40 else v for i, v in enumerate(plan.guaranteed)))
    drawn = plan_svg(endless)
    numbers = " ".join(value for element in ET.fromstring(drawn).iter() for value in element.attrib.values())
    assert "inf" not in numbers and "nan" not in numbers
    assert drawn.count("<title>") == plan_svg(plan).count("<title>"), "every leg is there"


def test_notebooks_get_the_picture_and_the_words():
    plan = rt.plan("quickstart")
    html = plan._repr_html_()
    assert "<svg" in html and "<details>" in html and "src=" not in html and "http://www.w3.org" in html


def test_terminals_get_tables_and_names_are_no_markup():
    plan = rt.plan("smart_factory", overrides=["target.deadline=180"])
    other = replace(plan.alternatives[0], name="[bold]M[/bold]")
    console = Console(width=120, record=True, file=None, quiet=False, force_terminal=True)
    with console.capture() as said:
        console.print(replace(plan, alternatives=(other,)))
    assert "[bold]M[/bold]" in said.get()
    assert "nearest feasible" in said.get() and "Asked for 95%" in said.get()


def test_a_plan_says_who_it_is_in_one_line():
    assert repr(rt.plan("fig5")) == "<Plan fig5 by pact/robust on a grid: m0 on n0 x1 -> m1 on n0 x4; target met>"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.03), (2.5, 1e6), (0, 97)])
def test_ticks_are_round_and_inside(low, high):
    marks = ticks(low, high)
    assert 2 <= len(marks) <= 7 and all(low <= mark <= high for mark in marks)


def test_clock_ticks_are_whole_minutes_and_hours():
    assert clock_ticks(0, 300) == [0, 60, 120, 180, 240, 300]
    assert all(mark % 3600 == 0 for mark in clock_ticks(0, 6 * 3600))


def test_width_grows_with_text_and_size():
    assert text_width("aaaa", 12) == 2 * text_width("aa", 12) == 2 * text_width("aaaa", 6)

"""Figures of the papers, redrawn with RelayTrain, each with the findings it bears out and those it does not.

To be called from Python:

    available() -> {"pact-fig5": "...", ...}
    run("pact-fig6", "figures") -> Reproduction
    run_all("figures", print) -> AllReproductions

Rooms: `pact`, `depl`, `mcpipe`, a module a figure. They share `result` (what a reproduction gives back), `expected`
(the findings that ship), `over_seeds` (verdicts under scatter), `style`, `figure_traces` (what is drawn from traces),
`trainings` and `kept` (what is trained, and kept for the next time).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.errors import UsageError, did_you_mean
from ..store.files import write_atomic
from .result import AllReproductions, Finding, Reproduction, findings_markdown
from .trainings import nothing

__all__ = ["AllReproductions", "Finding", "Reproduction", "available", "run", "run_all"]

_EXPERIMENTS = {
    "pact-fig2": (
        "pact.fig2",
        "the motivating experiment, trained for real: when to prune, how much, who joins (15 minutes)",
    ),
    "pact-fig4": (
        "pact.fig4",
        "a held-out relay: true loss, expected and robust forecasts, before and after its switches (minutes)",
    ),
    "pact-table1": (
        "pact.table1",
        "how well the loss is predicted: the paper's estimators and `auto` on the same folds (minutes)",
    ),
    "pact-table1-mixed": (
        "pact.table1_mixed",
        "the same with every campaign in one fit, as the paper mixes classes: 7, 9 and 10 (minutes)",
    ),
    "pact-fig5": ("pact.fig5", "the expanded graph of a toy, with Omega and its edges by kind"),
    "pact-fig6": ("pact.fig6", "PACT against the optimum, OneSwitch and StaticLearn: cost by target, then over time"),
    "pact-fig7": ("pact.fig7", "energy spent on each version, for a low, a moderate and a high target loss"),
    "pact-fig8": ("pact.fig8", "what the loss resolution gamma_l does to PACT"),
    "pact-fig9": ("pact.fig9", "what a bias on the prediction for L does to PACT"),
    "pact-algorithm3": ("pact.algorithm3", "figures 6 to 9 with Algorithm 3 as printed and repaired, beside `robust`"),
    "pact-gamma-t": ("pact.gamma_t", "what the time resolution gamma_T does to PACT, as figure 8 does for gamma_l"),
    "depl-fig2": (
        "depl.fig2",
        "the test loss of two pruned versions: expected, and between its 1st and 99th percentile",
    ),
    "depl-fig4": ("depl.fig4", "fits of x and of switches, with p-values over all configurations"),
    "depl-table1": (
        "depl.table1",
        "improvement per epoch of three versions of AlexNet and MobileNet, and what it takes, measured",
    ),
    "depl-fig5": ("depl.fig5", "DepL against the optimum and best-exp, AlexNet: cost, expected loss, what eta does"),
    "depl-fig6": ("depl.fig6", "the same for MobileNet"),
    "depl-fig7": ("depl.fig7", "epochs that optimum, DepL and best-exp spend with each version"),
    "depl-fig8": ("depl.fig8", "what each version costs them"),
    "depl-fig9": ("depl.fig9", "the loss over epochs, expected and between its 1st and 99th percentile"),
    "mcpipe-fig1": ("mcpipe.fig1", "four workers without and with pipelining, and how long weight versions live"),
    "mcpipe-fig2": (
        "mcpipe.fig2",
        "accuracy over time of six ways of training, two workers, trained for real (minutes)",
    ),
    "mcpipe-fig3": ("mcpipe.fig3", "the same with three workers"),
    "mcpipe-fig4": ("mcpipe.fig4", "the same with three workers on CIFAR-10"),
    "mcpipe-width": ("mcpipe.width", "VGG16 at full width for a few updates: bytes and seconds against closed forms"),
}


_TRAINED = {
    "pact-fig2": 15,
    "pact-fig4": 2,
    "pact-table1": 10,
    "pact-table1-mixed": 10,
    "mcpipe-fig2": 14,
    "mcpipe-fig3": 14,
    "mcpipe-fig4": 7,
    "mcpipe-width": 3,
}
"""Need PyTorch and so many minutes of one core; the others take three minutes or so, all together."""

_MEASURED: dict[str, tuple[str, str]] = {
    **{f"pact-fig{number}": ("pact.measured_figures", f"fig{number}") for number in (6, 7, 8, 9)},
    **{f"depl-fig{number}": (f"depl.fig{number}", "reproduce") for number in (5, 6, 7, 8, 9)},
}
"""Can also be drawn with curves measured in traces instead of the stand-in ones: by which function of which module. Of
those, the ones that draw both hear of it by their option `curves`."""
CURVES = ("stand-in", "measured")
_RULED = tuple(f"pact-fig{number}" for number in (6, 7, 8, 9))
"""Can also show another of PACT's rules beside the paper's, by their option `rule`."""


_SEEDED = ("pact-fig2", "mcpipe-fig2", "mcpipe-fig3", "mcpipe-fig4")
"""Train as many initialisations as asked for, by their option `seeds`."""


def available() -> dict[str, str]:
    """Names of the experiments, each with one line on what it shows."""
    return {name: line for name, (_, line) in _EXPERIMENTS.items()}


def run(name: str, out_dir: str | Path, progress: Callable[[str], None] | None = None, **options: Any) -> Reproduction:
    """Redraw one figure into `out_dir`.

    Args:
        name: one of `available()`; underscores are taken for hyphens.
        out_dir: the folder for figure and table; made if missing.
        progress: gets a line now and then from figures that take long.
        options: `formats` (some of png, svg, pdf) for all; `curves` ("measured": of traces, where the figure has loss
            curves that the paper does not print); `rule` (one drawn beside PACT in its figures 6 to 9); `seeds` (how
            many initialisations are trained, where several are); others as the figure's own `reproduce` takes them.
    """
    key = name.replace("_", "-")
    if key not in _EXPERIMENTS:
        hint = did_you_mean(key, _EXPERIMENTS)
        raise UsageError(f"reproduce: got '{name}', expected one of {', '.join(_EXPERIMENTS)}, all{hint}")
    measured = _measured(key, options.pop("curves", CURVES[0]))
    module, function = _MEASURED[key] if measured else (_EXPERIMENTS[key][0], "reproduce")
    reproduce: Callable[..., Reproduction] = getattr(importlib.import_module(f".{module}", __name__), function)
    known = [p.name for p in inspect.signature(reproduce).parameters.values() if p.kind is p.KEYWORD_ONLY]
    if measured and "curves" in known:
        options["curves"] = "measured"
    if "rule" in options and "rule" not in known:
        ruled = ", ".join(_RULED)
        raise UsageError(f"reproduce {key}: got a rule, expected none; with curves 'stand-in' these take one: {ruled}")
    if "seeds" in options and "seeds" not in known:
        raise UsageError(f"reproduce {key}: got seeds, expected none; these train several: {', '.join(_SEEDED)}")
    for option in options:
        if option not in known:
            raise UsageError(f"reproduce {key}: no option '{option}', expected one of {', '.join(known)}")
    return reproduce(Path(out_dir), **({"progress": progress} if "progress" in known else {}), **options)


def _measured(name: str, curves: str) -> bool:
    """Whether the measured curves are meant; those that the figure does not have are refused."""
    if curves not in CURVES:
        raise UsageError(f"reproduce {name}: curves: got '{curves}', expected one of {', '.join(CURVES)}")
    if curves == "measured" and name not in _MEASURED:
        raise UsageError(
            f"reproduce {name}: got curves 'measured', expected none: those that have them are {', '.join(_MEASURED)}"
        )
    return curves == "measured"


def run_all(out_dir: str | Path, progress: Callable[[str], None] | None = None, **options: Any) -> AllReproductions:
    """Redraw every figure, those that train last, and write `findings.md`, the closing table. With `curves` "measured":
    every figure that can be drawn so.

    `progress` hears beforehand how long it takes, and gets a line before each figure. The table is written after every
    figure, so that whoever stops in between has that of the figures made.
    """
    told = progress or nothing
    lines, can_train = available(), importlib.util.find_spec("torch") is not None
    if options.get("curves") == "measured":
        lines = {name: line for name, line in lines.items() if name in _MEASURED}
    if "seeds" in options:
        lines = {name: line for name, line in lines.items() if name in _SEEDED}
    if "rule" in options:
        lines = {name: line for name, line in lines.items() if name in _RULED}
    last = [name for name in lines if name in _TRAINED]
    if last and can_train:
        minutes = sum(_TRAINED[name] for name in last)
        told(f"three minutes or so of one core, then about {minutes} minutes of training: {', '.join(last)}")
    redrawn: dict[str, Reproduction] = {}
    summary = Path(out_dir) / ("findings-measured.md" if options.get("curves") == "measured" else "findings.md")
    for position, name in enumerate([*(name for name in lines if name not in _TRAINED), *last], start=1):
        left_out = name in _TRAINED and not can_train
        told(f"[{position}/{len(lines)}] {name}: {'left out, needs PyTorch' if left_out else lines[name]}")
        if not left_out:
            redrawn[name] = run(name, out_dir, progress, **options)
            every = tuple(redrawn[name] for name in lines if name in redrawn)
            write_atomic(summary, findings_markdown(tuple(finding for figure in every for finding in figure.findings)))
    return AllReproductions(tuple(redrawn[name] for name in lines if name in redrawn), summary)

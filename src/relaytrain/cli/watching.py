"""What `run` and `resume` share: the line an epoch, what happens between, the verdict at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.explain import figure_name, say_energies, say_energy, say_share, say_time
from .options import Format
from .output import Step, emit, emit_json, note, progress, talk, watched
from .reading import read_run

if TYPE_CHECKING:
    from ..relay.job import Line, Notice
    from ..relay.runs import Trained
    from ..store import RunStore


TONES = {"failure": "bad", "infeasible": "bad", "roll-back": "bad", "estimator": "warn", "feasible": "good"}
"""Colours of notices, where they have one."""


Heard = Callable[["Line | Notice"], None]


class Watcher:
    """Hears a run: a line for an epoch that is safe, one for whatever happens between; below them on a terminal how it
    stands, in a pipe a sign of life."""

    def __init__(self, step: Step | None, shown: Heard | None = None) -> None:
        self.step, self.shown = step, shown
        self.said: set[str] = set()

    @classmethod
    @contextmanager
    def watching(cls) -> Iterator[Watcher]:
        """While the block runs, something is said at least every 10 s."""
        if watched() and not talk.quiet:
            with _live() as shown:
                yield cls(None, shown)
        else:
            with progress("epochs") as step:
                yield cls(step)

    def __call__(self, line: Line) -> None:
        """An epoch that is safe."""
        note(words(line), "bad" if line.broken else None)
        if self.shown is not None:
            self.shown(line)
        if self.step is not None:
            last = line.plan.decisions[-1].epoch if line.plan is not None and line.plan.decisions else line.epoch
            self.step(line.epoch, max(last, line.epoch))

    def happened(self, notice: Notice) -> None:
        """Anything else, as it happens."""
        self.said.add(notice.words)
        note(f"  epoch {notice.epoch}: {notice.words}", TONES.get(notice.kind))
        if self.shown is not None:
            self.shown(notice)


@contextmanager
def _live() -> Iterator[Heard]:
    """A view of a few lines on the terminal, gone when the block ends; what is heard moves it."""
    from rich.console import Console
    from rich.live import Live

    from ..relay.job import Line
    from .live_view import LiveState, live_panel

    state = LiveState()
    view = Live(
        live_panel(state), console=Console(stderr=True), transient=True, redirect_stdout=False, refresh_per_second=4
    )

    def heard(what: Line | Notice) -> None:
        if isinstance(what, Line):
            state.hear(what)
        else:
            state.heard(what)
        view.update(live_panel(state))

    with view:
        yield heard


def words(line: Line) -> str:
    """`k 17 | M on silver | loss 0.41 (<=0.47 at 95%) | 12.3 J of 40 J (31 to 55), 3m00 of 10m00, emulated | next: S`.

    The total is what the forecast has: its middle, and from its 10 % to its 90 % quantile.
    """
    time_unit, energy_unit = line.units
    parts = [f"k {line.epoch:>3}", str(line.pair), _loss(line)]
    low_j, middle_j, high_j = line.forecast_j
    total = f" of {say_energy(line.planned_j, energy_unit)}" if math.isfinite(line.planned_j) else ""
    if math.isfinite(middle_j):
        middle, low, high = say_energies((middle_j, low_j, high_j), energy_unit)
        total = f" of {middle} ({low} to {high})"
    by = f" of {say_time(line.deadline_s, time_unit)}" if math.isfinite(line.deadline_s) else ""
    clock = ", emulated" if line.clock == "emulated" else ""
    parts.append(f"{say_energy(line.energy_j, energy_unit)}{total}, {say_time(line.elapsed_s, time_unit)}{by}{clock}")
    if line.next_handover is not None:
        pair, epoch = line.next_handover
        parts.append(f"next: {pair} at ~k {epoch}")
    return " | ".join(parts)


def _loss(line: Line) -> str:
    """The loss beside its bound; with as many digits as it takes to see which is higher."""
    if not math.isfinite(line.guaranteed):
        return f"{figure_name(line.metric)} {line.loss:.3g}"
    digits = next((n for n in range(3, 12) if line.broken == (_cut(line.loss, n) > _cut(line.guaranteed, n))), 12)
    loss, most = (f"{value:.{digits}g}" for value in (line.loss, line.guaranteed))
    how = ", a guess" if line.guess else f" at {say_share(line.level)}"
    return f"{figure_name(line.metric)} {loss} (<={most}{how}{', broken' if line.broken else ''})"


def _cut(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def conclude(ended: Trained, store: RunStore, output: Format, watcher: Watcher) -> int:
    """The verdict on stdout; the exit status is the run's outcome. Notes that `watcher` has said are not said again."""
    from ..report.verdict import say_sets, say_tested, verdict_of

    if output is Format.json:
        emit_json(as_json(ended, store))
        return ended.exit_status
    view = read_run(store, ended.run)
    verdict = verdict_of(view, store.folder_to_name)
    legs = " -> ".join(f"{pair} x{count}" for pair, count in ended.legs)
    sets = "" if ended.prediction_sets is None else say_sets(ended.prediction_sets)
    below = (legs, say_tested(view.verdict or {}, view.asked.metric), sets)
    emit("\n  ".join([f"{ended.run}: {verdict.word}. {verdict.sentence}", *(words for words in below if words)]))
    for text in ended.notes:
        if text not in watcher.said:
            note(f"  note: {text}")
    return ended.exit_status


def as_json(ended: Trained, store: RunStore) -> dict[str, Any]:
    """A run's end as plain JSON values."""
    return {
        "schema": "relaytrain.result/1",
        "run": ended.run,
        "store": str(store.folder),
        "verdict": ended.verdict,
        "exit_status": ended.exit_status,
        "infeasible": ended.infeasible,
        "loss": ended.loss if math.isfinite(ended.loss) else None,
        "test_loss": ended.test_loss,
        "test_figure": ended.test_figure,
        "test_accuracy": ended.test_accuracy,
        "prediction_sets": None if ended.prediction_sets is None else dict(ended.prediction_sets),
        "epochs": len(ended.outcomes),
        "energy_j": ended.energy_j,
        "wasted_j": ended.wasted_j,
        "elapsed_s": ended.elapsed_s,
        "legs": [{"version": p.version, "nodes": p.nodes, "epochs": n} for p, n in ended.legs],
        "notes": list(ended.notes),
    }

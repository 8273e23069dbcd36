"""What `run` and `resume` share: the line an epoch, the verdict at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..core.explain import say_energy, say_time
from .options import Format
from .output import emit, emit_json, note
from .reading import read_run

if TYPE_CHECKING:
    from ..relay.job import Line
    from ..relay.runs import Trained
    from ..store import RunStore


def say(line: Line) -> None:
    """One line for an epoch that is safe."""
    note(words(line))


def words(line: Line) -> str:
    """`k 17 | M on silver | loss 0.41 (<=0.47 at 95 %) | 12.3 kJ of 40 kJ | 3m00 of 10m00 | next: S at ~k 31`."""
    time_unit, energy_unit = line.units
    parts = [f"k {line.epoch:>3}", str(line.pair)]
    band = f" (<={line.guaranteed:.3g} at {line.level:.0%})" if math.isfinite(line.guaranteed) else ""
    parts.append(f"loss {line.loss:.3g}{band}")
    planned = f" of {say_energy(line.planned_j, energy_unit)}" if math.isfinite(line.planned_j) else ""
    parts.append(say_energy(line.energy_j, energy_unit) + planned)
    by = f" of {say_time(line.deadline_s, time_unit)}" if math.isfinite(line.deadline_s) else ""
    parts.append(say_time(line.elapsed_s, time_unit) + by)
    if line.next_handover is not None:
        pair, epoch = line.next_handover
        parts.append(f"next: {pair} at ~k {epoch}")
    return " | ".join(parts)


def conclude(ended: Trained, store: RunStore, output: Format) -> int:
    """The verdict on stdout; the exit status is the run's outcome."""
    from ..report.verdict import verdict_of

    if output is Format.json:
        emit_json(as_json(ended, store))
        return ended.exit_status
    verdict = verdict_of(read_run(store, ended.run))
    tested = "" if ended.test_loss is None else f"\n  test loss {ended.test_loss:.4g}"
    if ended.test_loss is not None and ended.test_accuracy is not None:
        tested += f", accuracy {ended.test_accuracy:.1%}"
    if ended.prediction_sets is not None:
        sets = ended.prediction_sets
        tested += f"\n  prediction sets at level {sets['level']:.0%}: {sets['mean_size']:.2f} classes, "
        tested += f"the truth in {sets['coverage']:.1%}"
    legs = " -> ".join(f"{pair} x{count}" for pair, count in _legs(ended))
    emit(f"{ended.run}: {verdict.word}. {verdict.sentence}" + (f"\n  {legs}" if legs else "") + tested)
    for text in ended.notes:
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
        "test_accuracy": ended.test_accuracy,
        "prediction_sets": None if ended.prediction_sets is None else dict(ended.prediction_sets),
        "epochs": len(ended.outcomes),
        "energy_j": ended.energy_j,
        "wasted_j": ended.wasted_j,
        "elapsed_s": ended.elapsed_s,
        "legs": [{"version": p.version, "nodes": p.nodes, "epochs": n} for p, n in _legs(ended)],
        "notes": list(ended.notes),
    }


def _legs(ended: Trained) -> list[tuple[Any, int]]:
    from ..relay.steering import legs_of

    return legs_of(ended.outcomes)

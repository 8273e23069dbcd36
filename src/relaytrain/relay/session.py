"""`Session`: the plans without the training, for people who keep their own loop.

    with rt.Session("my.toml") as session:
        while (decision := session.ask()) is not None:
            loss = my_epoch(decision.version, decision.nodes)
            session.tell(loss)
    print(session.verdict, session.state.energy_j)

Seconds and joules of an epoch are measured between `ask` and `tell` unless they are given. A session can be kept in a
file and taken up in another process; it goes on as if nothing had happened:

    session.save("mine.session.json")
    session = rt.Session.load("mine.session.json")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from ..core.cost import CostTable, Provenance
from ..core.errors import NonFiniteTraining, UsageError
from ..core.law import LevelLaw, LossLaw
from ..core.outcome import EpochOutcome, VerdictKind
from ..core.plan import Decision, Plan
from ..core.problem import Pair, Problem
from ..core.protocols import Estimator, Planner
from ..core.state import State
from ..costs.meters import Mark, Meter, find_meter
from ..scenario import Scenario, Source, scenario_from
from .loop import ROLL_BACKS
from .session_file import GIVEN, SavedSession, problem_facts
from .steering import End, Steering, Step


class Fixed:
    """An estimator that learns nothing: the law as it was given."""

    def __init__(self, law: LossLaw) -> None:
        self._law = law

    def law(self, history: Sequence[EpochOutcome], pairs: Sequence[Pair]) -> LossLaw:
        """The same law, whatever happened."""
        return self._law


class Session:
    """Ask what the next epoch should be, tell how it went.

    Args:
        source: a scenario (file, preset, mapping), or a `Problem`, which then needs `costs` and `law`.
        costs: seconds and joules of every pair and change.
        law: what is expected of the losses before anything is known.
        planner: a planner or its name; `rule` is PACT's.
        initial_loss: l(0), if it was probed; else the scenario's.
        meter: measures joules; by default the best one of this machine.
    """

    def __init__(
        self,
        source: Source | Problem,
        *,
        costs: CostTable | None = None,
        law: LossLaw | None = None,
        planner: str | Planner | None = None,
        rule: str | None = None,
        initial_loss: float | None = None,
        meter: Meter | None = None,
        overrides: Sequence[str] = (),
    ) -> None:
        whole = source if isinstance(source, Problem) else scenario_from(source, overrides)
        problem, table, stated, estimator, chosen = _parts(whole, costs, law, planner, rule, initial_loss)
        first = problem.initial_loss if initial_loss is None else initial_loss
        self._steering = Steering(
            replace(problem, initial_loss=first, clock="measured"), table, estimator, chosen, stated, learn_costs=True
        )
        self._scenario = None if isinstance(whole, Problem) else whole
        self._asked_for = (planner if isinstance(planner, str) else None, rule)
        own = {"costs": costs, "law": law, "planner": None if isinstance(planner, str) else planner}
        self._given = tuple(name for name in GIVEN if own[name] is not None)
        self._meter = find_meter() if meter is None else meter
        self._step: Step | None = None
        self._mark: Mark | None = None
        self._roll_backs = 0
        self._ended: tuple[VerdictKind, str] | None = None

    def save(self, path: str | PathLike[str]) -> None:
        """Keep all that was told so far in a file, the open decision too; `Session.load` goes on from it."""
        steering = self._steering
        folder = None if self._scenario is None else self._scenario.folder
        SavedSession(
            None if self._scenario is None else self._scenario.resolved,
            None if folder is None else str(folder.resolve()),
            problem_facts(steering.problem),
            self._given,
            *self._asked_for,
            steering.problem.initial_loss,
            tuple(steering.history),
            dict(steering.forbidden),
            dict(steering.stated),
            steering.charged_s,
            steering.wasted_j,
            self._roll_backs,
            self._step is not None,
            self._ended,
        ).write(Path(path))

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        source: Source | Problem | None = None,
        *,
        costs: CostTable | None = None,
        law: LossLaw | None = None,
        planner: Planner | None = None,
        meter: Meter | None = None,
    ) -> Self:
        """The session that `save` wrote to `path`: the same history, and to the bit the same plans from there on.

        Args:
            path: the file.
            source: of a session made from a `Problem`, that problem; else the scenario in the file is taken.
            costs, law, planner: again what the session was made with, where it was given any.
            meter: as for a new one; seconds of an epoch that was open are counted from the next `ask`.
        """
        saved = SavedSession.read(Path(path))
        _check_given(path, saved, {"source": source, "costs": costs, "law": law, "planner": planner})
        if source is None:
            loaded = scenario_from(saved.scenario or {})
            source = loaded
            if saved.folder is not None:
                source = replace(loaded, source=Path(saved.folder) / f"{loaded.name}.json")
        session = cls(
            source,
            costs=costs,
            law=law,
            planner=planner if planner is not None else saved.planner,
            rule=saved.rule,
            initial_loss=saved.initial_loss,
            meter=meter,
        )
        session._take_up(path, saved)
        return session

    def _take_up(self, path: str | PathLike[str], saved: SavedSession) -> None:
        steering = self._steering
        now = problem_facts(steering.problem)
        other = next((key for key in now if now[key] != saved.problem.get(key)), None)
        if other is not None:
            raise UsageError(
                f"{path}: {other} was {saved.problem.get(other)!r:.80} when it was saved and is {now[other]!r:.80}; "
                "give the problem it was made with"
            )
        steering.recall(list(saved.history), dict(saved.forbidden), {}, (), dict(saved.stated))
        steering.charge(saved.charged_s, saved.wasted_j)
        self._roll_backs, self._ended = saved.roll_backs, saved.ended
        if saved.asked and self._ended is None:
            self._decide()

    def __repr__(self) -> str:
        at = self.state
        return (
            f"<Session {self._steering.problem.name}: epoch {at.epoch}, loss {at.loss:.4g}, {self.verdict or 'open'}>"
        )

    @property
    def state(self) -> State:
        """Where things stand."""
        return self._steering.state

    @property
    def plan(self) -> Plan | None:
        """The plan behind the open decision."""
        return None if self._step is None else self._step.plan

    @property
    def verdict(self) -> VerdictKind | None:
        """How it ended; None while it goes on."""
        return None if self._ended is None else self._ended[0]

    @property
    def reason(self) -> str:
        """Why it ended."""
        return "" if self._ended is None else self._ended[1]

    @property
    def outcomes(self) -> tuple[EpochOutcome, ...]:
        """What was told so far."""
        return tuple(self._steering.history)

    def _decide(self) -> None:
        decided = self._steering.next()
        if isinstance(decided, End):
            self._ended = (decided.verdict, decided.reason)
        else:
            self._step = decided

    def ask(self) -> Decision | None:
        """What the next epoch should do; None once the target is met or can no longer be. Asking twice is no change."""
        if self._step is None and self._ended is None:
            ended = self._steering.end()
            if ended is not None:
                self._ended = (ended.verdict, ended.reason)
            elif self._steering.stuck():
                self._ended = ("failed", "; ".join(self._steering.forbidden.values()))
            else:
                self._decide()
        if self._step is None:
            return None
        if self._mark is None:
            self._mark = self._meter.begin()
        return self._step.decision

    def tell(
        self,
        loss: float,
        *,
        elapsed_s: float | None = None,
        energy_j: float | None = None,
        handover_loss: float | None = None,
    ) -> bool:
        """How the epoch that was asked for went; False when it does not count.

        A loss that is NaN or infinite does not: go back to the weights before the epoch. The pair is forbidden, and the
        next `ask` decides again.

        Args:
            loss: after the epoch, on the target's set.
            elapsed_s: its seconds, handover included; measured since `ask` if not given.
            energy_j: its joules; measured likewise.
            handover_loss: the loss of a forward pass between handover and training, if there was one.
        """
        if self._step is None or self._mark is None:
            raise UsageError("tell: nothing was asked; call ask() first, then run the epoch it decides")
        reached = _number("loss", loss)  # all is read before the open decision is closed
        given_s, given_j, probed = (
            None if value is None else _number(name, value)
            for name, value in (("elapsed_s", elapsed_s), ("energy_j", energy_j), ("handover_loss", handover_loss))
        )
        for name, value in (("elapsed_s", given_s), ("energy_j", given_j)):
            if value is not None and not (math.isfinite(value) and value >= 0.0):
                raise UsageError(f"{name}: got {value}, expected a finite number >= 0")
        reading = self._meter.end(self._mark)
        decision, self._step, self._mark = self._step.decision, None, None
        seconds = reading.wall_s if given_s is None else given_s
        joules = reading.energy_j if given_j is None else given_j
        if not math.isfinite(reached):
            return self._roll_back(decision, reached, seconds, joules)
        provenance: Provenance = reading.provenance if given_j is None else "measured"
        probed = probed if probed is not None and math.isfinite(probed) else None
        self._steering.tell(
            EpochOutcome(
                decision, reached, seconds, joules, provenance, reading.cpu_s, reading.wall_s, handover_loss=probed
            )
        )
        return True

    def forbid(self, version: str, nodes: str, reason: str = "forbidden by the user") -> None:
        """Leave a pair out from now on; an open decision for it is withdrawn."""
        pair = Pair(version, nodes)
        self._steering.problem.index(pair)
        self._steering.forbid(pair, reason)
        if self._step is not None and self._step.decision.pair == pair:
            self._step = self._mark = None

    def _roll_back(self, decision: Decision, loss: float, seconds: float, joules: float) -> bool:
        steering = self._steering
        steering.forbid(decision.pair, f"the loss after epoch {decision.epoch} on {decision.pair} was {loss}")
        steering.charge(steering.charged_s + seconds, steering.wasted_j + joules)
        self._roll_backs += 1
        if self._roll_backs >= ROLL_BACKS:
            self._ended = ("failed", "losses stayed non-finite")
            raise NonFiniteTraining(
                f"{self._roll_backs} epochs ended with a loss that is no number, the last on {decision.pair}"
            )
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended is None:
            self.ask() if kind is None else None
            self._ended = self._ended or (
                "stopped" if kind in (None, KeyboardInterrupt) else "failed",
                "the loop was left",
            )
        self._step = self._mark = None


def _number(name: str, value: object) -> float:
    """A number of any kind, a tensor of one element too; text is none, whatever it says."""
    if not isinstance(value, str | bytes | bytearray | bool):
        with suppress(TypeError, ValueError, OverflowError, RuntimeError):
            return float(value)  # type: ignore[arg-type]
    shown = repr(value)[:60]
    raise UsageError(f"tell: {name}: got {shown} ({type(value).__name__}), expected a number; the decision stays open")


def _check_given(path: str | PathLike[str], saved: SavedSession, now: Mapping[str, object]) -> None:
    """What was given to the saved session has to be given again, and nothing else."""
    needed = (*(() if saved.scenario is not None else ("source",)), *saved.given)
    missing = [name for name in needed if now[name] is None]
    spare = [name for name, value in now.items() if value is not None and name not in (*needed, "source")]
    if missing:
        raise UsageError(
            f"{path}: this session was made with {', '.join(missing)} of your own; give it to load() again"
        )
    if spare:
        raise UsageError(f"{path}: got {', '.join(spare)}, which this session was made without")


def _parts(
    source: Scenario | Problem,
    costs: CostTable | None,
    law: LossLaw | None,
    planner: str | Planner | None,
    rule: str | None,
    initial_loss: float | None,
) -> tuple[Problem, CostTable, LossLaw, Estimator, Planner]:
    from ..estimators import Prior
    from ..estimators.choose import estimator_for
    from ..estimators.prior.belief import CurveBelief
    from ..planners.registry import planner_for

    estimator: Estimator
    if not isinstance(source, Problem):
        probed = source.problem if initial_loss is None else replace(source.problem, initial_loss=initial_loss)
        estimator = estimator_for(source, probed) if law is None else Fixed(law)
        return source.problem, costs or source.costs, law or source.law, estimator, planner_for(source, planner, rule)
    if costs is None or law is None:
        raise UsageError(
            "Session: a Problem alone says neither what epochs cost nor how losses fall; give costs= and law="
        )
    first = source.initial_loss if initial_loss is None else initial_loss
    estimator = Fixed(law)
    if isinstance(law, LevelLaw):
        estimator = Prior(CurveBelief.from_law(source.pairs, law, first), source.start, first)
    return source, costs, law, estimator, planner_for(None, planner, rule)

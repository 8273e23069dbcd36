"""The loop that joins the parts: plan, record the decision, run the epoch, record the outcome, plan again.

    run_started -> [ planned k -> (handover k) -> epoch_done k ]* -> verdict

Only this module writes decisions. A decision is durable before its work begins and a checkpoint before the event that
names it, so `kill -9` at any moment costs the running epoch at most; `resume` keeps the decision that was recorded and
arrives at the same weights, losses and plans. Training is injected as a `Runner`: nothing here knows torch.

Booking: on the emulated clock an epoch's seconds and joules are those of the scenario's cost table, handover included;
on the measured one those that were metered. Lost work is booked as wasted always; it counts against the deadline on the
measured clock, on the emulated one only with `charge_lost_work`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..core.errors import NonFiniteTraining, RelayTrainError, UsageError, WorkerLost
from ..core.outcome import EpochOutcome, VerdictKind
from ..core.plan import Decision, Plan
from ..core.problem import Pair
from ..store import LeaseLost, RunStore, RunWriter, new_run_id
from . import events as journal
from .events import RunPast
from .job import Ended, EpochResult, Job, Line, StopAsked, Told
from .steering import Steering, Step

ROLL_BACKS = 3
"""Roll-backs for non-finite losses after which a run gives up."""

THIN_EVERY = 8
"""Epochs between two removals of checkpoints that no longer matter."""


def start(
    job: Job, store: RunStore, *, run: str | None = None, told: Told | None = None, stop: StopAsked | None = None
) -> Ended:
    """Run `job` from its first checkpoint.

    Raises:
        WorkerLost, NonFiniteTraining, NoSpace, ...: after the verdict "failed" was recorded; `resume` may go on.
    """
    name = run or new_run_id(job.problem.name)
    first = job.runner.first()
    probed = job.runner.probe(first).loss
    known = math.isfinite(probed)
    body = {
        "run_schema": journal.RUN_SCHEMA,
        "seed": job.settings.seed,
        "clock": job.settings.clock,
        "threads": job.settings.threads,
        "packages": journal.packages(),
        "initial_loss": probed if known else None,
        **job.manifest,
    }
    with store.create_run(name, body, start=job.runner.to_bytes(first)) as writer:
        relay = _Relay(job, store, writer, probed if known else math.inf, told, stop)
        relay.checkpoint = first
        return relay.go(
            None if known else NonFiniteTraining(f"the loss before epoch 1 is {probed}; check data and start")
        )


def resume(
    job: Job,
    store: RunStore,
    run: str,
    *,
    force: bool = False,
    told: Told | None = None,
    stop: StopAsked | None = None,
) -> Ended:
    """Go on with an interrupted, stopped or failed run, from its newest whole checkpoint."""
    with store.resume_run(run, force=force) as writer:  # first the lease, then the reading
        past = RunPast.of(store.events(run))
        loss = past.started.get("initial_loss")
        relay = _Relay(job, store, writer, math.inf if loss is None else float(loss), told, stop)
        return relay.go(relay.restore(past))


class _Relay:
    """One writer's part of a run."""

    def __init__(
        self,
        job: Job,
        store: RunStore,
        writer: RunWriter,
        initial_loss: float,
        told: Told | None,
        stop: StopAsked | None,
    ) -> None:
        self.job, self.store, self.writer = job, store, writer
        self.told, self.stop = told, stop
        problem = replace(job.problem, initial_loss=initial_loss, clock=job.settings.clock)
        self.steering = Steering(
            problem,
            job.costs,
            job.estimator(problem),
            job.planner,
            job.law,
            learn_costs=job.settings.clock == "measured",
            replan=job.settings.replan,
            prices=job.prices,
        )
        self.checkpoint: Any = None
        self.handover: Mapping[str, Any] | None = None  # the one that `checkpoint` is the result of, until trained
        self.roll_backs = 0
        self.attempt = 0
        self.notes: list[str] = []
        self.working = False
        self.infeasible = False

    # --- coming back

    def restore(self, past: RunPast) -> RelayTrainError | None:
        """Take up a run where its events leave it; an error when it cannot go on."""
        found = self.store.latest_checkpoint(self.writer.run)
        if found is None:
            raise UsageError(f"run {self.writer.run} kept no start checkpoint; start it anew with `relaytrain run`")
        steering = self.steering
        steering.history = past.history
        steering.forbidden, steering.lost, steering.path = past.forbidden, past.lost, past.path
        self.roll_backs, self.attempt = past.roll_backs, past.attempts
        self.checkpoint = self.job.runner.from_bytes(found.data)
        handed = found.event.kind == "handover"
        done = (found.event.epoch or 0) - handed
        self.handover = found.event.body if handed else None
        if done < self.writer.epoch or found.skipped:
            self._take_older(past, done, found.skipped)
        elif self.writer.planned is not None and not past.ended_in_order:
            self._book_lost(journal.INTERRUPTED)
        self._charge()
        if not math.isfinite(steering.problem.initial_loss):
            return NonFiniteTraining("the loss before epoch 1 was not finite; start a new run")
        return None

    def _take_older(self, past: RunPast, done: int, skipped: tuple[str, ...]) -> None:
        """Damaged checkpoints were passed over: the epochs after the whole one are undone and run again."""
        body = {"to_epoch": done, "cause": journal.DAMAGED, "reason": journal.DAMAGED, "tried": list(skipped)}
        self.writer.append("rolled_back", body, done)
        self.steering.undo(done)
        self.notes.append(f"{len(skipped)} damaged checkpoint(s) passed over; went back to epoch {done}")
        if self.handover is not None:  # this checkpoint already is the next pair's: its decision stands
            self.writer.append("planned", {k: v for k, v in past.planned[done + 1].items() if k != "schema"}, done + 1)
            self.writer.append("handover", self.handover, done + 1)

    # --- the loop

    def go(self, trouble: RelayTrainError | None) -> Ended:
        """Run to the end; whatever happens, a verdict is recorded."""
        try:
            if trouble is not None:
                raise trouble
            while True:
                if (ended := self.steering.end()) is not None:
                    self.notes.append(ended.reason)
                    return self._conclude(ended.verdict)
                if self.writer.stop_requested() or (self.stop is not None and self.stop()):
                    return self._conclude("stopped")
                if not self._epoch():
                    return self._conclude("missed")
        except LeaseLost:
            raise  # somebody else writes this run now: nothing may be added
        except KeyboardInterrupt:
            if self.working and self.writer.planned is not None:
                self._book_lost("stopped by the user during this epoch")
            return self._conclude("stopped", test=False)
        except BaseException as error:
            with suppress(Exception):
                if (
                    self.working
                    and self.writer.planned is not None
                    and not isinstance(error, WorkerLost | NonFiniteTraining)
                ):
                    self._book_lost(f"{type(error).__name__} during this epoch")
                self.notes.append(f"{type(error).__name__}: {error}")
                self._conclude("failed")
            raise

    def _epoch(self) -> bool:
        """One epoch, or a roll-back; False when there is nothing left to decide."""
        step = None
        if self.writer.planned is None:
            self._check_not_stuck()
            step = self.steering.next()
            if step is None or self._given_up(step):
                self.infeasible = step is not None or not self.steering.history
                self.notes.append("no plan can reach the target any more" if step is None else _way_out(step.plan))
                return False
            self._record_plan(step)
        assert self.writer.planned is not None
        planned = self.writer.planned
        decision = journal.decision_from(planned["decision"])
        self.working = True
        try:
            self._hand_over(decision)
            result = self._train(decision)
        except NonFiniteTraining as error:
            self._roll_back(decision, error)
            return True
        if result is not None:
            self._record_epoch(decision, result, planned, step)
        self.working = False
        return True

    def _given_up(self, step: Step) -> bool:
        return not step.plan.feasible and self.job.settings.when_infeasible == "stop"

    def _check_not_stuck(self) -> None:
        if not self.steering.stuck():
            return
        forbidden = "; ".join(dict.fromkeys([*self.steering.lost.values(), *self.steering.forbidden.values()]))
        words = f"no pair is left that can run ({forbidden or 'all costs are infinite'})"
        raise WorkerLost(words) if self.steering.lost else NonFiniteTraining(words)

    def _record_plan(self, step: Step) -> None:
        body = journal.planned_body(step, self.steering.problem.pairs)
        if not self.job.settings.replan:
            body["path"] = [list(pair) for pair in self.steering.path]
        self.writer.append("planned", body, step.decision.epoch)
        self.notes += [note for note in step.notes if note not in self.notes]
        self.attempt = 0

    def _hand_over(self, decision: Decision) -> None:
        before = self.steering.pair
        if decision.pair == before or self.handover is not None:
            return
        handed = self.job.runner.hand_over(self.checkpoint, before, decision, self._earlier)
        probed = self.job.runner.probe(handed.checkpoint).loss
        if not math.isfinite(probed):
            raise NonFiniteTraining(f"the loss after the handover {before} -> {decision.pair} is {probed}")
        elapsed_s, energy_j = handed.elapsed_s, handed.energy_j
        if self.job.settings.clock == "emulated":
            i, j = (self.steering.problem.index(pair) for pair in (before, decision.pair))
            elapsed_s, energy_j = float(self.job.costs.change_s[i, j]), float(self.job.costs.change_j[i, j])
        body = {
            "before": list(before),
            "after": list(decision.pair),
            "kind": handed.kind,
            "loss_before": self.steering.state.loss,
            "loss_after": probed,
            "elapsed_s": elapsed_s,
            "energy_j": energy_j,
            "reached_ratio": handed.reached_ratio,
            "cpu_s": handed.cpu_s,
            **({"probe": dict(handed.probe)} if handed.probe else {}),
            "blob": self.writer.put_blob(self.job.runner.to_bytes(handed.checkpoint)),
        }
        self.writer.append("handover", body, decision.epoch)
        self.checkpoint, self.handover = handed.checkpoint, body

    def _train(self, decision: Decision) -> EpochResult | None:
        """The epoch; None when its node set is lost, although the runner tried again, and all is to be decided anew."""
        try:
            result = self.job.runner.run_epoch(decision, self.checkpoint, run=self.writer.run, attempt=self.attempt)
        except WorkerLost as error:
            self._book_lost(str(error), decision.nodes, error)
            reason = f"{decision.nodes} does not answer: {error}"
            cause = {"cause": journal.WORKER_LOST, "reason": reason, "lost_nodes": decision.nodes}
            self._undo_decision({"to_epoch": self.writer.epoch, **cause})
            self.steering.lost[decision.nodes] = reason
            return None
        if not math.isfinite(result.outcome.loss):
            raise NonFiniteTraining(
                f"the loss after epoch {decision.epoch} on {decision.pair} is {result.outcome.loss}"
            )
        return result

    # --- keeping it

    def _record_epoch(
        self, decision: Decision, result: EpochResult, planned: Mapping[str, Any], step: Step | None
    ) -> None:
        outcome, wasted = self._booked(decision, result.outcome)
        for node, attempt, reason in result.failures:
            self.writer.append("node_failed", {"node": node, "attempt": attempt, "reason": reason}, decision.epoch)
        blob = self.writer.put_blob(self.job.runner.to_bytes(result.checkpoint))
        body = journal.done_body(outcome, blob=blob, wasted=wasted, extra=_finite(result.details))
        self.writer.append("epoch_done", body, decision.epoch)
        self.steering.tell(outcome)
        self.checkpoint, self.handover, self.attempt = result.checkpoint, None, 0
        self._charge()
        if self.job.settings.thin and decision.epoch % THIN_EVERY == 0:
            self.writer.thin()
        if self.told is not None:
            self.told(self._line(decision, planned, step))

    def _booked(self, decision: Decision, outcome: EpochOutcome) -> tuple[EpochOutcome, tuple[float, float]]:
        """The outcome on the run's clock, its handover included, and what was wasted in it."""
        kept, wasted = journal.useful(outcome)
        wasted = max(_number(wasted[0]), 0.0), max(_number(wasted[1]), 0.0)
        costs = self.job.costs
        modelled = self.steering.cost_of(decision, costs)
        probed = None if self.handover is None else float(self.handover["loss_after"])
        kept = replace(kept, decision=decision, handover_loss=probed)
        if self.job.settings.clock == "emulated":
            return replace(kept, elapsed_s=modelled[0], energy_j=modelled[1], provenance=costs.provenance), wasted
        extra = self.handover or {}
        elapsed_s = kept.elapsed_s + _number(extra.get("elapsed_s"))
        energy_j = kept.energy_j + _number(extra.get("energy_j"))
        if not (math.isfinite(elapsed_s) and math.isfinite(energy_j) and elapsed_s >= 0 and energy_j >= 0):
            self.notes.append(
                f"epoch {decision.epoch}: the meter gave {elapsed_s} s and {energy_j} J; modelled figures are kept"
            )
            return replace(kept, elapsed_s=modelled[0], energy_j=modelled[1], provenance=costs.provenance), wasted
        return replace(kept, elapsed_s=elapsed_s, energy_j=energy_j), wasted

    def _roll_back(self, decision: Decision, error: NonFiniteTraining) -> None:
        """Non-finite numbers: the epoch is undone, its pair forbidden for this run, the last good weights are taken."""
        reason = str(error)
        wasted_s, wasted_j = self._cost_of(decision, error)
        body = {
            "to_epoch": self.writer.epoch,
            "cause": journal.NON_FINITE,
            "reason": reason,
            "forbidden": list(decision.pair),
            "wasted_s": wasted_s,
            "wasted_j": wasted_j,
        }
        self._undo_decision(body)
        self.steering.forbidden[decision.pair] = reason
        self.roll_backs += 1
        self.working = False
        if self.roll_backs >= ROLL_BACKS:
            raise NonFiniteTraining(f"{self.roll_backs} roll-backs, the last because {reason}; try a smaller lr")

    def _undo_decision(self, body: Mapping[str, Any]) -> None:
        """Drop the open decision, and the handover made for it."""
        self.writer.append("rolled_back", body, self.writer.epoch)
        if self.handover is not None:
            found = self.store.latest_checkpoint(self.writer.run)
            assert found is not None
            self.checkpoint, self.handover = self.job.runner.from_bytes(found.data), None
        self.attempt = 0
        self._charge()

    def _book_lost(self, reason: str, node: str = journal.ORCHESTRATOR, error: Exception | None = None) -> None:
        """Book an attempt that came to nothing."""
        planned = self.writer.planned
        assert planned is not None
        wasted_s, wasted_j = self._cost_of(journal.decision_from(planned["decision"]), error)
        body = {"node": node, "attempt": self.attempt, "reason": reason, "wasted_s": wasted_s, "wasted_j": wasted_j}
        self.writer.append("node_failed", body, self.writer.epoch + 1)
        self.attempt += 1
        self._charge()

    def _cost_of(self, decision: Decision, error: Exception | None = None) -> tuple[float, float]:
        """Seconds and joules of a lost attempt at `decision`; a handover that is kept is not paid for again.

        Metered where an error carries what it cost; else the whole modelled cost is taken, for how far the attempt had
        come is not known.
        """
        lost = getattr(error, "lost", None)
        if lost is not None and self.job.settings.clock == "measured":
            return max(_number(lost.elapsed_s), 0.0), max(_number(lost.energy_j), 0.0)
        table, problem = self.steering.table(), self.steering.problem
        before, now = self.steering.state.pair, problem.index(decision.pair)
        seconds, joules = self.steering.cost_of(decision, table)
        if self.handover is not None and before != now:
            seconds, joules = seconds - float(table.change_s[before, now]), joules - float(table.change_j[before, now])
        return _number(seconds), _number(joules)

    def _charge(self) -> None:
        totals, settings = self.writer.totals, self.job.settings
        charged = settings.clock == "measured" or settings.charge_lost_work
        self.steering.charged_s = totals.wasted_s if charged else 0.0
        self.steering.wasted_j = totals.wasted_j

    def _earlier(self, version: str) -> bytes | None:
        """The newest kept checkpoint of `version`."""
        for event in reversed(self.store.events(self.writer.run, kinds=("run_started", "handover", "epoch_done"))):
            held = event.body.get("decision", {}).get("version") or (event.body.get("after") or [None])[0]
            if event.kind == "run_started":
                held = self.steering.problem.pairs[self.steering.problem.start].version
            if held == version and event.blob is not None:
                with suppress(RelayTrainError):
                    return self.store.get_blob(self.writer.run, event.blob)
        return None

    def _line(self, decision: Decision, planned: Mapping[str, Any], step: Step | None) -> Line:
        state, problem = self.steering.state, self.steering.problem
        plan, said = planned["plan"], planned["predicted"]
        ahead = [h for h in plan["handovers"] if h["epoch"] > decision.epoch]
        return Line(
            self.writer.run,
            decision.epoch,
            decision.pair,
            state.loss,
            _number(said["guaranteed"], math.inf),
            float(said["level"]),
            state.energy_j,
            planned["state"]["energy_j"] + _number(plan["energy_j"], math.inf),
            state.elapsed_s,
            problem.target.deadline_s,
            (Pair(*ahead[0]["after"]), int(ahead[0]["epoch"])) if ahead else None,
            None if step is None else step.plan,
            (problem.units.time, problem.units.energy),
        )

    def _conclude(self, verdict: VerdictKind, *, test: bool = True) -> Ended:
        probe = None
        if test and self.checkpoint is not None:
            with suppress(Exception):  # a verdict is owed even when the test set cannot be read
                probe = self.job.runner.test(self.checkpoint)
        state, totals = self.steering.state, self.writer.totals
        test_loss = None if probe is None or not math.isfinite(probe.loss) else probe.loss
        accuracy = (
            None if probe is None or probe.accuracy is None or not math.isfinite(probe.accuracy) else probe.accuracy
        )
        body = {
            "verdict": verdict,
            "loss": state.loss,
            "epochs": state.epoch,
            "test_loss": test_loss,
            "test_accuracy": accuracy,
            **(
                {}
                if probe is None or probe.prediction_sets is None
                else {"prediction_sets": dict(probe.prediction_sets)}
            ),
            **totals.to_dict(),
            "infeasible": self.infeasible,
            "notes": list(dict.fromkeys(self.notes)),
        }
        self.writer.append("verdict", body)
        return Ended(
            self.writer.run,
            verdict,
            tuple(self.steering.history),
            totals.energy_j,
            totals.elapsed_s,
            state.loss,
            test_loss,
            accuracy,
            tuple(dict.fromkeys(self.notes)),
            totals.wasted_j,
            self.infeasible,
            None if probe is None else probe.prediction_sets,
        )


def _way_out(plan: Plan) -> str:
    nearest = " or ".join(f"loss {n.loss:.4g} by {n.deadline_s:.4g} s" for n in plan.nearest)
    return "no plan is feasible any more" + (f"; nearest feasible: {nearest}" if nearest else "")


def _number(value: Any, otherwise: float = 0.0) -> float:
    fits = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if fits else otherwise


def _finite(value: Any) -> Any:
    """`value` without numbers that are none: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value

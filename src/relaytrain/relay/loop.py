"""The loop that joins the parts: plan, record the decision, run the epoch, record the outcome, plan again.

    run_started -> [ planned k -> (handover k) -> epoch_done k ]* -> verdict

Only this module writes decisions. A decision is durable before its work begins and a checkpoint before the event that
names it, so `kill -9` at any moment costs the running epoch at most; `resume` keeps the decision that was recorded and
arrives at the same weights, losses and plans.

One loop for all: a `Runner` trains (or plays it), a `RunClock` says which seconds and joules are booked, a `Journal`
keeps what happened. Nothing here knows torch, the store's files, or which clock it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..core.errors import ImplausibleTraining, NonFiniteTraining, RelayTrainError, UsageError, WorkerLost
from ..core.explain import say_failure, say_rolled_back
from ..core.outcome import EpochResult, Evaluation, VerdictKind, most_plausible
from ..core.plan import Decision, finite, or_infinite
from ..core.user_code import UserCodeError
from ..costs.clock import Spent
from ..store import LeaseLost, RunStore, new_run_id
from . import event_bodies
from .event_bodies import RunPast
from .giving_up import say_hardly_moved
from .job import Ended, Job, StopAsked, Told
from .journal import Journal, StoreJournal
from .steering import End, Steering, Step
from .stopping import droppable, dropped
from .telling import Telling, way_out

ROLL_BACKS = 3
"""Roll-backs for losses that are no numbers, or none of training, after which a run gives up."""

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
    with droppable(stop, 1):
        first = job.runner.first()
        probed = _probe(job, first)
    body = {
        "run_schema": event_bodies.RUN_SCHEMA,
        "seed": job.settings.seed,
        "clock": job.clock.name,
        "threads": job.settings.threads,
        "packages": event_bodies.packages(),
        "initial_loss": finite(probed),
        **job.manifest,
    }
    with store.create_run(name, body, start=job.runner.to_bytes(first)) as writer:
        journal = StoreJournal(store, writer, job.runner, job.problem.pairs[job.problem.start])
        return RelayLoop(job, journal, probed, told=told, stop=stop).begin(first)


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
        journal = StoreJournal(store, writer, job.runner, job.problem.pairs[job.problem.start])
        initial_loss = or_infinite(past.started.get("initial_loss"))
        return RelayLoop(job, journal, initial_loss, told=told, stop=stop).go_on(past)


def _probe(job: Job, checkpoint: Any) -> float:
    return job.runner.probe(checkpoint).metric(job.problem.target.metric)


class RelayLoop:
    """One run, or one writer's part of it.

    Args:
        job: the run's parts.
        journal: where it is recorded.
        initial_loss: l(0) as probed.
        told: hears every epoch that is safe, and what happens beside them (`telling`).
        stop: asked before each epoch whether to end.
    """

    def __init__(
        self,
        job: Job,
        journal: Journal,
        initial_loss: float,
        *,
        told: Told | None = None,
        stop: StopAsked | None = None,
    ) -> None:
        self.job, self.journal = job, journal
        self.telling, self.stop = Telling(told, journal.run, job.notes), stop
        self.initial_loss = initial_loss if math.isfinite(initial_loss) else math.inf
        # A run whose l(0) is no number ends before any plan: then the scenario's stands in.
        first = initial_loss if math.isfinite(initial_loss) else job.problem.initial_loss
        problem = replace(job.problem, initial_loss=first, clock=job.clock.name)
        self.steering = Steering(
            problem,
            job.costs,
            job.estimator(problem),
            job.planner,
            job.law,
            learn_costs=job.clock.meter is not None,
            replan=job.settings.replan,
            prices=job.prices,
            seed=job.settings.seed,
        )
        self.checkpoint: Any = None
        self.handover: Mapping[str, Any] | None = None  # the one that `checkpoint` is the result of, until trained
        self.roll_backs = 0
        self.attempt = 0
        self.working = False
        self.infeasible = False
        self.feasible = True  # the last plan

    def begin(self, first: Any) -> Ended:
        """From the first checkpoint to the verdict."""
        self.checkpoint = first
        if math.isfinite(self.initial_loss):
            return self._go(None)
        return self._go(NonFiniteTraining(f"{self._unfounded()}; then start a new run"))

    def go_on(self, past: RunPast) -> Ended:
        """From where the events leave it to the verdict."""
        kept = self.journal.latest()
        if kept is None:
            raise UsageError(f"run {self.journal.run} kept no start checkpoint; start it anew with `relaytrain run`")
        steering = self.steering
        steering.recall(past.history, past.forbidden, past.lost, past.path, past.stated)
        self.roll_backs, self.attempt = past.roll_backs, past.attempts
        self.feasible = past.feasible
        self.checkpoint, self.handover = kept.checkpoint, kept.handover
        paused = self._book_pause(past)
        if kept.epoch < self.journal.progress.epoch or kept.skipped:
            self._take_older(past, kept.epoch, kept.skipped)
        elif self.journal.decision is not None and not past.ended_in_order:
            self._book_lost(event_bodies.INTERRUPTED, took_time=not paused)
        self._charge()
        if not math.isfinite(self.initial_loss):
            return self._go(NonFiniteTraining(f"{self._unfounded()}; then start a new run"))
        return self._go(None)

    def _unfounded(self) -> str:
        """What is known of an l(0) that is no number: the batches were looked at as it came about."""
        target, by = self.steering.problem.target, self.job.judged_by
        what = f"the {target.metric} before epoch 1 is not finite"
        whose = f"{by} gives it" if by else "the network gives it before any training"
        check = "it and the network's start values" if by else "the network's start values"
        return f"{what}: {whose} on the {target.on} set, whose batches hold no NaN; check {check}"

    def _book_pause(self, past: RunPast) -> bool:
        """On a clock that is the wall's, the time since the last event has passed, whatever was done in it."""
        if not self.job.clock.count_pauses:
            return False
        now_s = self.journal.now_s()
        pause_s = now_s - past.wall_s
        backwards = now_s < past.latest_s
        if backwards:
            pause_s = 0.0
            self.telling.notes.append(
                f"the clock on the wall went back by {past.latest_s - now_s:.4g} s while the run was not running: "
                "that pause counts as 0 s"
            )
        elif pause_s > 0.0:
            self.telling.notes.append(f"{pause_s:.4g} s passed between the last event and resume; they count")
        self.journal.append("resumed", {"wasted_s": pause_s, "backwards": backwards})
        return not backwards

    def _take_older(self, past: RunPast, done: int, skipped: tuple[str, ...]) -> None:
        """Damaged checkpoints were passed over: the epochs after the whole one are undone and run again."""
        body = {"to_epoch": done, "cause": event_bodies.DAMAGED, "reason": event_bodies.DAMAGED, "tried": list(skipped)}
        self.journal.append("rolled_back", body, done)
        self.steering.undo(done)
        self.telling.note(
            done, "roll-back", f"{len(skipped)} damaged checkpoint(s) passed over; went back to epoch {done}"
        )
        if self.handover is not None:  # this checkpoint already is the next pair's: its decision stands
            self.journal.append("planned", past.planned[done + 1], done + 1)
            self.journal.append("handover", self.handover, done + 1)

    # --- the loop

    def _go(self, trouble: RelayTrainError | None) -> Ended:
        """Run to the end; whatever happens, a verdict is recorded."""
        try:
            for words in (*(f"not promised: {each}" for each in self.job.caveats), *self.job.astray):
                self.telling.note(self.steering.state.epoch, "note", words)
            if trouble is not None:
                raise trouble
            while True:
                if (ended := self.steering.end()) is not None:
                    self.telling.notes.append(ended.reason)
                    return self._conclude(ended.verdict)
                if self.journal.stop_requested() or (self.stop is not None and self.stop()):
                    return self._conclude("stopped")
                if not self._epoch():
                    return self._conclude("missed")
        except LeaseLost:
            raise  # somebody else writes this run now: nothing may be added
        except BaseException as error:
            if dropped(self.stop, error):
                self._drop_work("stopped by the user during this epoch")
                return self._conclude("stopped", test=False)
            with suppress(Exception):
                if not isinstance(error, WorkerLost | NonFiniteTraining):
                    self._drop_work(f"{type(error).__name__} during this epoch", error)
                self.telling.notes.append(f"{type(error).__name__}: {error}")
                self._conclude("failed")
            raise

    def _drop_work(self, reason: str, error: BaseException | None = None) -> None:
        if self.working and self.journal.decision is not None:
            reason = str(error) if isinstance(error, UserCodeError) else reason
            self._book_lost(reason, error=error)

    def _epoch(self) -> bool:
        """One epoch, or a roll-back; False when there is nothing left to decide."""
        step: Step | None = None
        if self.journal.decision is None:
            self._check_not_stuck()
            with droppable(self.stop, 1):
                decided = self.steering.next()
            if isinstance(decided, End):
                self.infeasible = not self.steering.history
                self.telling.notes.append(decided.reason)
                return False
            step = decided
            if self._refused(step):
                self.infeasible = True
                self.telling.notes.append(way_out(step.plan))
                return False
            self._record_plan(step)
        decision = self.journal.decision
        planned = None if self.telling.told is None else self.journal.planned  # written out for a listener alone
        assert decision is not None
        self.working = True
        try:
            self._hand_over(decision)
            result = self._train(decision)
        except NonFiniteTraining as error:
            self._roll_back(decision, error)
            return True
        if result is not None:
            self._record_epoch(decision, result)
        self.working = False
        if result is not None and planned is not None:
            state, problem, clock = self.steering.state, self.steering.problem, self.job.clock.name
            self.telling.epoch_done(decision, planned, step, result, state=state, problem=problem, clock=clock)
        return True

    def _refused(self, step: Step) -> bool:
        return not step.plan.feasible and self.job.settings.when_infeasible == "stop"

    def _check_not_stuck(self) -> None:
        if not self.steering.stuck():
            return
        lost = [entry.reason for entry in self.steering.lost.values()]
        forbidden = "; ".join(dict.fromkeys([*lost, *self.steering.forbidden.values()]))
        words = f"no pair is left that can run ({forbidden or 'all costs are infinite'})"
        raise WorkerLost(words) if self.steering.lost else NonFiniteTraining(f"{words}; try a smaller lr")

    def _record_plan(self, step: Step) -> None:
        path = None if self.job.settings.replan else self.steering.path
        self.journal.plan(step, self.steering.problem, path)
        for words in step.notes:
            if words not in self.telling.notes:
                self.telling.note(step.decision.epoch, "estimator", words)
        if step.plan.feasible != self.feasible:
            self.feasible = step.plan.feasible
            self.telling.turned(step.decision.epoch, step.plan)
        self.attempt = 0

    def _hand_over(self, decision: Decision) -> None:
        before = self.steering.pair
        if decision.pair == before or self.handover is not None:
            return
        with droppable(self.stop, 2):
            handed = self.job.runner.hand_over(self.checkpoint, before, decision, self.journal.earlier)
            probed = _probe(self.job, handed.checkpoint)
        if not math.isfinite(probed):
            raise NonFiniteTraining(f"the loss after the handover {before} -> {decision.pair} is {probed}")
        modelled = self.steering.modelled(decision, self.job.costs).change
        spent = self.job.clock.counts(modelled, Spent(handed.elapsed_s, handed.energy_j))
        losses = self.steering.state.loss, probed
        body = event_bodies.handover_body(handed, before, decision.pair, losses=losses, spent=spent)
        body["blob"] = self.journal.keep(handed.checkpoint)
        self.journal.append("handover", body, decision.epoch)
        self.checkpoint, self.handover = handed.checkpoint, body
        self.working = False  # nothing is under way: what a listener raises loses nothing
        units, metric = self.steering.problem.units, self.steering.problem.target.metric
        self.telling.handed_over(decision, before, handed, losses, spent, units=units, metric=metric)
        self.working = True

    def _train(self, decision: Decision) -> EpochResult | None:
        """The epoch; None when its node set is lost, although the runner tried again, and all is to be decided anew."""
        try:
            with droppable(self.stop, 2):
                result = self.job.runner.run_epoch(
                    decision, self.checkpoint, run=self.journal.run, attempt=self.attempt
                )
        except WorkerLost as error:
            self._book_lost(str(error), decision.nodes, error)
            reason = f"{decision.nodes} does not answer: {error}"
            cause = {"cause": event_bodies.WORKER_LOST, "reason": reason, "lost_nodes": decision.nodes}
            self._undo_decision(cause)
            self.steering.lose(decision.nodes, reason)
            return None
        loss, before = result.outcome.loss, self._loss_before()
        if not math.isfinite(loss):
            raise NonFiniteTraining(f"the loss after epoch {decision.epoch} on {decision.pair} is {loss}")
        most = most_plausible(self.initial_loss, before)
        if loss > most:
            raise ImplausibleTraining(
                f"the loss went from {before:.4g} to {loss:.4g} in epoch {decision.epoch} on {decision.pair}, "
                f"expected at most {most:.4g} from training"
            )
        return result

    def _loss_before(self) -> float:
        """Of the checkpoint that the epoch trains."""
        return self.steering.state.loss if self.handover is None else float(self.handover["loss_after"])

    # --- keeping it

    def _record_epoch(self, decision: Decision, result: EpochResult) -> None:
        handover, outcome = Spent(0.0, 0.0), replace(result.outcome, decision=decision, handover_loss=None)
        if self.handover is not None:
            handover = Spent(self.handover["elapsed_s"], self.handover["energy_j"])
            outcome = replace(
                outcome,
                handover_loss=float(self.handover["loss_after"]),
                handover_s=handover.elapsed_s,
                handover_j=handover.energy_j,
            )
        modelled = self.steering.modelled(decision, self.job.costs)
        booked = self.job.clock.book(replace(result, outcome=outcome), modelled, handover)
        if booked.note and booked.note not in self.telling.notes:
            self.telling.note(decision.epoch, "note", booked.note)
        for failure in result.failures:
            lost = {"node": failure.node, "attempt": failure.attempt, "reason": failure.reason}
            self.journal.append("node_failed", lost, decision.epoch)
            self.telling.happened(decision.epoch, "failure", say_failure(failure.node, failure.reason))
        blob = self.journal.keep(result.checkpoint)
        self.journal.append("epoch_done", event_bodies.done_body(booked, result, blob=blob), decision.epoch)
        self.steering.tell(booked.outcome)
        self.checkpoint, self.handover, self.attempt = result.checkpoint, None, 0
        self._charge()
        if self.job.settings.thin and decision.epoch % THIN_EVERY == 0:
            self.journal.thin()

    def _roll_back(self, decision: Decision, error: NonFiniteTraining) -> None:
        """Losses that are no numbers, or none of training: the epoch is undone, its pair forbidden for this run, the
        last good weights are taken."""
        reason = str(error)
        wasted = self._cost_of_lost(decision, error)
        body = {
            "cause": event_bodies.IMPLAUSIBLE if isinstance(error, ImplausibleTraining) else event_bodies.NON_FINITE,
            "reason": reason,
            "forbidden": list(decision.pair),
            "wasted_s": wasted.elapsed_s,
            "wasted_j": wasted.energy_j,
        }
        self._undo_decision(body)
        self.steering.forbid(decision.pair, reason)
        self.roll_backs += 1
        self.working = False
        if self.roll_backs >= ROLL_BACKS:
            raise NonFiniteTraining(f"{self.roll_backs} roll-backs, the last because {reason}; try a smaller lr")

    def _undo_decision(self, body: Mapping[str, Any]) -> None:
        """Drop the open decision, and the handover made for it."""
        done = self.journal.progress.epoch
        self.journal.append("rolled_back", {"to_epoch": done, **body}, done)
        words = say_rolled_back(done, str(body["reason"]), body.get("forbidden"))
        self.telling.happened(done + 1, "roll-back", words)
        if self.handover is not None:
            kept = self.journal.latest()
            assert kept is not None
            self.checkpoint, self.handover = kept.checkpoint, None
        self.attempt = 0
        self._charge()

    def _book_lost(
        self,
        reason: str,
        node: str = event_bodies.ORCHESTRATOR,
        error: BaseException | None = None,
        *,
        took_time: bool = True,
    ) -> None:
        """Book an attempt that came to nothing; not its seconds where those are booked already."""
        decision = self.journal.decision
        assert decision is not None
        wasted = self._cost_of_lost(decision, error)
        body = {
            "node": node,
            "attempt": self.attempt,
            "reason": reason,
            "wasted_s": wasted.elapsed_s if took_time else 0.0,
            "wasted_j": wasted.energy_j,
        }
        epoch = self.journal.progress.epoch + 1
        self.journal.append("node_failed", body, epoch)
        self.telling.happened(epoch, "failure", say_failure(node, reason))
        self.attempt += 1
        self._charge()

    def _cost_of_lost(self, decision: Decision, error: BaseException | None = None) -> Spent:
        """Seconds and joules of a lost attempt at `decision`; a handover that is kept is not paid for again.

        Metered where an error carries what it cost; else the whole modelled cost is taken, for how far the attempt had
        come is not known.
        """
        lost = getattr(error, "lost", None)
        modelled = self.steering.modelled(decision)
        return self.job.clock.counts(
            modelled.whole if self.handover is None else modelled.run,
            None if lost is None else Spent(lost.elapsed_s, lost.energy_j),
        )

    def _charge(self) -> None:
        totals = self.journal.progress.totals
        self.steering.charge(totals.wasted_s if self.job.clock.charge_lost_work else 0.0, totals.wasted_j)

    def _conclude(self, verdict: VerdictKind, *, test: bool = True) -> Ended:
        tested, progress = Evaluation(math.nan), self.journal.progress
        at_hand = len(self.steering.history) == progress.epoch  # else an epoch was recorded, but not acknowledged
        if test and at_hand and self.checkpoint is not None:
            with suppress(Exception):  # a verdict is owed even when the test set cannot be read
                tested = self.job.runner.test(self.checkpoint) or tested
        problem = self.steering.problem
        hint = say_hardly_moved(self.initial_loss, self.steering.losses, problem.target.loss)
        if verdict == "missed" and hint is not None:
            self.telling.notes.append(hint)
        totals, notes = progress.totals, tuple(dict.fromkeys(self.telling.notes))
        body = event_bodies.verdict_body(
            verdict,
            progress,
            tested=tested,
            notes=notes,
            metric=problem.target.metric,
            initial_loss=self.initial_loss,
            infeasible=self.infeasible,
        )
        self.journal.append("verdict", body)
        ended = Ended(
            self.journal.run,
            verdict,
            tuple(self.steering.history),
            totals.energy_j,
            totals.elapsed_s,
            body["loss"],
            body["test_loss"],
            body["test_accuracy"],
            notes,
            totals.wasted_j,
            self.infeasible,
            tested.prediction_sets,
            body.get("test_figure"),
        )
        self.telling.concluded(ended)
        return ended

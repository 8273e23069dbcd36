"""Estimators: what a run has shown so far -> the loss law of the epochs to come.

The seams are two methods, each called once for every plan, the second where a plan is decided over worlds::

    Estimator.law(history, pairs) -> LossLaw
    Belief.sample(history, pairs, count, seed) -> Worlds    an estimator that says what is not known, too

`history` holds the epochs that stand, oldest first, each with its decision, its loss and, where it began with a
handover, the loss of the forward pass after the switch. The law that comes back is frozen, Markov in (epoch, pair,
loss) and knows `expected` and path-wise levels: following the 0.95 curve from the present observation for h epochs
leads to the 0.95 quantile of the loss h epochs ahead. An estimator is a pure function of the history, so a resumed run
meets the same laws and makes the same plans.

Rooms: `prior` (what was known before the run, re-weighted by its residuals), `learned` (models fitted to traces, or the
zero-trace network that ships; predicting takes numpy and compiled code, never torch or scikit-learn), `depl` (DepL's
fits) and `judging` (who judges the learned ones). They share `legs` (a history cut at its handovers), `bands` (a
forecast with its quantiles) and `own_pairs` (others than its own are refused); `choose` makes the one that a scenario
names.
"""

from .prior.reweighting import Prior

__all__ = ["Prior"]

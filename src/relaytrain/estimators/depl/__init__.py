"""DepL's curves and distributions fitted to traces, and conditioned on what a run has shown.

`curve_fit` and `distributions` fit them; `increments` is the estimator, with `widening` and `gain_worlds`.
"""

"""Figures of mcPipe (model-distributed training for memory-constrained edge devices).

By hand: `example` (Examples 1 and 2), `fig1`, `theorem`, `savings` (what best-of can save). Trained: `comparison`
(update rules on one network), `ring` (data-parallel over the same links), `accuracy` (six ways over time), `figures`
with `fig2`, `fig3` and `fig4`; `clock_check` holds the clock against processes, `width` bytes against closed forms.
"""

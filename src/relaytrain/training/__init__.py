"""All code that trains: one node's pass, the average, evaluation, handovers. Transports only move its data.

What travels: `settings`, `task`, `checkpoint` (its bytes by `safetensors_bytes`), and back as an `answer`. A pass:
`local` calls `step` (a batch becomes a loss, by `losses`) and `update` (a loss becomes a step, by `optimizer`,
`learning_rate`, `precision`), on a module of the `workbench`, within `threads`; `ordered_widths` trains slices too.
After it: `aggregate` (the average), `server` (its own step), `evaluate`, `conformal` (prediction sets).
Between versions: `handover`, for adapters `adapter_rank`.

What a run begins with: `setup` puts together `datasets` (by `known_data`), `version_plans` and `start_file`; `devices`
says where torch can train, `timing` how long a batch takes, `preprocessing` goes along when a network leaves. The
user's own: `own_data`, `own_training`, `references`. `soundness` and `own_soundness` find what no run could survive.
"""

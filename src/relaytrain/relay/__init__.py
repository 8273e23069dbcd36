"""THE LOOP: plan, record the decision, run the epoch, record the outcome, decide again. The only joiner of all parts.

Read in this order: `steering` (what to do next), `giving_up` (when to leave it), `loop` (doing it), `journal` and
`event_bodies` (what is kept of it), `telling` (what is said of it), `job` (the parts of a run), `runner` (what trains),
`assembly` (a scenario becomes a job), `resume` and `going_on` (may a run go on, and by which command), `runs` and
`session` (what Python users call; `callbacks`, `session_file`), `pipeline_runs` (a pipeline alone). Beside the loop:
`stopping` (when it is asked to end), `widening` (bands that prove too narrow), `what_if` (plans from events alone). A
replay (`replay`) or a simulation hands the loop another runner, clock, journal.
"""

"""THE LOOP: plan, record the decision, run the epoch, record the outcome, decide again. The only joiner of all parts.

Read in this order: `steering` (what to do next), `loop` (doing it), `journal` and `event_bodies` (what is kept of it),
`telling` (what is said of it), `job` (the parts of a run), `runner` (what trains), `assembly` (a scenario becomes a
job), `resume` (may a run go on), `runs` and `session` (what Python users call), `pipeline_runs` (a pipeline alone). A
replay or a simulation hands the loop another runner, clock, journal.
"""

"""Results become pictures and tables; reads results and the store, never executors.

A run is read in this order: `event_fields` (values of an event), `plan_view`, `run_parts` and `run_view` (a run from
its events alone), `happenings`, `node_states`, `verdict` and `standing` (what that comes to in words), `run_sections`
(words by section), `run_html` and `page_templates` (a page), `run_comparison` (several runs), `baselines` (other ways).
Pictures: `canvas`, `leg_bars`, then every `*_svg`. Answers: `comparison_rows` and `front_view`, `tables` (the
terminal), `answer_html` (a page), `pipeline_view`, `notebook`. Audits: `audit_rates`, `audit_bands`, `audit`,
`audit_tables`.
"""

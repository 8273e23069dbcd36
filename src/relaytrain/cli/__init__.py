"""The command line: `relaytrain VERB`, one file a verb, each thin over one public function.

Read in this order: `app` (the verbs, and how errors end), `output` (where words go), `options` and `reading` (what
verbs share), `signals`, `compiled`, `completion`; `plan` as an example of a verb that answers, `run` with `watching`
and `live_view` of one that trains; `on_flower`, `pipeline_options` and `pipeline_run` for those two groups.
"""

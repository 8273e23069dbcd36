"""mcPipe at run time: a network too large for one device, trained stage by stage as a pipeline that is lean in memory.

What plans without torch is in `planners.pipeline`. Here, in reading order: `update_rules` and `factors` are the
arithmetic, `weight_versions` the policies, `stage` a part of a network on one device, `simulator` all stages in one
process, `networks` networks as chains of units, `unit_counter` what these weigh.

A run: `pipeline_run` is the call (`named_run` by names), `pipeline_work` what it is given and gives back, `supervisor`
starts and watches the stages, `relaytrain.launcher` forks them, `worker` is one process and `stage_program` what it
does, `links` carry tensors (`host_links` between hosts), `snapshots` (of `tensorfile`s) keep weights, `job_file` (by
`job_writer`) and `blueprint` say in JSON what to do, `stragglers` who is slow, `addresses` where stages may listen,
`process_memory` what is only code.
"""

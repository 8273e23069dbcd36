"""mcPipe: a network too large for one device, trained stage by stage as a pipeline that is lean in memory.

In reading order: `actions` and `schedules` say what runs when, `lifetimes` counts which weight versions that keeps
alive, `updates` and `factors` are the arithmetic, `weights` the policies, `stage` a part of a network on one device,
`simulator` all stages in one process, `networks` networks as chains, `units` what their parts weigh, `memory` the bytes
of a stage, `choice` which layers keep what under a cap, `partition` who gets which layers, `planning` all of it by name.

Across processes: `running` is the call (`commanded` by name), `supervisor` starts and watches the stages, `launcher` forks them, `worker` is
one process and `playing` what it does, `links` carry tensors, `snapshots` (of `tensorfile`s) keep weights, `job` and `blueprint` say in JSON
what to do, `straggling` who is slow, `addresses` where stages may listen.
"""

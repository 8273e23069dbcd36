"""mcPipe: a network too large for one device, trained stage by stage as a pipeline that is lean in memory.

In reading order: `actions` and `schedules` say what runs when, `lifetimes` counts which weight versions that keeps
alive, `updates` and `factors` are the arithmetic, `weights` the policies, `stage` a part of a network on one device,
`simulator` all stages in one process, `units` what a network is made of, `memory` the bytes of a stage, `partition`
who gets which layers, `networks` the networks as chains.
"""

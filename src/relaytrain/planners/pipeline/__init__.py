"""mcPipe without torch: who gets which layers of a network, and how each layer keeps its weight versions.

In reading order: `actions` and `schedules` say what runs when, `version_lifetimes` counts which weight versions that
keeps alive, `chain` what is known of a network, `stage_memory` the bytes of a stage, `policy_choice` which layers keep
what under a cap, `partition` who gets which layers, `keeping_plans` the same for each way of keeping versions,
`stage_picture` a plan as text.
"""

"""Nodes that are Flower's: the loop runs in a ServerApp, tasks travel as messages, resident trainers do them.

    relaytrain run --transport flower          this machine's           each node
    command line  -- flwr run -->  SuperLink --> ServerApp: the loop    SuperNode --> ClientApp --> trainer
        ^                                          |  tasks, results        (no torch)   Unix      (torch, data,
        +--------- words, exit status -------------+  over the SuperLink                 socket    stays)

Read in this order: `serverapp` (the loop's end; `inside` says whether this process is it), `transport` and `roster`
(tasks to nodes), `messages` (their form), `clientapp` and `trainer_link` (a node's end), `trainer` (what stays there),
`profiling` (versions timed there), `fitness` (may a machine be a node), `nodes_here` and `local` (processes that we
start), `apps` (forks in the place of Flower's slow starts), `unanswered` (those that end too early), `tether` (so that
none is left behind), `submission` and `serverapp_name` (a run handed to a SuperLink) with `channel` (its words and
outcome back). Around all of it: `environment` and `security`.
"""

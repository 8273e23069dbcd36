"""Where epochs run: transports that move tasks and results, and the federated epoch written once above them.

Read `epoch` (send, collect, average, measure), then the transports: `inprocess`; `processes` with `children`, `frames`,
`worker` and `shares` (which process plays which nodes); `flower/`. A pipeline set's epoch is `pipelined`; where its
nodes are machines of their own, `stages` sends each its part with a `stage_order`, and `stage_node` plays it.
"""

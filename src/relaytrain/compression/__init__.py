"""Handovers that change the version: pruning, slices, low-rank factors, distillation; what the optimizer carries.

Read `channels` (torch-pruning behind one adapter) with `heads` (of attention) and `recurrent` (layers that stay as they
are), `prune` (a share of the parameters goes), `slices` (the leading channels, and back) and `carry` (the optimizer's
state goes along); `low_rank` is about adapters, `distill` teaches any student.
"""

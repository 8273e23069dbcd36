"""tau and epsilon, of running and of changing a pair: written out, modelled, or learned from what was measured."""

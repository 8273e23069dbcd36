"""Handovers that change the version: pruning, slices, low-rank factors, distillation; what the optimizer carries."""

"""Handovers that change the version: pruning, carrying the optimizer's state through it, distillation."""

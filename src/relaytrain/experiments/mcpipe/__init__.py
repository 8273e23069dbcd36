"""Figures of mcPipe (model-distributed training for memory-constrained edge devices)."""

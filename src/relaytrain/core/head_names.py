"""Attributes in which modules count their attention heads, as transformers, timm and people write them."""

from __future__ import annotations

HEAD_COUNTS = ("num_attention_heads", "num_heads", "n_heads", "n_head", "num_head", "nhead", "heads")
"""How many heads a module has."""
HEAD_SIZES = ("attention_head_size", "head_dim", "head_size", "dim_head", "d_head", "dim_per_head")
"""How many channels one head has."""
HEAD_TOTALS = ("all_head_size", "all_head_dim", "inner_dim")
"""The product of both."""
HEAD_ATTRIBUTES = frozenset((*HEAD_COUNTS, *HEAD_SIZES, *HEAD_TOTALS))
"""All that a spec may tell a module about its heads."""

"""Figures 5 to 9 of DepL."""

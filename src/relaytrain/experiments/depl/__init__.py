"""Figures 2, 4 and 5 to 9 of DepL, and its Table I."""

"""Figures 2 and 4 to 9 of PACT and its Table I, and beyond them Algorithm 3 with its repairs and a sweep of gamma_T."""

"""The centre: the words of the design as frozen values. Standard library and numpy; no files, no clock, no torch."""

"""DepL's curves and distributions fitted to traces, and conditioned on what a run has shown."""

"""What was known before the run, re-weighted by the run's own losses."""

"""What a run did, kept so that `kill -9` loses nothing that was acknowledged: events, checkpoints, one writer a run."""

"""What stands in the way of a run, found before any training: this machine, the store, data, networks, memory."""

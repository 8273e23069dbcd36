"""Results become pictures and tables; reads results and the store, never executors."""

"""mcPipe without torch: schedules as data, weight versions they keep alive, bytes of a stage, the exact partition."""

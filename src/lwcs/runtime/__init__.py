"""Services of a running job: threads, randomness, progress, warnings and the log."""

"""What runs a job: threads, randomness, progress, warnings and the log."""

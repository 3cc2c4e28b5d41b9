"""What every layer stands on: types, checks, randomness, threads, progress, files."""

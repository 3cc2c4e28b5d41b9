"""Statistics of draws: sampling errors, intervals, tests of drift and separation, theory."""

"""Mutated inputs for everything that reads: a clear error or an equal object, never anything else.

`FUZZ_SEED` and `FUZZ_CASES` choose the inputs; ``python -m tests.fuzz TARGET:CASE:1`` runs one.
"""

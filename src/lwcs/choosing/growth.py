"""How often and by how much a sample may grow, for clusters and for mixtures."""

from __future__ import annotations

from math import ceil

from lwcs.foundation.randomness import Stage, generator

SMALL_ROWS = 10_000
"""Data of no more rows is used itself: to sample it would save next to nothing."""
REDRAWS = 2
"""How often a larger sample may be drawn."""
LARGEST = 16
"""How many times the first draws there may be; a solver takes time in proportion."""
# More draws than the error asks for, since it is an estimate itself.
_MARGIN = 1.25


def enough_draws(size: int, error: float, target: float) -> int:
    """Number of draws that reach a target, if `size` of them have this error: it falls like 1/m."""
    # An error without bounds asks for no more than the largest sample.
    return ceil(size * min(_MARGIN * error / target, LARGEST))


def another_seed(seed: int, attempt: int) -> int:
    """The seed of a further draw, which is independent of the others."""
    return int(generator(seed, Stage.AGAIN, attempt).integers(2**63))

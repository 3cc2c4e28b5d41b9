"""Timing on machines that are never quiet: interleaved, best of several, as ratios."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table: what was measured, ours, the other's, and what was aimed at."""

    what: str
    rows: int
    columns: int
    ours: float
    peer: str
    theirs: float
    ratio: float
    target: str
    reached: bool


def interleaved(rounds: int, **contestants: Callable[[], object]) -> dict[str, float]:
    """Best time of each, taken in turns, so that no one gets the quiet machine alone."""
    best = dict.fromkeys(contestants, float("inf"))
    for contestant in contestants.values():
        contestant()
    for _ in range(rounds):
        for name, contestant in contestants.items():
            gc.collect()
            time.sleep(0.1)  # threads of the last one may still be spinning
            start = time.perf_counter()
            contestant()
            best[name] = min(best[name], time.perf_counter() - start)
    return best

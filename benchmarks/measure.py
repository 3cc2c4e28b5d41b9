"""Timing on machines that are never quiet: interleaved, best of several, as ratios."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "lwcs",
    "numpy",
    "scipy",
    "scikit-learn",
    "faiss-cpu",
    "dask",
    "pyspark",
    "ray",
)


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table: what was measured, our time, the other's, and the target."""

    what: str
    rows: int
    columns: int
    ours: float
    peer: str
    theirs: float
    ratio: float
    target: str
    reached: bool


def interleaved(
    rounds: int, *, warm: bool = True, **contestants: Callable[[], object]
) -> dict[str, float]:
    """Best time of each, taken in turns, so that no one gets the quiet machine alone.

    Each runs once before that, unless it is warm already.
    """
    best = dict.fromkeys(contestants, float("inf"))
    for contestant in contestants.values() if warm else ():
        contestant()
    for _ in range(rounds):
        for name, contestant in contestants.items():
            gc.collect()
            time.sleep(0.1)  # threads of the last one may still be spinning
            start = time.perf_counter()
            contestant()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def latencies(calls: int, **contestants: Callable[[], object]) -> dict[str, list[float]]:
    """Seconds of every one of many short calls, taken in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for each in range(-50, calls):
        for name, contestant in contestants.items():
            start = time.perf_counter()
            contestant()
            if each >= 0:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def machine() -> str:
    """When and where a figure was measured, and with what."""
    libraries = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"Python {platform.python_version()}"
    return f"{date.today()}, {cores} cores, {_processor()}, {python}, {libraries}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((li.split(":")[1].strip() for li in lines if li.startswith("model name")), "")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"

"""Data with an obvious clustering inside a difficult range, for fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from lwcs import divergences

from . import cases, oracle

N = 120


@dataclass(frozen=True)
class Obvious:
    """Rows, the cluster that each was made in, and what these clusters cost."""

    rows: np.ndarray
    truth: np.ndarray
    divergence: Any

    @property
    def k(self) -> int:
        return len(np.unique(self.truth))

    def exact(self, centers: np.ndarray) -> oracle.Exact:
        """Exact distances of the rows as they are measured."""
        by, rows = self.divergence, self.rows.astype(np.float64)
        if by == "sqeuclidean":
            return oracle.squared(rows, centers)
        if by.name == "cosine":
            return oracle.directions(rows, centers)
        return oracle.divergence(by.name, np.maximum(rows, getattr(by, "floor", -np.inf)), centers)

    def cost(self) -> Fraction:
        """What the obvious clustering costs, with centers in the dtype of those of a model."""
        rows = self.rows.astype(np.float64)
        if self.divergence == "sqeuclidean":
            centers = oracle.means(rows, self.truth).astype(self.rows.dtype)
            return self.exact(centers).cost()
        if self.divergence.name == "cosine":
            means = oracle.means(rows / np.linalg.norm(rows, axis=1)[:, None], self.truth)
            return self.exact(means / np.linalg.norm(means, axis=1)[:, None]).cost()
        floor = getattr(self.divergence, "floor", -np.inf)
        return self.exact(oracle.means(np.maximum(rows, floor), self.truth)).cost()

    def stepped(self, centers: np.ndarray) -> np.ndarray:
        """One Lloyd step without rounding, but of the means to the dtype of the centers."""
        labels = self.exact(centers).distances.argmin(axis=1)
        rows, moved = self.rows.astype(np.float64), centers.copy()
        floor = getattr(self.divergence, "floor", -np.inf)
        for j in np.unique(labels):
            moved[j] = oracle.mean(np.maximum(rows[labels == j], floor))
        return moved


Made = tuple[np.ndarray, np.ndarray]


def _clusters(rng: np.random.Generator, k: int, apart: float = 10.0) -> Made:
    truth = np.arange(N) % k
    return 0.5 * rng.normal(size=(N, 3)) + apart * truth[:, None], truth


def of_size(size: float) -> Made:
    rows, truth = _clusters(np.random.default_rng(1), 3)
    return size * rows, truth


def at_offset(by: float) -> Made:
    rows, truth = _clusters(np.random.default_rng(2), 3)
    return by + rows, truth


def columns_apart(power: int) -> Made:
    """Levels of 2 to a power, whose means are exact, so that small columns can decide."""
    rng = np.random.default_rng(3)
    rows, small = _clusters(rng, 2)
    level = rng.integers(0, 3, N)
    rows[:, 1] = 2.0**power * level
    return rows, 2 * level + small


def beside_a_sentinel(value: float, share: float | str) -> Made:
    rng = np.random.default_rng(4)
    rows, truth = _clusters(rng, 2)
    there = np.arange(N) == 0 if share == "one row" else rng.random(N) < share
    rows[:, 2] = np.where(there, value, 0.0)
    return rows, np.where(there, 2 + (truth if share != "one row" else 0), truth)


def gammas(centers: list[float]) -> Made:
    """Clusters of positive rows within 20 % of the given values."""
    rng, truth = np.random.default_rng(5), np.arange(N) % len(centers)
    return np.array(centers)[truth, None] * rng.gamma(25.0, 1 / 25.0, (N, 3)), truth


def silence(loud: float) -> Made:
    rows, truth = gammas([0.0, loud, 30.0 * loud])
    return rows, truth


def around(centers: list[float], spread: float) -> Made:
    rng, truth = np.random.default_rng(6), np.arange(N) % len(centers)
    return np.array(centers)[truth, None] + spread * rng.normal(size=(N, 3)), truth


def probabilities() -> Made:
    rows, truth = gammas([1e-12, 1e-5, 0.1, 1e-12])
    return np.where(truth[:, None] == 3, 1.0 - rows, rows), truth


def angles() -> Made:
    rng, truth = np.random.default_rng(7), np.arange(N) % 3
    rows = np.eye(3)[truth] + 0.05 * rng.normal(size=(N, 3))
    return rows * 10.0 ** rng.uniform(-15, 15, (N, 1)), truth


OBVIOUS: dict[str, tuple[Any, Callable[[], Made]]] = {
    **{
        f"size {m:g}": ("sqeuclidean", lambda m=m: of_size(m))
        for m in (1e-140, 1e-100, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e100, 1e150)
    },
    **{f"offset {o:g}": ("sqeuclidean", lambda o=o: at_offset(o)) for o in (1e4, 1e6, 1e8, 1e12)},
    **{
        f"columns {d} decades apart": ("sqeuclidean", lambda p=p: columns_apart(p))
        for d, p in ((3, 10), (14, 47), (20, 67), (30, 100))
    },
    **{
        f"sentinel {v:g} in {s if isinstance(s, str) else format(s, '.0%')}": (
            "sqeuclidean",
            lambda v=v, s=s: beside_a_sentinel(v, s),
        )
        for v in (1e3, 1e10, 1e12, 1e15, 9.97e36)
        for s in (0.3, "one row", 0.6)
    },
    **{
        f"kl size {m:g}": (cases.KL, lambda m=m: gammas([m, 10 * m, 100 * m]))
        for m in (1e-100, 1e-10, 1.0, 1e10, 1e100)
    },
    "kl at 1e9 ± 3": (cases.KL, lambda: around([1e9, 1e9 + 40, 1e9 + 80], 3.0)),
    **{
        f"is {d} decades apart": (
            cases.IS,
            lambda d=d: gammas([10.0 ** (-d / 2), 1.0, 10.0 ** (d / 2)]),
        )
        for d in (6, 14, 20, 30)
    },
    **{
        f"is silence below {m:g}": (cases.FLOORED, lambda m=m: silence(m))
        for m in (1e-3, 1e3, 1e6, 1e8)
    },
    "exponential -60 to -40": (cases.EXP, lambda: around([-60.0, -50.0, -40.0], 0.3)),
    "exponential -690 to -680": (cases.EXP, lambda: around([-690.0, -685.0, -680.0], 0.3)),
    "exponential around 300": (cases.EXP, lambda: around([290.0, 300.0, 310.0], 0.3)),
    "logistic 1e-12 to 1 - 1e-12": (cases.LOGISTIC, probabilities),
    "cosine 30 decades": (divergences.Cosine(), angles),
}
_WIDE = ("e-140", "e-100", "e+100", "e+150", "offset 1e+08", "offset 1e+12")


def obvious_too() -> list[tuple[str, str]]:
    """Names with every dtype that holds them; divergences in float64."""
    return [
        (name, dtype)
        for name, (by, _) in OBVIOUS.items()
        for dtype in ("float32", "float64")
        if dtype == "float64" or (by == "sqeuclidean" and not name.endswith(_WIDE))
    ]


@cache
def obvious(name: str, dtype: str) -> Obvious:
    """The data of a name."""
    by, make = OBVIOUS[name]
    rows, truth = make()
    return Obvious(rows.astype(dtype), truth, by)

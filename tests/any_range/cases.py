"""The grid of ranges: rows and centers that are hard to tell apart in floating point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import lwcs
from lwcs import divergences

from . import oracle

N, D, K = 120, 4, 5
CONTAINERS = ("dense", "csr")
Made = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Case:
    """Rows of one dtype, centers, and the divergence that they are measured by."""

    rows: np.ndarray
    centers: np.ndarray
    divergence: Any
    exact: oracle.Exact

    @property
    def dtype(self) -> str:
        return self.rows.dtype.name

    @property
    def roots(self) -> bool:
        """Whether `transform` gives square roots."""
        return self.divergence == "sqeuclidean" or self.divergence.squared

    @property
    def fits_in_float32(self) -> bool:
        """Whether all distances that are not zero are normal numbers there, as roots if `roots`."""
        there = [d for d in self.exact.distances.ravel() if d]
        power = 2 if self.roots else 1
        low, high = Fraction(2) ** (-126 * power), Fraction(2) ** (127 * power)
        return all(low < d < high for d in there)


def contained(rows: np.ndarray, container: str) -> Any:
    """The same rows, dense or as CSR."""
    return rows if container == "dense" else sp.csr_array(rows)


def model_with(
    data: Any, centers: np.ndarray, divergence: Any = "sqeuclidean", weights: Any = None
) -> lwcs.CoresetKMeans:
    """A model of the data that has the given centers, and all rows as its coreset."""
    rows = data.n_rows if isinstance(data, lwcs.Source) else data.shape[0]
    model = lwcs.CoresetKMeans(
        1, coreset_size=rows, divergence=divergence, compute_labels=False, random_state=0
    )
    model.fit(data, sample_weight=weights)
    model.cluster_centers_ = np.array(centers, dtype=np.float64)
    return model.set_params(n_clusters=len(centers))


def _rng(*key: float) -> np.random.Generator:
    return np.random.default_rng([int(abs(k)) % 2**31 for k in key])


def magnitude(size: float) -> Made:
    rng = _rng(1)
    return size * rng.normal(size=(N, D)), size * rng.normal(size=(K, D))


def columns_apart(decades: int) -> Made:
    """A column of a few levels, so large that only equal levels are near; small ones decide."""
    rng = _rng(2, decades)
    large = 1.1 * 10.0**decades
    rows, centers = rng.normal(size=(N, D)), rng.normal(size=(6, D))
    rows[:, 1] = large * rng.integers(0, 3, N)
    centers[:, 1] = large * (np.arange(6) % 3)
    return rows, centers


def rows_apart(decades: int) -> Made:
    """Rows, and a center for some of them, of sizes over many decades."""
    rng = _rng(3, decades)
    rows = rng.normal(size=(N, D)) * 10.0 ** rng.uniform(0, decades, (N, 1))
    return rows, rng.normal(size=(6, D)) * 10.0 ** np.linspace(0, decades, 6)[:, None]


def sentinel(value: float, share: float | str) -> Made:
    """Two clusters 10 apart, beside a column that is a code for "missing" in some rows."""
    rng = _rng(4, value)
    rows = rng.normal(size=(N, D)) + 10.0 * rng.integers(0, 2, (N, 1))
    there = np.arange(N) == 0 if share == "one row" else rng.random(N) < share
    rows[:, 2] = np.where(there, value, 0.0)
    centers = np.repeat([[0.0], [10.0], [0.0], [10.0]], D, axis=1) + rng.normal(size=(4, D)) / 4
    centers[:, 2] = [0.0, 0.0, value, value]
    return rows, centers


def offset(by: float) -> Made:
    rng = _rng(5, by)
    return by + rng.normal(size=(N, D)), by + rng.normal(size=(K, D))


SQUARED: dict[str, Callable[[], Made]] = {
    **{
        f"size {m:g}": (lambda m=m: magnitude(m))
        for m in (1e-140, 1e-100, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e100, 1e150)
    },
    **{f"columns {e} decades apart": (lambda e=e: columns_apart(e)) for e in (14, 20, 30)},
    **{f"rows {e} decades apart": (lambda e=e: rows_apart(e)) for e in (14, 20, 30)},
    **{
        f"sentinel {v:g} in {s if isinstance(s, str) else format(s, '.0%')}": (
            lambda v=v, s=s: sentinel(v, s)
        )
        for v in (1e10, 1e12, 1e15, 9.97e36)
        for s in (0.3, "one row", 0.6)
    },
    **{f"offset {o:g}": (lambda o=o: offset(o)) for o in (1e4, 1e6, 1e8, 1e12)},
}
# Out of float32's range, or with no digit left for a spread of 1.
ONLY_FLOAT64 = ("size 1e-140", "size 1e-100", "size 1e+100", "size 1e+150", "offset 1e+08")
ONLY_FLOAT64 += ("offset 1e+12",)


def _fan(rng: np.random.Generator, rows: int, low: float, high: float) -> np.ndarray:
    return 10.0 ** rng.uniform(low, high, (rows, D))


def kl_of_size(size: float) -> Made:
    rng = _rng(6)
    return size * rng.gamma(2.0, size=(N, D)), size * rng.gamma(2.0, size=(K, D))


def kl_at_offset() -> Made:
    rng = _rng(7)
    rows, centers = rng.normal(size=(N, D)), rng.normal(size=(K, D))
    return 1e9 + 3 * rows, 1e9 + 3 * centers


def positive_rows_apart(decades: int) -> Made:
    rng = _rng(8, decades)
    rows = rng.gamma(2.0, size=(N, D)) * 10.0 ** rng.uniform(-decades / 2, decades / 2, (N, 1))
    centers = np.linspace(-decades / 2, decades / 2, K)[:, None]
    return rows, rng.gamma(2.0, size=(K, D)) * 10.0**centers


def positive_columns_apart(decades: int) -> Made:
    rng = _rng(9, decades)
    wide = 10.0 ** np.linspace(-decades / 2, decades / 2, D)
    return rng.gamma(2.0, size=(N, D)) * wide, rng.gamma(2.0, size=(K, D)) * wide


def silence(loud: float) -> Made:
    """40 % of the rows are loud, the others silent (at the floor of 1e-9)."""
    rng = _rng(10, loud)
    rows = rng.gamma(2.0, size=(N, D)) * loud * (rng.random((N, 1)) < 0.4)
    centers = np.vstack([rng.gamma(2.0, size=(3, D)) * loud, np.full((2, D), 1e-9)])
    centers[4] *= 1.5
    return rows, centers


def exponents(low: float, high: float) -> Made:
    rng = _rng(11, low)
    middle = rng.uniform(low + 2, high - 2, (6, 1))
    rows = middle[rng.integers(0, 6, N)] + rng.uniform(-2, 2, (N, D))
    return rows, middle + rng.uniform(-1, 1, (6, D))


def probabilities() -> Made:
    rng = _rng(12)

    def some(rows: int) -> np.ndarray:
        small = _fan(rng, rows, -12, -0.4)
        return np.where(rng.random((rows, D)) < 0.5, small, 1.0 - small)

    return some(N), some(K)


def angles(decades: int) -> Made:
    rng = _rng(13)
    centers = rng.normal(size=(K, D))
    centers /= np.linalg.norm(centers, axis=1)[:, None]
    rows = centers[rng.integers(0, K, N)] + 0.3 * rng.normal(size=(N, D))
    return rows * 10.0 ** rng.uniform(-decades / 2, decades / 2, (N, 1)), centers


KL = divergences.KL(smoothing=0)
FLOORED = divergences.ItakuraSaito(floor=1e-9)
IS = divergences.ItakuraSaito()
EXP = divergences.Exponential()
LOGISTIC = divergences.Logistic(smoothing=0)
OTHERS: dict[str, tuple[Any, Callable[[], Made]]] = {
    **{
        f"kl size {m:g}": (KL, lambda m=m: kl_of_size(m))
        for m in (1e-140, 1e-100, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e100, 1e150)
    },
    "kl at 1e9 ± 3": (KL, kl_at_offset),
    **{f"kl rows {e} decades apart": (KL, lambda e=e: positive_rows_apart(e)) for e in (14, 30)},
    **{f"kl columns {e} decades": (KL, lambda e=e: positive_columns_apart(e)) for e in (14, 30)},
    **{f"is size {m:g}": (IS, lambda m=m: kl_of_size(m)) for m in (1e-100, 1e-30, 1.0, 1e100)},
    **{
        f"is rows {e} decades apart": (IS, lambda e=e: positive_rows_apart(e)) for e in (14, 20, 30)
    },
    **{f"is columns {e} decades": (IS, lambda e=e: positive_columns_apart(e)) for e in (14, 30)},
    **{f"is silence below {m:g}": (FLOORED, lambda m=m: silence(m)) for m in (1e3, 1e6, 1e8, 1e12)},
    "exponential -40 to -690": (EXP, lambda: exponents(-690.0, -40.0)),
    "exponential -60 to -40": (EXP, lambda: exponents(-60.0, -40.0)),
    "exponential around 300": (EXP, lambda: exponents(290.0, 310.0)),
    "exponential -30 to 30": (EXP, lambda: exponents(-30.0, 30.0)),
    "logistic 1e-12 to 1 - 1e-12": (LOGISTIC, probabilities),
    **{f"cosine {e} decades": (divergences.Cosine(), lambda e=e: angles(e)) for e in (0, 30, 200)},
}
# Float32 holds neither 1e100 nor 1 − 1e-12.
WIDE = ("e-140", "e-100", "e+100", "e+150", "logistic", "200 decades", "kl at 1e9")


def single_too() -> list[tuple[str, str]]:
    """Names of the cases of squared distances with every dtype that holds them."""
    return [
        (name, dtype)
        for name in SQUARED
        for dtype in ("float32", "float64")
        if dtype == "float64" or name not in ONLY_FLOAT64
    ]


def others_too() -> list[tuple[str, str]]:
    """The same of the other divergences."""
    return [
        (name, dtype)
        for name in OTHERS
        for dtype in ("float32", "float64")
        if dtype == "float64" or not any(part in name for part in WIDE)
    ]


@cache
def case(name: str, dtype: str) -> Case:
    """The rows of a name in a dtype, and their exact distances from the centers."""
    if name in SQUARED:
        rows, centers = SQUARED[name]()
        rows, centers = rows.astype(dtype), centers.astype(dtype).astype(np.float64)
        return Case(rows, centers, "sqeuclidean", oracle.squared(rows, centers))
    by, make = OTHERS[name]
    rows, centers = make()
    rows = rows.astype(dtype)
    if by.name == "cosine":
        return Case(rows, centers, by, oracle.directions(rows, centers))
    centers = centers.astype(dtype).astype(np.float64)
    seen = np.maximum(rows.astype(np.float64), getattr(by, "floor", 0.0)) if by == FLOORED else rows
    centers = np.maximum(centers, 1e-9) if by == FLOORED else centers
    return Case(rows, centers, by, oracle.divergence(by.name, seen, centers))

"""Forty data sets whose clusters are known, small ones, hard ones and ones without clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class KnownData:
    """Rows, the cluster of each, and which numbers of clusters are tried."""

    name: str
    rows: Array
    whose: Array
    """The true cluster of every row; all 0 where there is no structure."""
    ks: range
    size: int | str = "auto"

    @property
    def truth(self) -> int | None:
        """The true number of clusters; None for a single one, which is no structure."""
        k = int(self.whose.max()) + 1
        return k if k > 1 else None


def gaussians(
    rng: Rng, shares: Array | list[float], d: int, n: int, apart: float, stretch: float = 1.0
) -> tuple[Array, Array]:
    """Gaussians of variance 1 whose nearest centers are `apart` from each other.

    With a stretch, the first axis of each, turned at random, is so many times as long.
    """
    p = np.asarray(shares, dtype=float)
    centers, side = np.empty((0, d)), 1.0
    while len(centers) < len(p):
        one = rng.uniform(0.0, side, d)
        if (np.linalg.norm(centers - one, axis=1) >= 1.0).all():
            centers = np.vstack([centers, one])
        side *= 1.003
    whose = rng.choice(len(p), n, p=p / p.sum())
    rows = rng.normal(size=(n, d))
    rows[:, 0] *= stretch
    for each in range(len(p)):
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        rows[whose == each] = rows[whose == each] @ turn
    return rows + apart * centers[whose], whose


def zipf(k: int, exponent: float = 1.0) -> Array:
    """Shares of k clusters, by Zipf's law."""
    return np.arange(1.0, k + 1.0) ** -exponent


def beside_a_long_one(rng: Rng, d: int, n: int) -> tuple[Array, Array]:
    """A segment of 6 % above the middle of a long cluster, which k-means cuts."""
    whose = (rng.random(n) < 0.06).astype(int)
    rows = rng.normal(size=(n, d))
    rows[:, 0] *= np.where(whose == 0, 3.0, 0.5)
    rows[whose == 1, 1:] *= 0.5
    rows[whose == 1, 1] += 7.0
    return rows, whose


def unequal_spread(rng: Rng, d: int, n: int) -> tuple[Array, Array]:
    """Four Gaussians with standard deviations from 0.5 to 2."""
    whose = rng.integers(0, 4, n)
    centers = np.zeros((4, d))
    centers[:, :2] = [[0, 0], [9, 0], [0, 9], [10, 10]]
    scales = np.array([2.0, 0.5, 1.0, 1.5])
    return centers[whose] + scales[whose][:, None] * rng.normal(size=(n, d)), whose


def _one(make: Callable[[Rng], Array]) -> Callable[[Rng], tuple[Array, Array]]:
    def rows(rng: Rng) -> tuple[Array, Array]:
        found = make(rng)
        return found, np.zeros(len(found), dtype=int)

    return rows


def _cases() -> Iterator[tuple[str, Callable[[Rng], tuple[Array, Array]], range, int | str]]:
    few, more, many = range(2, 9), range(2, 15), range(20, 41, 2)
    equal = np.ones
    for k, d, apart in ((2, 2, 5.0), (4, 2, 4.0), (4, 2, 6.0), (3, 10, 5.0), (5, 10, 5.0),
                        (4, 50, 6.0)):  # fmt: skip
        yield (
            f"{k} equal, {d} columns, {apart:g} σ",
            lambda rng, k=k, d=d, apart=apart: gaussians(rng, equal(k), d, 3_000, apart),
            few, "auto",
        )  # fmt: skip
    for k, d in ((3, 2), (4, 5), (6, 10), (8, 3)):
        yield (
            f"{k} unequal, 10 : 1, {d} columns, 7 σ",
            lambda rng, k=k, d=d: gaussians(rng, np.geomspace(1, 10, k), d, 4_000, 7.0),
            range(2, k + 5), "auto",
        )  # fmt: skip
    for k, d in ((3, 2), (4, 3), (5, 10)):
        yield (
            f"{k} long, 4 : 1, {d} columns, 16 σ",
            lambda rng, k=k, d=d: gaussians(rng, equal(k), d, 3_000, 16.0, 4.0),
            few, "auto",
        )  # fmt: skip
    for d in (2, 6):
        yield (
            f"6 % beside a long one, {d} columns",
            lambda rng, d=d: beside_a_long_one(rng, d, 4_000),
            range(2, 7), "auto",
        )  # fmt: skip
        yield (
            f"4 of unequal spread, {d} columns",
            lambda rng, d=d: unequal_spread(rng, d, 3_000),
            few, "auto",
        )  # fmt: skip
    for k, d in ((10, 2), (10, 10)):
        yield (
            f"{k} equal, {d} columns, 7 σ",
            lambda rng, k=k, d=d: gaussians(rng, equal(k), d, 4_000, 7.0),
            more, "auto",
        )  # fmt: skip
    for d, n, exponent in ((2, 6_000, 1.0), (5, 6_000, 1.0), (20, 6_000, 1.0), (5, 20_000, 1.3)):
        yield (
            f"30 by Zipf^{exponent:g}, {d} columns, 12 σ",
            lambda rng, d=d, n=n, exponent=exponent: gaussians(
                rng, zipf(30, exponent), d, n, 12.0
            ),
            many, "auto",
        )  # fmt: skip
    for k, d, apart in ((4, 2, 6.0), (6, 4, 6.0), (6, 4, 4.5)):
        yield (
            f"{k} unequal, 5 : 1, {d} columns, {apart:g} σ, 3,000 of 40,000 rows",
            lambda rng, k=k, d=d, apart=apart: gaussians(
                rng, np.geomspace(1, 5, k), d, 40_000, apart
            ),
            few, 3_000,
        )  # fmt: skip
    yield "4 equal, two of them 4 σ apart, 3,000 of 30,000 rows", _two_near, few, 3_000
    for k, n in ((3, 300), (4, 400)):
        yield (
            f"{k} equal, 4 columns, 6 σ, {n} rows",
            lambda rng, k=k, n=n: gaussians(rng, equal(k), 4, n, 6.0),
            few, "auto",
        )  # fmt: skip
    yield "5 values", _values, few, "auto"
    none: dict[str, Callable[[Rng], Array]] = {
        "Gaussian, 2 columns": lambda rng: rng.normal(size=(3_000, 2)),
        "Gaussian, 20 columns": lambda rng: rng.normal(size=(3_000, 20)),
        "Gaussian, 300 rows": lambda rng: rng.normal(size=(300, 5)),
        "long Gaussian, 10 : 1": lambda rng: rng.normal(size=(3_000, 3)) * [10.0, 1.0, 1.0],
        "uniform, 2 columns": lambda rng: rng.uniform(size=(3_000, 2)),
        "uniform, 10 columns": lambda rng: rng.uniform(size=(3_000, 10)),
        "uniform, 300 rows": lambda rng: rng.uniform(size=(300, 2)),
        "exponential, 4 columns": lambda rng: rng.exponential(size=(3_000, 4)),
        "t with 3 degrees, 3 columns": lambda rng: rng.standard_t(3.0, size=(3_000, 3)),
        "log-normal, 3 columns": lambda rng: rng.lognormal(sigma=0.7, size=(3_000, 3)),
    }  # fmt: skip
    for name, make in none.items():
        yield f"no structure: {name}", _one(make), few, "auto"


def _two_near(rng: Rng) -> tuple[Array, Array]:
    whose = rng.integers(0, 4, 30_000)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [4.0, 0.0]])
    return centers[whose] + rng.normal(size=(30_000, 2)), whose


def segment(seed: int) -> tuple[Array, Array]:
    """Two to four Gaussians of unequal spread, the last one a tight segment of 6 %."""
    rng = np.random.default_rng(seed)
    d, k = int(rng.choice([2, 3, 5, 8])), int(rng.integers(2, 5))
    nearest = 0.0
    while not 5.5 < nearest < 9.0:
        centers = rng.normal(size=(k, d)) * rng.uniform(3.0, 7.0)
        gaps = np.linalg.norm(centers[:, None] - centers[None], axis=2)
        nearest = gaps[np.triu_indices(k, 1)].min()
    shares = np.r_[0.94 * rng.dirichlet(np.full(k - 1, 3.0)), 0.06]
    scales = np.ones((k, d))
    scales[:-1] = np.exp(rng.uniform(-0.3, 0.7, (k - 1, d)))
    scales[-1] *= rng.uniform(0.4, 0.9)
    whose = rng.choice(k, 4_000, p=shares)
    return centers[whose] + rng.normal(size=(4_000, d)) * scales[whose], whose


def _values(rng: Rng) -> tuple[Array, Array]:
    whose = rng.choice(5, 3_000, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    return whose[:, None].astype(float), whose


def known_data() -> Iterator[KnownData]:
    """All data sets; the rows are the same every time."""
    for number, (name, make, ks, size) in enumerate(_cases()):
        rows, whose = make(np.random.default_rng(number))
        yield KnownData(name, rows, whose, ks, size)

"""Rows that are few and matter, against the intervals of `lwcs.certify`: 240 data sets.

Tight clusters have nearly all rows. A few rows are midway between two of them, at the mean of all,
or far away, and have much of the cost: mostly none of them is drawn, or too few. How much of the
cost is in them depends on how tight the clusters are, which is set so that the intervals with
standard errors are given in most cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from lwcs.statistics.certificate import cost_interval
from lwcs.statistics.extremes import Law
from lwcs.statistics.referee import Price, deviations

PLACES = ("between two clusters", "at the mean", "far away")
NUMBERS = (1, 3, 10, 30, 100)
CLUSTERS = (1, 2, 20, 200)
SIZES = ((20_000, 1_000), (20_000, 5_000), (300_000, 5_000), (300_000, 20_000))
COLUMNS = 4
_RADIUS = 10.0
# R/h as a part of the cost of the clusters: below one half, where standard errors are given.
_BY_ONE_ROW = (0.02, 0.1, 0.2, 0.4)


@dataclass(frozen=True, slots=True)
class Found:
    """Intervals on one data set: of how many by standard errors, and how many have the cost."""

    place: str
    k: int
    times: int
    normal: int
    """Intervals of the kinds "clt" and "rare"."""
    normal_covers: int
    clt: int
    clt_covers: int
    plain_covers: int
    """How many of as many have the cost by standard errors alone."""
    covers: int


def centers_of(k: int, rng: np.random.Generator) -> np.ndarray:
    """Centers in pairs on opposite sides of the origin."""
    if k == 1:
        return np.zeros((1, COLUMNS))
    one = rng.normal(size=(k // 2, COLUMNS))
    one *= _RADIUS / np.linalg.norm(one, axis=1)[:, None]
    return np.vstack([one, -one])


def rows_at(place: str, centers: np.ndarray, few: int, rng: np.random.Generator) -> np.ndarray:
    """The rows that are few."""
    at = {
        "between two clusters": 0.5 * (centers[0] + centers[len(centers) // 4]),
        "at the mean": np.zeros(COLUMNS),
        "far away": 3.0 * _RADIUS * np.eye(COLUMNS)[0],
    }
    return at[place] + 1e-3 * rng.normal(size=(few, COLUMNS))


def data_sets() -> Iterator[tuple[str, int, int, np.ndarray, np.ndarray]]:
    """Place, k, number of draws, rows and centers."""
    cases = product(PLACES, NUMBERS, CLUSTERS, SIZES)
    for seed, (place, few, k, (n, draws)) in enumerate(cases):
        rng = np.random.default_rng(seed)
        centers = centers_of(k, rng)
        # R is about 4·n·radius² for k > 1, and 2·Φ for one cluster, whose radius is any.
        part = _BY_ONE_ROW[seed % len(_BY_ONE_ROW)]
        spread = _RADIUS * np.sqrt(4.0 / (part * draws) / COLUMNS) if k > 1 else 0.1
        many = centers[rng.integers(k, size=n - few)]
        many = many + spread * rng.normal(size=many.shape)
        yield place, k, draws, np.vstack([many, rows_at(place, centers, few, rng)]), centers


def measured(times: int) -> Iterator[Found]:
    """Draw from each data set many times."""
    for seed, (place, k, draws, rows, centers) in enumerate(data_sets()):
        mean = rows.mean(axis=0)
        to_mean = ((rows - mean) ** 2).sum(axis=1)
        total, n = float(to_mean.sum()), len(rows)
        q = 0.5 / n + 0.5 * to_mean / total
        y = _nearest(rows, centers) / q
        largest = Law(2.0 * total, 2.0 * n).largest_squared(
            float(((centers - mean) ** 2).sum(axis=1).min())
        )
        yield _drawn(place, k, y, q, largest, draws, times, np.random.default_rng([seed, 1]))


def _nearest(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Squared distances to the nearest center, from pieces of rows."""
    squares = (centers**2).sum(axis=1)
    found = [
        (squares - 2.0 * (part @ centers.T)).min(axis=1) + (part**2).sum(axis=1)
        for part in np.array_split(rows, max(1, len(rows) * len(centers) // 4_000_000))
    ]
    return np.maximum(np.concatenate(found), 0.0)


def _drawn(
    place: str, k: int, y: np.ndarray, q: np.ndarray, largest: float, draws: int, times: int,
    rng: np.random.Generator,
) -> Found:  # fmt: skip
    true, cumulated = float(q @ y), np.cumsum(q)
    ones, weights = np.ones(draws, dtype=np.int64), np.full(draws, 1.0 / draws)
    normal = normal_covers = clt = clt_covers = plain_covers = covers = 0
    for _ in range(times):
        places = np.searchsorted(cumulated, rng.random(draws) * cumulated[-1])
        drawn = y[np.minimum(places, len(y) - 1)]
        price = Price.on_draws(weights, ones, drawn)
        found = cost_interval(price, draws, float(drawn.max()), largest, 0.95)
        inside = found.low <= true <= found.high
        covers += inside
        if found.kind != "bernstein":
            normal += 1
            normal_covers += inside
            half = deviations(0.05) * price.cost * price.variance**0.5
            plain_covers += abs(price.cost - true) <= half
        if found.kind == "clt":
            clt += 1
            clt_covers += inside
    return Found(place, k, times, normal, normal_covers, clt, clt_covers, plain_covers, covers)


def table(found: list[Found]) -> Iterator[str]:
    """A line for every place and number of clusters: the worst data set, and all of them."""
    yield (
        "| the few rows are | k | data sets | given with standard errors | these cover | least on "
        "one data set | standard errors alone cover | least | all intervals cover |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for place, k in product(PLACES, CLUSTERS):
        own = [each for each in found if (each.place, each.k) == (place, k)]
        yield _line(place, k, own)
    yield _line("all", "", found)


def _line(place: str, k: int | str, own: list[Found]) -> str:
    given = [each for each in own if each.normal >= each.times / 2]
    normal, times = sum(each.normal for each in own), sum(each.times for each in own)
    parts = (
        normal / times,
        sum(each.normal_covers for each in own) / normal if normal else None,
        min((each.normal_covers / each.normal for each in given), default=None),
        sum(each.plain_covers for each in own) / normal if normal else None,
        min((each.plain_covers / each.normal for each in given), default=None),
        sum(each.covers for each in own) / times,
    )
    cells = ["–" if part is None else f"{100 * part:.1f} %" for part in parts]
    return f"| {place} | {k} | {len(own)} | {' | '.join(cells)} |"

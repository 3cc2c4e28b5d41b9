"""`python -m benchmarks.stability [--markdown FILE]`: clusters that score high are real ones.

Mixtures of known clusters are fitted with the right number of clusters, and with too many. Whole
clusters have to score above 0.85, and parts of one cluster below 0.6. Further tables say how often
parts of one cluster are told apart all the same, and how often two clusters are.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.measure import machine
from lwcs import CoresetKMeans
from lwcs.sizing.stability import DOUBTFUL, STABLE
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points
from lwcs.statistics.separation import Neighbours, tell_apart

Array = np.ndarray
Rng = np.random.Generator
ROWS, SEEDS, BOOTSTRAP = 12_000, 1, 10
COLUMNS, CLUSTERS, SIZES = (2, 10, 50), (4, 10, 30), ("equal", "1 to 20")
# Standard deviations of the first of its axes, and of the others.
SHAPES = {"round": 1.0, "elongated": 5.0}
# Between the nearest centers, in standard deviations along the longest axis.
APART = {"equal": 6.5, "1 to 20": 8.0}


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of whole clusters, of parts of one, and of all other clusters of k-means."""

    whole: list[float] = field(default_factory=list)
    parts: list[float] = field(default_factory=list)
    others: int = 0
    seconds: list[float] = field(default_factory=list)


def mixture(shape: str, d: int, k: int, sizes: str, rng: Rng) -> tuple[Array, Array]:
    """Rows of k Gaussians, and the Gaussian of each."""
    weights = np.ones(k) if sizes == "equal" else np.geomspace(1.0, 20.0, k)
    whose = np.repeat(np.arange(k), np.round(ROWS * weights / weights.sum()).astype(int))
    rows = rng.normal(size=(len(whose), d))
    rows[:, 0] *= SHAPES[shape]
    for each in range(k):
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        rows[whose == each] = rows[whose == each] @ turn
    return rows + APART[sizes] * SHAPES[shape] * _spread(k, d, rng)[whose], whose


def _spread(k: int, d: int, rng: Rng) -> Array:
    """k points of which the nearest two have distance 1."""
    points: list[Array] = []
    side = 1.5 * k ** (1.0 / d)
    while len(points) < k:
        one = rng.uniform(0.0, side, d)
        if all(np.linalg.norm(one - other) >= 1.0 for other in points):
            points.append(one)
    return np.array(points)


def measured(shape: str, d: int, k: int, sizes: str) -> Scores:
    """Scores with k clusters, and with a quarter more."""
    found = Scores()
    others = 0
    for seed, many in product(range(SEEDS), (k, k + max(1, k // 4))):
        X, whose = mixture(shape, d, k, sizes, np.random.default_rng(seed))
        model = CoresetKMeans(many, random_state=seed).fit(X)
        start = time.perf_counter()
        scores = model.stability(n_bootstrap=BOOTSTRAP).score
        found.seconds.append(time.perf_counter() - start)
        table = np.zeros((many, k))
        np.add.at(table, (model.labels_, whose), 1)
        pure = table.max(axis=1) / np.maximum(table.sum(axis=1), 1) > 0.95
        part = table.max(axis=1) / table.sum(axis=0)[table.argmax(axis=1)]
        found.whole.extend(scores[pure & (part > 0.95)])
        found.parts.extend(scores[pure & (part < 0.6)])
        others += int((~pure | ((part >= 0.6) & (part <= 0.95))).sum())
    return Scores(found.whole, found.parts, others, found.seconds)


def score_lines() -> Iterator[str]:
    """The table of scores."""
    yield (
        "| shape | sizes | d | k | whole clusters | least score | above 0.85 | parts "
        "| largest score | below 0.6 | neither | seconds |"
    )
    yield "|---|---|" + "---:|" * 10
    for shape, sizes, d, k in product(SHAPES, SIZES, COLUMNS, CLUSTERS):
        found = measured(shape, d, k, sizes)
        whole, parts = np.array(found.whole), np.array(found.parts)
        cells = [
            shape, sizes, d, k,
            len(whole), f"{whole.min(initial=1.0):.2f}", f"{np.mean(whole > STABLE):.0%}",
            len(parts), f"{parts.max(initial=0.0):.2f}",
            f"{np.mean(parts < DOUBTFUL):.0%}" if len(parts) else "", found.others,
            f"{np.median(found.seconds):.1f}",
        ]  # fmt: skip
        yield f"| {' | '.join(map(str, cells))} |"


def _moon(rng: Rng, n: int, d: int, turn: float) -> Array:
    angles, rows = rng.uniform(0.0, turn, n), 0.1 * rng.normal(size=(n, d))
    rows[:, 0] += np.cos(angles)
    rows[:, 1] += np.sin(angles)
    return rows


ONE_CLUSTER: dict[str, Callable[[Rng, int, int], Array]] = {
    "Gaussian": lambda rng, n, d: rng.normal(size=(n, d)),
    "Gaussian, 10 : 1": lambda rng, n, d: rng.normal(size=(n, d)) * np.r_[10.0, np.ones(d - 1)],
    "uniform": lambda rng, n, d: rng.uniform(size=(n, d)),
    "exponential": lambda rng, n, d: rng.exponential(size=(n, d)),
    "t with 3 degrees": lambda rng, n, d: (
        rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(3, (n, 1)) / 3.0)
    ),
    "moon": lambda rng, n, d: _moon(rng, n, d, np.pi),
    "ring": lambda rng, n, d: _moon(rng, n, d, 2.0 * np.pi),
}


def _neighbours(X: Array, k: int, init: object = "local-search") -> tuple[Neighbours, Array]:
    points = Points.of(X, None)
    found = solve(points, k, init=init, n_init=2, seed=0)  # type: ignore[arg-type]
    labels = points.rows.labels(found.centers)
    counts = np.ones(len(points), dtype=np.int64)
    return tell_apart(points.rows, points.weights, counts, found.centers, labels), labels


def alone(found: Neighbours) -> float:
    """The fraction of clusters that are told apart from all others."""
    groups = found.groups()
    return float(np.mean(np.bincount(groups)[groups] == 1))


def one_cluster_lines() -> Iterator[str]:
    """How often parts of one cluster are told apart from all other parts."""
    ks, draws = (2, 5, 20), (30, 100, 300)
    yield f"| one cluster, cut in k | {' | '.join(f'{each} draws per part' for each in draws)} |"
    yield "|---|" + "---:|" * len(draws)
    for name, rows in ONE_CLUSTER.items():
        cells = []
        for each in draws:
            parts = [
                alone(_neighbours(rows(np.random.default_rng(seed), each * k, d), k)[0])
                for d, k, seed in product(COLUMNS, ks, range(3))
            ]
            cells.append(f"{np.mean(parts):.1%}")
        yield f"| {name} | {' | '.join(cells)} |"


def two_cluster_lines() -> Iterator[str]:
    """How often Gaussians are told apart from all others."""
    distances = (4.0, 5.0, 6.0, 8.0)
    yield f"| Gaussians | {' | '.join(f'{each:g} σ' for each in distances)} |"
    yield "|---|" + "---:|" * len(distances)
    cases = {
        "2 of 30 draws": [30] * 2, "2 of 100": [100] * 2, "30 draws beside 30,000": [30, 30_000],
        "10 of 50": [50] * 10, "10 of 300": [300] * 10, "30 of 100": [100] * 30,
    }  # fmt: skip
    for name, sizes in cases.items():
        cells = []
        for distance in distances:
            told = list(_told(sizes, distance))
            cells.append(f"{np.mean(told):.0%}" if told else "not found")
        yield f"| {name} | {' | '.join(cells)} |"


def _told(sizes: list[int], distance: float) -> Iterator[float]:
    """Data sets of which k-means, from the true centers, keeps the clusters."""
    k, whose = len(sizes), np.repeat(np.arange(len(sizes)), sizes)
    for d, seed in product((2, 10, 100), range(4)):
        rng = np.random.default_rng(seed)
        centers = distance * _spread(k, d, rng)
        if k == 2:
            centers *= distance / np.linalg.norm(centers[1] - centers[0])
        found, labels = _neighbours(centers[whose] + rng.normal(size=(len(whose), d)), k, centers)
        kept = [np.mean(labels[whose == each] == each) for each in range(k)]
        pure = [np.mean(whose[labels == each] == each) for each in range(k)]
        if min(*kept, *pure) > 0.8:
            yield alone(found)


def lines() -> Iterator[str]:
    """The page."""
    yield "# Calibration of stability\n"
    yield f"{machine()}, by `python -m benchmarks.stability`.\n"
    yield (
        f"Scores of `model.stability(n_bootstrap={BOOTSTRAP})`, with the time that takes. "
        f"{ROWS:,} rows of k Gaussians, round or elongated 5 : 1, whose nearest centers are "
        f"{APART['equal']:g} standard deviations apart (sizes from 1 to 20: {APART['1 to 20']:g}), "
        f"are fitted with k clusters and with a quarter more. A cluster is whole with more than "
        "95 % of one Gaussian and little else, and a part with less than 60 % of one; “neither” "
        "counts the others, of which one with 65 % of a Gaussian scores about 0.65. Aim: whole "
        "clusters above 0.85, parts below 0.6.\n"
    )
    yield from score_lines()
    yield (
        "\nHow often a part of one cluster is told apart from all other parts, for "
        f"d = {', '.join(map(str, COLUMNS))} and k = 2, 5, 20. Aim: never.\n"
    )
    yield from one_cluster_lines()
    yield (
        "\nHow often a Gaussian is told apart from all others, by the distance of the nearest "
        "centers in standard deviations, for d = 2, 10, 100. Only data sets count of which k-means "
        "keeps the true clusters (none: “not found”). Aim: always from 6 σ on.\n"
    )
    yield from two_cluster_lines()


def main() -> None:
    """Print the page, or write it."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, help="file to write")
    path = parser.parse_args().markdown
    text = []
    for line in lines():
        print(line, file=sys.stderr if path else sys.stdout, flush=True)
        text.append(line)
    if path:
        path.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()

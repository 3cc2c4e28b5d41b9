"""`python -m benchmarks.families [--markdown FILE]`: data on which coresets fail.

Distortion of every method's coreset, and what the default estimator costs against the best
solution known, over the families of `benchmarks.hard_clusters`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lwcs
from benchmarks.hard_clusters import FAMILIES, distortion
from benchmarks.measure import machine
from lwcs import CoresetKMeans
from lwcs.passes import euclidean_cost
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points

ROWS, COLUMNS, CLUSTERS, DRAWS, SEEDS = 50_000, 50, (20, 100), 40, 10
METHODS = ("uniform", "lightweight", "refined", "sensitivity")
ESTIMATORS: dict[str, Callable[[int, int], CoresetKMeans]] = {
    "CoresetKMeans(k)": lambda k, seed: CoresetKMeans(k, random_state=seed),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: a figure over all seeds, the time, and how many seeds had a warning."""

    family: str
    k: int
    what: str
    figures: list[float]
    seconds: list[float]
    warned: int

    def __str__(self) -> str:
        median, worst = (
            f"{x:.3f}" if x < 100.0 else f"{x:.1e}"
            for x in (np.median(self.figures), np.max(self.figures))
        )
        took = f"{1000 * np.median(self.seconds):,.0f} ms"
        cells = (self.family, self.k, self.what, median, worst, took, self.warned)
        return f"| {' | '.join(map(str, cells))} |"


def distortions(family: str, k: int) -> Iterator[Line]:
    """Distortion of the coresets of every method, m = 40k."""

    def measure(X: np.ndarray, seed: int, method: str) -> tuple[float, float]:
        start = time.perf_counter()
        coreset = lwcs.build(X, DRAWS * k, method=method, n_clusters=k, random_state=seed)
        took = time.perf_counter() - start
        return distortion(lwcs.scan(X), coreset, k, seed), took

    yield from _lines(family, k, METHODS, measure)


def estimators(family: str, k: int) -> Iterator[Line]:
    """Cost of the centers of every estimator over the best known."""

    def measure(X: np.ndarray, seed: int, name: str) -> tuple[float, float]:
        start = time.perf_counter()
        centers = ESTIMATORS[name](k, seed).fit(X).cluster_centers_
        took = time.perf_counter() - start
        best = best_known(X, FAMILIES[family].centers(ROWS, COLUMNS, k, seed), centers)
        return euclidean_cost(lwcs.scan(X), centers) / best, took

    yield from _lines(family, k, tuple(ESTIMATORS), measure)


def best_known(X: np.ndarray, *starts: np.ndarray) -> float:
    """The lowest cost that Lloyd reaches on all rows from some centers."""
    points = Points.of(X, None)
    return min(solve(points, len(start), init=start).cost for start in starts)


def _lines(
    family: str,
    k: int,
    names: tuple[str, ...],
    measure: Callable[[np.ndarray, int, str], tuple[float, float]],
) -> Iterator[Line]:
    figures, seconds = ({name: list[float]() for name in names} for _ in range(2))
    warned = dict.fromkeys(names, 0)
    for seed in range(SEEDS):
        X = FAMILIES[family](ROWS, COLUMNS, k, seed)
        for name in names:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                figure, took = measure(X, seed, name)
            warned[name] += bool(caught)
            figures[name].append(figure)
            seconds[name].append(took)
    for name in names:
        yield Line(family, k, name, figures[name], seconds[name], warned[name])


TABLES = {
    "distortion": (
        f"Distortion of a coreset with m = {DRAWS}k draws: max(φ_C(Q)/φ_X(Q), φ_X(Q)/φ_C(Q)) at "
        "centers Q that solve k-means on it (the best of three starts with local search). Aim: "
        "≤ 1.15 for `refined`, or a warning.",
        "| family | k | method | median | worst | build | seeds with a warning |",
        distortions,
    ),
    "cost": (
        "Cost on all rows over the best known one (Lloyd on all rows, from the places that the "
        "rows were made around or from the answer itself). Aim: ≤ 1.05.",
        "| family | k | estimator | median | worst | fit | seeds with a warning |",
        estimators,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"no table {', '.join(unknown)}; there are {', '.join(TABLES)}")
    lwcs.build(FAMILIES["halving"](ROWS, COLUMNS, 2, 0), 10, method="refined", n_clusters=100)
    text = [
        f"Measured {machine()}, by `python -m benchmarks.families`. {ROWS:,} × {COLUMNS} rows, "
        f"{SEEDS} seeds, each of them of the data and of the draws.",
    ]
    print(text[0])
    for name in options.tables or TABLES:
        title, headings, lines = TABLES[name]
        text += ["", title, "", headings, "|---|---:|---|---:|---:|---:|---:|"]
        print(*text[-5:], sep="\n")
        for family in FAMILIES:
            for k in CLUSTERS:
                for line in lines(family, k):
                    text.append(str(line))
                    print(line, flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join([*text, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

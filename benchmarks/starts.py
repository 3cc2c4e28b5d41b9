"""`python -m benchmarks.starts [--markdown FILE]`: how much a further start gains on a coreset.

Ways to start Lloyd's algorithm, and to go on after it, on one coreset of each cell and seed: the
error of the centers on all rows against the best solution known, their error on the coreset
against the best of all ways, which is free of what the sample costs, and the time on the coreset.
All ways of a seed solve the same coreset, one after the other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import lwcs
from benchmarks.cells import BestKnown, read
from benchmarks.measure import machine
from lwcs.geometry import Centers, Geometry
from lwcs.passes import full_cost
from lwcs.runtime.parallel import single_threaded_blas
from lwcs.runtime.randomness import Stage, generator
from lwcs.solvers.lloyd import Clustering, lloyd
from lwcs.solvers.local_search import local_search
from lwcs.solvers.points import FLOAT32_DOWN_TO, Points, draw_points
from lwcs.solvers.seeding import start

SEEDS, TOL, MAX_ITER = 8, 1e-4, 300
CELLS = (
    ("KDD", 10, 5_000),
    ("KDD", 100, 5_000),
    ("RNA", 20, 5_000),
    ("RNA", 200, 20_000),
    ("covtype", 20, 5_000),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Weighted points, the number of clusters, and the seed."""

    points: Points
    k: int
    seed: int

    def seeded(self, steps: int, attempt: int = 0) -> Centers:
        """Greedy k-means++, and some steps of local search."""
        rng = generator(self.seed, Stage.SEEDING, attempt)
        with single_threaded_blas():
            centers = start(self.points, self.k, "k-means++", rng)
            return local_search(self.points, centers, rng, steps) if steps else centers

    def lloyd(self, centers: Centers, max_iter: int = MAX_ITER) -> Clustering:
        """Lloyd's algorithm, as the estimator runs it."""
        return lloyd(self.points, centers, max_iter=max_iter, tol=TOL, n_jobs=None)


Way = Callable[[Problem], Centers]


def starts(n: int, steps: int = 0) -> Way:
    """The best of some starts, each with some steps of local search and Lloyd to convergence."""

    def solve(problem: Problem) -> Centers:
        found = [problem.lloyd(problem.seeded(steps, attempt)) for attempt in range(n)]
        return min(found, key=lambda each: each.cost).centers

    return solve


def given_up(n: int, kept: int, steps: int, iterations: int = 0) -> Way:
    """Several starts; only the cheapest after some iterations of Lloyd are solved."""

    def solve(problem: Problem) -> Centers:
        seeds = (problem.seeded(steps, attempt) for attempt in range(n))
        begun = [problem.lloyd(centers, iterations) for centers in seeds]
        begun.sort(key=lambda each: each.cost)
        solved = [problem.lloyd(each.centers) for each in begun[:kept]]
        return min(solved, key=lambda each: each.cost).centers

    return solve


def replaced(rounds: int, share: float, steps: int = 0) -> Way:
    """After Lloyd, centers whose loss costs least are drawn again by D², and Lloyd goes on."""

    def solve(problem: Problem) -> Centers:
        rng = generator(problem.seed, Stage.RESTART)
        best = problem.lloyd(problem.seeded(steps))
        for _ in range(rounds):
            found = problem.lloyd(moved(problem, best, max(1, round(share * problem.k)), rng))
            if found.cost < best.cost:
                best = found
        return best.centers

    return solve


def moved(problem: Problem, found: Clustering, r: int, rng: np.random.Generator) -> Centers:
    """Put the r centers whose loss costs least where points are that cost much."""
    rows, weights = problem.points.rows, problem.points.weights
    geometry, points = found.centers.geometry, found.centers.points.copy()
    squares = rows.all_distances(found.centers) ** 2
    own = np.arange(len(rows)), found.labels
    nearest = squares[own]
    squares[own] = np.inf
    losses = np.bincount(found.labels, weights * (squares.min(axis=1) - nearest), problem.k)
    lost = np.argsort(losses)[:r]
    squares[own], squares[:, lost] = nearest, np.inf
    closest = squares.min(axis=1)
    for center in lost:
        drawn = draw_points(np.cumsum(weights * closest), rng.random(1))
        points[center] = rows.full(drawn)[0]
        np.minimum(closest, rows.distances_to(Centers(points[[center]], geometry)), out=closest)
    return Centers(points, geometry)


WAYS: dict[str, Way] = {
    "one start": starts(1),
    "ten starts": starts(10),
    "25 steps of local search, one start": starts(1, 25),
    "100 steps, one start": starts(1, 100),
    "200 steps, one start": starts(1, 200),
    "25 steps, four starts": starts(4, 25),
    "100 steps, four starts": starts(4, 100),
    "a tenth of the centers drawn again, 5 times": replaced(5, 0.1),
    "one center drawn again, 10 times": replaced(10, 0.0),
    "25 steps, then one center drawn again, 10 times": replaced(10, 0.0, 25),
    "25 steps, eight starts, the best two by their seeds": given_up(8, 2, 25),
    "100 steps, eight starts, the best two by their seeds": given_up(8, 2, 100),
    "25 steps, eight starts, the best two after 3 iterations": given_up(8, 2, 25, 3),
    "25 steps, eight starts, the best one after 3 iterations": given_up(8, 1, 25, 3),
    "25 steps, four starts, the best one after 3 iterations": given_up(4, 1, 25, 3),
    "100 steps, eight starts, the best two after 3 iterations": given_up(8, 2, 100, 3),
    "100 steps, four starts, the best one after 3 iterations": given_up(4, 1, 100, 3),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Errors and times of one strategy over the seeds."""

    errors: np.ndarray
    """On all rows, against the best solution known."""
    excess: np.ndarray
    """On the coreset, against the best of all strategies."""
    seconds: np.ndarray


def points_of(rows: np.ndarray, weights: np.ndarray | None, cost: float) -> Points:
    """In float64 where a solution costs so little that the estimator would solve them so."""
    geometry = Geometry(kernel="native")
    points = Points.of(rows, weights, geometry)
    if cost >= FLOAT32_DOWN_TO * points.average * points.weights.sum():
        return points
    return Points.of(rows, weights, geometry.in_float64())


def measure(name: str, k: int, size: int, best: BestKnown) -> dict[str, Outcome] | None:
    """All strategies on one cell; None if its data is missing."""
    data = read(name)
    if data is None:
        return None
    source = lwcs.scan(data.rows)
    costs, own_costs, seconds = (np.empty((len(WAYS), SEEDS)) for _ in range(3))
    for seed in range(SEEDS):
        coreset = lwcs.build(source, size, random_state=seed)
        points = points_of(coreset.points, coreset.weights, best.cost(data.title, k))
        problem = Problem(points, k, seed)
        if not seed:
            WAYS["25 steps, four starts"](problem)  # compiles, and fills the caches
        for at, (called, way) in enumerate(WAYS.items()):
            begun = time.perf_counter()
            centers = way(problem)
            seconds[at, seed] = time.perf_counter() - begun
            costs[at, seed] = full_cost(source, centers)
            own_costs[at, seed] = points.weights @ points.rows.nearest(centers)[1]
            best.offer(data.title, k, float(costs[at, seed]), f"starts: {called}, seed {seed}")
    errors = costs / best.cost(data.title, k) - 1.0
    excess = own_costs / own_costs.min(axis=0) - 1.0
    return {called: Outcome(errors[at], excess[at], seconds[at]) for at, called in enumerate(WAYS)}


def table(
    outcomes: dict[str, dict[str, Outcome]], of: Callable[[Outcome], np.ndarray]
) -> list[str]:
    """One line per strategy, one column per cell: mean / worst error, and relative time."""
    lines = [f"| | {' | '.join(outcomes)} |", f"|---|{'---:|' * len(outcomes)}"]
    firsts = {cell: ways["one start"].seconds.mean() for cell, ways in outcomes.items()}
    times = " | ".join(f"{1e3 * seconds:.0f} ms" for seconds in firsts.values())
    lines.append(f"| one start takes | {times} |")
    for called in WAYS:
        own = {cell: ways[called] for cell, ways in outcomes.items()}
        texts = [
            f"{100 * of(each).mean():.1f} / {100 * of(each).max():.1f} % "
            f"({each.seconds.mean() / firsts[cell]:.1f} ×)"
            for cell, each in own.items()
        ]
        lines.append(f"| {called} | {' | '.join(texts)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=__doc__)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    options = parser.parse_args()
    best, outcomes = BestKnown(), {}
    for name, k, size in CELLS:
        measured = measure(name, k, size, best)
        if measured is not None:
            outcomes[f"{name}, k = {k}"] = measured
            print("\n".join(table(outcomes, lambda each: each.errors)), flush=True)
    lines = [
        f"Measured {machine()}, by `python -m benchmarks.starts`; {SEEDS} seeds, coresets of "
        f"{CELLS[0][2]:,} draws (RNA, k = 200: 20,000). Times are on the coreset, against one "
        "start.",
        "",
        "Error on all rows against the best solution known, mean / worst:",
        "",
        *table(outcomes, lambda each: each.errors),
        "",
        "Error on the coreset against the best of all ways, mean / worst:",
        "",
        *table(outcomes, lambda each: each.excess),
        "",
    ]
    if options.markdown:
        options.markdown.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

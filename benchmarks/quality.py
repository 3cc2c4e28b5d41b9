"""`make quality`: how good the default answer is, and whether its estimate of that is true.

Every cell is fitted with 20 seeds (LWCS_SEEDS for another number; variants for comparison with
fewer), and the cost on all rows is compared with the best solution known. The truth that
`sampling_error_` estimates is what the answer costs more than a Lloyd run on all rows that starts
from it. Fits go to docs/results/quality.jsonl (started again, it goes on where it was), tables to
docs/results/quality.md.

`python -m benchmarks.quality [--best | --draw | --again] [DATA …]`: `--best` looks for the best
solutions by ten runs on all rows each of scikit-learn and of ours; `--draw` writes the tables from
the fits that are there; `--again` measures all but the variant "before" again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import lwcs
from benchmarks import quality_tables
from benchmarks.cells import CELLS, BestKnown, Data, offer_paper, read
from benchmarks.paper import RESULTS
from benchmarks.starts import MAX_ITER, TOL, Problem, points_of
from lwcs import CoresetKMeans, kernels
from lwcs.geometry import Geometry
from lwcs.passes import euclidean_cost
from lwcs.solvers.lloyd import cluster

FITS = RESULTS / "quality.jsonl"
SEEDS = int(os.environ.get("LWCS_SEEDS", "20"))
RUNS = 10
# Lloyd runs on all rows take minutes if rows × columns × clusters is large: the true error is then
# known for the first seeds only.
TRUTH_SEEDS = ((2e8, 20), (2e9, 6), (np.inf, 2))
# Variants that are measured for comparison have fewer seeds.
FEWER_SEEDS = {"before": 8, "target 1 %": 8}

VARIANTS: dict[str, Callable[[int, int], CoresetKMeans]] = {
    "before": lambda k, seed: CoresetKMeans(
        k, coreset_size=100 * k, n_init=1, init="k-means++", tol=1e-4, random_state=seed
    ),
    "default": lambda k, seed: CoresetKMeans(k, random_state=seed),
    "target 1 %": lambda k, seed: CoresetKMeans(k, target_error=0.01, random_state=seed),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """One fit: its cost on all rows, its estimated error, and its true error if that is known."""

    data: str
    k: int
    variant: str
    seed: int
    cost: float
    seconds: float
    size: int
    estimate: float
    bound: float
    truth: float | None
    warned: bool

    @property
    def key(self) -> tuple[str, int, str, int]:
        """The key of a fit."""
        return self.data, self.k, self.variant, self.seed


def fits() -> list[Fit]:
    """Fits of earlier runs."""
    if not FITS.exists():
        return []
    return [Fit(**json.loads(line)) for line in FITS.read_text("utf-8").splitlines()]


def cells(names: list[str]) -> Iterator[tuple[str, Data, int]]:
    """Every cell whose data exists."""
    for name in names:
        data = read(name)
        if data is not None:
            for k in CELLS[name]:
                yield name, data, k


def run(names: list[str]) -> None:
    """Measure the fits that are missing."""
    done, best = {fit.key for fit in fits()}, BestKnown()
    for _, data, k in cells(names):
        work = data.rows.size * k
        with_truth = next(seeds for limit, seeds in TRUTH_SEEDS if work <= limit)
        missing = [
            (variant, seed)
            for seed in range(SEEDS)
            for variant in VARIANTS
            if seed < FEWER_SEEDS.get(variant, SEEDS) and (data.title, k, variant, seed) not in done
        ]
        if missing:
            with warnings.catch_warnings(action="ignore"):
                VARIANTS["default"](k, SEEDS).fit(data.rows)  # compiles, and fills the caches
        for variant, seed in missing:
            truth = seed < with_truth and variant != "before"
            found = measure(data, k, variant, seed, best, with_truth=truth)
            with FITS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        print(f"{data.title}, k = {k}: {len(missing)} fits", flush=True)


def measure(
    data: Data, k: int, variant: str, seed: int, best: BestKnown, *, with_truth: bool
) -> Fit:
    """Fit once; a better solution than the best one known is kept."""
    model = VARIANTS[variant](k, seed)
    with warnings.catch_warnings(record=True, action="always") as caught:
        start = time.perf_counter()
        model.fit(data.rows)
        seconds = time.perf_counter() - start
    cost = euclidean_cost(lwcs.scan(data.rows), model.cluster_centers_)
    best.offer(data.title, k, cost, f"quality: {variant}, seed {seed}")
    truth = None
    if with_truth:
        least = polished_cost(data.rows, k, model.cluster_centers_)
        best.offer(data.title, k, least, f"quality: Lloyd from {variant}, seed {seed}")
        truth = cost / least - 1.0
    return Fit(
        data.title,
        k,
        variant,
        seed,
        cost,
        seconds,
        model.coreset_.size,
        float(model.sampling_error_),
        float(model.sampling_error_bound_),
        truth,
        any(issubclass(each.category, ConvergenceWarning) for each in caught),
    )


def polished_cost(rows: np.ndarray, k: int, centers: np.ndarray) -> float:
    """The cost of a Lloyd run on all rows that starts from some centers."""
    geometry = Geometry(kernel=kernels.choose(rows.size))
    ones = np.ones(len(rows))
    found = cluster(rows, ones, geometry, k, init=centers, tol=TOL, max_iter=MAX_ITER)
    return euclidean_cost(lwcs.scan(rows), geometry.to_data(found.centers))


def look_for_best(names: list[str]) -> None:
    """Ten runs each of scikit-learn and of ours on all rows, minus those that were made before."""
    best = BestKnown()
    for name, data, k in cells(names):
        source = lwcs.scan(data.rows)
        if best.get(data.title, k) is None:
            offer_paper(best, name, data.title, k)
        known = best.get(data.title, k)
        for seed in range(known.sklearn_runs if known else 0, RUNS):
            centers = KMeans(k, n_init=1, random_state=seed).fit(data.rows).cluster_centers_
            cost = euclidean_cost(source, centers)
            best.offer(data.title, k, cost, f"KMeans(n_init=1), seed {seed}", sklearn=1)
        points = points_of(data.rows, None, best.cost(data.title, k))
        known = best.get(data.title, k)
        for seed in range(known.our_runs if known else 0, RUNS):
            problem = Problem(points, k, seed)
            found = problem.lloyd(problem.seeded(100))
            cost = euclidean_cost(source, found.centers.geometry.to_data(found.centers))
            best.offer(data.title, k, cost, f"all rows, 100 swaps, seed {seed}", ours=1)
        print(best.get(data.title, k), flush=True)


def forget() -> None:
    """Drop the fits of all variants but "before"."""
    kept = [json.dumps(asdict(fit)) + "\n" for fit in fits() if fit.variant == "before"]
    FITS.write_text("".join(kept), encoding="utf-8")


def write() -> None:
    """The tables of all fits so far."""
    order = {title: at for at, title in enumerate(dict.fromkeys(fit.data for fit in fits()))}
    known = sorted(fits(), key=lambda fit: (order[fit.data], fit.k))
    grouped = {cell: list(own) for cell, own in groupby(known, key=lambda fit: (fit.data, fit.k))}
    text = quality_tables.page(grouped, BestKnown(), TRUTH_SEEDS)
    (RESULTS / "quality.md").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality")
    parser.add_argument("data", nargs="*", help=f"of {', '.join(CELLS)}; all by default")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--best", action="store_true", help="look for the best solutions")
    how.add_argument("--draw", action="store_true", help="write the tables alone")
    how.add_argument("--again", action="store_true", help="measure all but 'before' again")
    options = parser.parse_args()
    if unknown := set(options.data) - set(CELLS):
        parser.error(f"no data {', '.join(unknown)}; there are {', '.join(CELLS)}")
    names = options.data or list(CELLS)
    if options.best:
        look_for_best(names)
    elif not options.draw:
        if options.again:
            forget()
        run(names)
    write()


if __name__ == "__main__":
    main()

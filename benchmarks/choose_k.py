"""`python -m benchmarks.choose_k [--markdown FILE]`: how often `choose_k` finds the true k.

Rates on mixtures of separated Gaussians and on noise; what the whole takes against its solves, and
against a fit from scratch for every k; and what the solutions cost against such fits.
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
from tests.evaluation.mixtures import separated

import lwcs
from benchmarks.cells import read
from benchmarks.measure import machine

ROWS, RUNS, TARGET = 20_000, 100, 0.95
COLUMNS = (2, 10, 50)
# True numbers of clusters, numbers that are tried, and draws for the largest of them.
CLUSTERS = {3: (range(2, 9), 3_000), 10: (range(6, 15), 4_000), 30: (range(28, 34), 6_000)}
RATIOS = {"equal": 1.0, "unequal, 20 : 1": 20.0}
NOISE: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, columns: rng.uniform(size=(ROWS, columns)),
    "one Gaussian": lambda rng, columns: rng.normal(size=(ROWS, columns)),
}
TIMED = range(2, 51)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often k was right, over some runs."""

    what: str
    columns: int
    found: list[int | None]
    truth: int | None
    seconds: float

    def __str__(self) -> str:
        right = np.mean([k == self.truth for k in self.found])
        wrong = sorted({str(k) for k in self.found if k != self.truth})
        cells = (
            self.what, self.columns, len(self.found), f"{100.0 * right:.0f} %",
            ", ".join(wrong) or "–", f"{self.seconds:.2f} s", "yes" if right >= TARGET else "NO",
        )  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |"


def choose(X: np.ndarray, ks: range, size: int, seed: int) -> lwcs.KChoice:
    return lwcs.choose_k(X, ks, size=size, random_state=seed, n_jobs=1)


def rates(runs: int) -> Iterator[Rate]:
    """Separated mixtures, very unequal ones among them, and noise."""
    for k, (ks, size) in CLUSTERS.items():
        for sizes, ratio in RATIOS.items():
            for columns in COLUMNS:
                # The runs of a cell are shared by the columns: a third of them each.
                seeds = range(-(-runs // len(COLUMNS)))
                rows = (separated(ROWS, columns, k, seed, ratio=ratio) for seed in seeds)
                yield _rate(f"k = {k}, {sizes}", columns, rows, k, ks, size)
    far = (separated(50_000, 2, 3, seed, apart=60.0, ratio=1_000.0) for seed in range(runs))
    yield _rate("k = 3, 1,000 : 1, 60 σ apart", 2, far, 3, CLUSTERS[3][0], 20_000)
    for name, noise in NOISE.items():
        for columns in (2, 5, 20) if name == "uniform" else (2, 10):
            rows = (noise(np.random.default_rng(seed), columns) for seed in range(runs))
            yield _rate(name, columns, rows, None, range(2, 8), 2_000)


def _rate(
    what: str, columns: int, rows: Iterator[np.ndarray], truth: int | None, ks: range, size: int
) -> Rate:
    found, seconds = [], 0.0
    for seed, X in enumerate(rows):
        start = time.perf_counter()
        found.append(choose(X, ks, size, seed).k)
        seconds += time.perf_counter() - start
    return Rate(what, columns, found, truth, seconds / len(found))


def speeds() -> Iterator[str]:
    """The whole against its solves, and against fits from scratch of the same draws."""
    data = {
        f"{k} Gaussians in {columns} dimensions": separated(5 * ROWS, columns, k, 0, ratio=10.0)
        for k, columns in ((12, 2), (12, 50), (30, 10))
    }
    known = read("KDD")
    if known is not None:
        data["KDD, 74 columns"] = known.rows
    for name, X in data.items():
        start = time.perf_counter()
        choice = lwcs.choose_k(X, TIMED, random_state=0, n_jobs=1)
        whole = time.perf_counter() - start
        path = choice.timings["k-means"]["seconds"]
        start = time.perf_counter()
        fresh = [
            lwcs.CoresetKMeans(k, random_state=0, n_jobs=1).fit(choice.coreset).inertia_
            for k in TIMED
        ]
        scratch = time.perf_counter() - start
        ratios = np.array([choice.model(k).inertia_ for k in TIMED]) / fresh
        yield (
            f"| {name} | {choice.k} | {whole:.1f} s | {path:.1f} s | {whole / path:.2f} | "
            f"{scratch:.1f} s | {whole / scratch:.2f} | {100 * (ratios.mean() - 1):+.2f} % | "
            f"{100 * (ratios.max() - 1):+.2f} % |"
        )


def page(runs: int) -> Iterator[str]:
    yield from ("# How often choose_k is right", "")
    # Without the date.
    yield f"Measured on {machine().partition(', ')[2]}, by `python -m benchmarks.choose_k`."
    yield ""
    yield (
        f"How often `choose_k` recommends the true number of clusters. {ROWS:,} rows of spherical "
        "Gaussians that are at least 8 σ apart, sizes equal or in geometric progression; for noise "
        "the truth is that there is no structure (None). Every run has a seed of its own for data "
        f"and draws; target {100 * TARGET:.0f} %. Tried: "
        + "; ".join(
            f"k = {k}: {ks[0]} to {ks[-1]} with {size:,} draws"
            for k, (ks, size) in CLUSTERS.items()
        )
        + "; noise: 2 to 7 with 2,000 draws; 1,000 : 1: 50,000 rows, 20,000 draws."
    )
    yield ""
    yield "| data | columns | runs | right | found instead | time per run | reached |"
    yield "|---|---:|---:|---:|---|---:|---|"
    yield from map(str, rates(runs))
    yield ""
    yield (
        "Clusters of 1,000 : 1 have to be further apart: with the center of a small cluster, "
        "k-means gains its share times its squared distance, and by cutting a large one 2/π·σ² "
        "times that one's share. At 8 σ it prefers the cut from a ratio of about 100 on."
    )
    yield ""
    yield (
        f"Time for k = {TIMED[0]} to {TIMED[-1]} on one core, of all that `choose_k` does (build, "
        "solves, prices, indices, separation, bootstrap) against its solves alone, target ≤ 1.5, "
        "and against `CoresetKMeans(k).fit` of the same draws for every k; and the costs of its "
        "solutions on these draws over those of the fits, mean and worst, target ≤ +0.5 % on "
        "average."
    )
    yield ""
    yield (
        "| data | k found | choose_k | its solves | ratio | fits | ratio | cost, mean | cost, "
        "worst |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    yield from speeds()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.choose_k", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of a cell")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page there too")
    options = parser.parse_args()
    lines = []
    with warnings.catch_warnings(action="ignore"):
        for line in page(options.runs):
            lines.append(line)
            print(line, flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

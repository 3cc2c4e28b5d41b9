"""`make calibrate`: how large a lightweight coreset has to be, measured; see `calibrated_size`.

Errors of solutions on coresets against solutions on all rows, over data sets that differ in
tails, clusters and dimensions, over k and over m. The rows go to docs/results/calibration.parquet
(started again, it goes on where it was), the fit and its table to docs/results/calibration.md.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from pathlib import Path

import numpy as np

import lwcs
from benchmarks.measure import machine
from lwcs.comparing.result import Cell

RESULTS = Path("docs/results")
ROWS, CLUSTERS, DRAWS, SEEDS = 40_000, (10, 50, 200), (10, 20, 50, 100, 200), 10
COVERED = 0.9

Make = Callable[[np.random.Generator], np.ndarray]


def blobs(d: int, spread: float) -> Make:
    """Sixty clusters of one size, `spread` apart on average."""
    return lambda rng: (
        rng.normal(size=(ROWS, d)) + spread * rng.normal(size=(60, d))[rng.integers(60, size=ROWS)]
    )


def uneven(d: int) -> Make:
    """Clusters whose sizes fall like 1/rank, with Student-t tails of 2.5 degrees of freedom."""

    def make(rng: np.random.Generator) -> np.ndarray:
        shares = 1.0 / np.arange(1, 101)
        own = rng.choice(100, size=ROWS, p=shares / shares.sum())
        tail = np.sqrt(2.5 / rng.chisquare(2.5, size=(ROWS, 1)))
        return rng.normal(size=(ROWS, d)) * tail + 8.0 * rng.normal(size=(100, d))[own]

    return make


DATA: dict[str, Make] = {
    "blobs, d = 2": blobs(2, 5.0),
    "blobs, d = 16": blobs(16, 2.0),
    "Gaussian, d = 32": lambda rng: rng.normal(size=(ROWS, 32)),
    "cube, d = 4": lambda rng: rng.random((ROWS, 4)),
    "lognormal, d = 8": lambda rng: rng.lognormal(sigma=1.0, size=(ROWS, 8)),
    "uneven, d = 8": uneven(8),
    "uneven, d = 64": uneven(64),
}


def run() -> list[Cell]:
    """All cells of the experiment."""
    cells = []
    for name, make in DATA.items():
        X = make(np.random.default_rng(0)).astype(np.float32)
        for k in CLUSTERS:
            result = lwcs.compare(
                X,
                k,
                sizes=[k * draws for draws in DRAWS],
                methods=("full", "lightweight"),
                polish=(0,),
                repeats=SEEDS,
                full_repeats=SEEDS,
                name=name,
                path=RESULTS / "calibration" / f"{name.replace(', d = ', '-')}-{k}.parquet",
                progress=True,
            )
            cells += result.cells(name, k)
            print(name, k, flush=True)
    return cells


def measured(cells: list[Cell]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws per cluster, mean error and experiment of cells whose error is larger than chance."""
    kept = [
        cell for cell in cells if cell.key.method == "lightweight" and cell.error > cell.interval
    ]
    experiments = sorted({(cell.key.data, cell.key.n_clusters) for cell in kept})
    return (
        np.array([cell.key.size / cell.key.n_clusters for cell in kept]),
        np.array([cell.error for cell in kept]),
        np.array([experiments.index((cell.key.data, cell.key.n_clusters)) for cell in kept]),
    )


def fit(cells: list[Cell]) -> tuple[float, float]:
    """A and p of error = (A·k/m)^p: one p for all cells, and an A that holds for 90 % of them."""
    draws, errors, experiment = measured(cells)
    x, y = np.log(draws), np.log(errors)
    for group in range(experiment.max() + 1):
        own = experiment == group
        x[own] -= x[own].mean()
        y[own] -= y[own].mean()
    power = round(-float(x @ y / (x @ x)), 3)
    at = np.quantile(draws * errors ** (1.0 / power), COVERED, method="higher")
    return ceil(100.0 * float(at)) / 100.0, power


def report(cells: list[Cell]) -> str:
    """The fit, and every cell."""
    at, power = fit(cells)
    lines = [
        f"Measured {machine()}, by `make calibrate`. {ROWS:,} rows a data set, {SEEDS} seeds.",
        "",
        f"**error = ({at}·k/m)^{power}**, at most, in nine of ten cells; so for an error of 10 % "
        f"{at * 0.1 ** (-1 / power):.0f} draws a cluster, for 5 % {at * 0.05 ** (-1 / power):.0f}.",
        "",
        f"| data | k | {' | '.join(f'm = {draws}k' for draws in DRAWS)} |",
        f"|---|---:|{'---:|' * len(DRAWS)}",
    ]
    for name in DATA:
        for k in CLUSTERS:
            own = [
                f"{100 * cell.error:.1f} % ± {100 * cell.interval:.1f}"
                for cell in cells
                if (cell.key.data, cell.key.n_clusters, cell.key.method) == (name, k, "lightweight")
            ]
            lines.append(f"| {name} | {k} | {' | '.join(own)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (RESULTS / "calibration").mkdir(parents=True, exist_ok=True)
    found = run()
    print("CALIBRATED_AT, CALIBRATED_POWER =", fit(found))
    (RESULTS / "calibration.md").write_text(report(found), encoding="utf-8")

"""`lwcs demo`: how accurate a coreset is, on generated data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.table import Table

import lwcs
from lwcs.cli import options
from lwcs.cli.terminal import Terminal
from lwcs.passes import euclidean_cost

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.arrays.types import DenseRows, FloatArray

COLUMNS, CLUSTERS = 16, 50


@click.command()
@options.with_default(
    "--rows", default=1_000_000, type=click.IntRange(10_000), help="Number of rows to generate."
)
@options.with_default(
    "--size", default=10_000, type=click.IntRange(100), help="Number of draws per coreset."
)
@options.with_default(
    "--repeats",
    default=10,
    type=click.IntRange(2),
    help="Number of coresets that errors are averaged over.",
)
@options.with_default("--seed", default=0, type=click.IntRange(0), help="First random seed.")
@options.log
def demo(rows: int, size: int, repeats: int, seed: int) -> None:
    """Show how accurate coresets of heavy-tailed data are.

    Compares the cost of several sets of centers on all rows with its estimate from coresets and
    from uniform samples.
    """
    console = Terminal()
    X, seconds = _timed(heavy_tailed, rows, seed)
    console.print(f"Data: {rows:,} × {COLUMNS}, heavy-tailed, generated in {seconds:.1f} s")
    source = lwcs.scan(X)
    seeds = range(seed, seed + repeats)
    coresets = [_timed(lwcs.build, source, size, random_state=s) for s in seeds]
    uniform = [lwcs.build(source, size, method="uniform", random_state=s) for s in seeds]
    console.print(
        f"Coreset: {size:,} draws ({100 * size / rows:.1f} % of the rows), "
        f"built in {1000 * min(seconds for _, seconds in coresets):.0f} ms"
    )
    table = Table(title="Cost of k centers on all rows, and as estimated by each summary")
    table.add_column("centers")
    for heading in ("cost, all rows", "time", "coreset", "time", "error", "uniform sample error"):
        table.add_column(heading, justify="right")
    # Loads the kernels, so that loading is not timed.
    euclidean_cost(source, X[:1].astype(np.float64))
    for name, centers in center_sets(X, seed):
        full, full_seconds = _timed(euclidean_cost, source, centers)
        estimates = [_timed(c.cost, centers) for c, _ in coresets]
        table.add_row(
            name,
            f"{full:.4g}",
            f"{1000 * full_seconds:,.0f} ms",
            f"{estimates[0][0]:.4g}",
            f"{1000 * min(seconds for _, seconds in estimates):.1f} ms",
            _error([cost for cost, _ in estimates], full),
            _error([c.cost(centers) for c in uniform], full),
        )
    console.show(table)
    console.print(
        f"Errors: root mean square over {repeats} coresets and {repeats} uniform samples of the "
        "same size. The centers were chosen independently of all of them."
    )


def _error(estimates: list[float], full: float) -> str:
    return f"{100 * np.sqrt(np.mean((np.array(estimates) / full - 1) ** 2)):.1f} %"


def heavy_tailed(rows: int, seed: int) -> DenseRows:
    """Generate clusters of very different sizes, Student-t with 2.2 degrees of freedom."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, CLUSTERS + 1)
    cluster = rng.choice(CLUSTERS, size=rows, p=shares / shares.sum())
    centers = rng.normal(scale=8.0, size=(CLUSTERS, COLUMNS)).astype(np.float32)
    tail = np.sqrt(2.2 / rng.chisquare(2.2, size=rows)).astype(np.float32)
    X = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
    X *= tail[:, None]
    X += centers[cluster]
    return X


def center_sets(X: DenseRows, seed: int) -> list[tuple[str, FloatArray]]:
    """Return random rows, and centers fitted on a coreset that is independent of both summaries."""
    rng = np.random.default_rng((seed, 1))
    # A separate seed: the same seed would draw many of the same rows.
    independent = lwcs.build(X, 5_000, random_state=rng)
    sets: list[tuple[str, FloatArray]] = []
    for k in (10, CLUSTERS):
        sets.append((f"{k} random rows", X[rng.choice(len(X), k)].astype(np.float64)))
        model = lwcs.CoresetKMeans(k, random_state=seed).fit(independent)
        sets.append((f"{k} good centers", model.cluster_centers_.astype(np.float64)))
    return sets


def _timed(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function(*args, **options)
    return result, time.perf_counter() - start

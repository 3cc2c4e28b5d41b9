"""`make statistical`: section 7 of the paper, drawn: summarise many rows, or take few of them.

P is Gaussian, but a row in 1/p has √(1/p) times the spread: half of the variance is in rows so
rare. Its kurtosis is known, and grows like 1/p. Two summaries of the same size m: m rows drawn
from P, and a lightweight coreset with m draws of N ≫ m rows drawn from P. Each is clustered,
and both are judged on rows drawn afresh, against the solution on all N rows.
`python -m benchmarks.statistical --draw` draws the figure again from the table of the last run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

import lwcs
from benchmarks.measure import machine
from lwcs.description.projection import BLACK, BLUE
from lwcs.passes import euclidean_cost
from lwcs.plotting.style import log_ticks, look, number_tick, save_figure, subplots
from lwcs.runtime.formatting import plain_percent

RESULTS = Path("docs/results")
D, K, M, N, FRESH, SEEDS = 5, 20, 1_000, 200_000, 1_000_000, 10
RARE = (1.0, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


def kurtosis(rare: float) -> float:
    """K(P) = (1 + 2/d)·(1 − p + 1/p)/(2 − p)²."""
    return (1.0 + 2.0 / D) * (1.0 - rare + 1.0 / rare) / (2.0 - rare) ** 2


def draw(rng: np.random.Generator, rows: int, rare: float) -> np.ndarray:
    X = rng.standard_normal((rows, D))
    X[rng.random(rows) < rare] *= np.sqrt(1.0 / rare)
    return X


def excesses(rare: float, seed: int) -> tuple[float, float]:
    """Expected cost of both summaries' solutions, relative to that of all N rows, minus 1."""
    rng = np.random.default_rng((seed, int(1e6 * rare)))
    sample, fresh = draw(rng, N, rare), lwcs.scan(draw(rng, FRESH, rare))
    model = lwcs.CoresetKMeans(K, coreset_size=M, random_state=seed)
    whole = lwcs.CoresetKMeans(K, coreset_size=N, compute_labels=False, random_state=seed)
    solutions = [
        whole.fit(sample).cluster_centers_,
        model.fit(draw(rng, M, rare)).cluster_centers_,
        model.fit(lwcs.build(sample, M, random_state=seed)).cluster_centers_,
    ]
    full, uniform, lightweight = (euclidean_cost(fresh, centers) for centers in solutions)
    return uniform / full - 1.0, lightweight / full - 1.0


def main() -> None:
    found = np.array([[excesses(rare, seed) for seed in range(SEEDS)] for rare in RARE])
    means = found.mean(axis=1)
    half = 2.262 * found.std(axis=1, ddof=1) / np.sqrt(SEEDS)  # Student's t, 9 degrees of freedom
    ks = [kurtosis(rare) for rare in RARE]
    lines = [
        f"Measured {machine()}, by `make statistical`. d = {D}, k = {K}, m = {M:,}, "
        f"N = {N:,}, {FRESH:,} fresh rows, {SEEDS} seeds, ± 95 % intervals.",
        "",
        "| rare, p | kurtosis K(P) | m rows of P | lightweight, m draws of N rows | ratio |",
        "|---:|---:|---:|---:|---:|",
    ]
    for rare, k, (uniform, light), (u, v) in zip(RARE, ks, means, half, strict=True):
        lines.append(
            f"| {rare:g} | {k:.1f} | {100 * uniform:.1f} % ± {100 * u:.1f} | "
            f"{100 * light:.1f} % ± {100 * v:.1f} | {uniform / light:.1f} |"
        )
    (RESULTS / "statistical.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(*lines, sep="\n")
    plot(ks, means, half)


def plot(ks: list[float], means: np.ndarray, half: np.ndarray) -> None:
    figure, axes = subplots(size=(6.0, 3.6))
    ax = axes[0, 0]
    with look():
        ax.set(xscale="log", yscale="log", xlabel="kurtosis K(P)")
        ax.set_ylabel("expected error on fresh rows")
        ax.set_title("The heavier the tail, the more a summary of many rows gains")
        for i, (label, colour, marker) in enumerate(
            (
                (f"{M:,} rows drawn from P", BLACK, "s"),
                (f"lightweight coreset of {N:,} rows, m = {M:,}", BLUE, "o"),
            )
        ):
            low, high = means[:, i] - half[:, i], means[:, i] + half[:, i]
            ax.vlines(ks, np.maximum(low, 1e-3), high, color=colour, alpha=0.45, linewidth=1.1)
            ax.plot(ks, means[:, i], color=colour, marker=marker, label=label)
        ax.set_ylim(0.004, None)
        log_ticks(ax.xaxis, number_tick)
        log_ticks(ax.yaxis, plain_percent)
        ax.legend(loc="lower left", title="mean and 95 % interval", alignment="left")
    for ending in ("svg", "png"):
        save_figure(figure, RESULTS / f"statistical.{ending}")


def drawn() -> tuple[list[float], np.ndarray, np.ndarray]:
    """The table of the last run, to be drawn again."""
    lines = (RESULTS / "statistical.md").read_text(encoding="utf-8").splitlines()
    rows = [re.findall(r"[\d.]+", line) for line in lines if re.match(r"\| [\d.]+ \|", line)]
    numbers = np.array([[float(each) for each in row] for row in rows])
    ks = [kurtosis(rare) for rare in numbers[:, 0]]
    return ks, numbers[:, [2, 4]] / 100.0, numbers[:, [3, 5]] / 100.0


if __name__ == "__main__":
    plot(*drawn()) if "--draw" in sys.argv else main()

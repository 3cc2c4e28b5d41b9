"""Splits and merges of clusters against swaps of centers: errors and processor time of a fit.

Both are fits of the default size on all rows; `init="local-search"` swaps centers for points. The
table goes to docs/results/splits.md: `LWCS_DATA=… python -m benchmarks.splits`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np

from benchmarks.cells import CELLS, BestKnown, read
from benchmarks.measure import machine
from benchmarks.paper import RESULTS
from lwcs import CoresetKMeans

SEEDS = 10
LARGEST_K = 200
INITS = {"swaps": "local-search", "splits and merges": "auto"}


def rows() -> Iterator[str]:
    """One line of the table per data set and number of clusters."""
    best = BestKnown()
    for name, ks in CELLS.items():
        data = read(name)
        if data is None:
            continue
        for k in (k for k in ks if k <= LARGEST_K):
            shown, medians = [], []
            for init in INITS.values():
                costs, seconds = [], []
                for seed in range(SEEDS):
                    start = time.process_time()
                    model = CoresetKMeans(k, init=init, random_state=seed).fit(data.rows)
                    seconds.append(time.process_time() - start)
                    costs.append(model.inertia_)
                errors = 100.0 * (np.array(costs) / best.cost(data.title, k) - 1.0)
                medians.append(float(np.median(seconds)))
                shown += [f"{errors.mean():.2f} % / {errors.max():.2f} %", f"{medians[-1]:.3f} s"]
            ratio = f"{medians[1] / medians[0]:.1f} ×"
            yield f"| {data.title} | {k} | {' | '.join(shown)} | {ratio} |"


def main() -> None:
    """Print the table, and write it."""
    names = " | ".join(f"{name} | time" for name in INITS)
    lines = [
        f"Measured {machine()}, by `python -m benchmarks.splits`; {SEEDS} seeds. Error on all rows "
        "above the best solution known, mean / worst, and the median processor time of a fit.",
        "",
        f"| data | k | {names} | time against swaps |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in rows():
            print(line, flush=True)
            lines.append(line)
    (RESULTS / "splits.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()

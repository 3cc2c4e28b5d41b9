"""`python -m benchmarks.methods [--markdown FILE]`: the right method, and whether it is chosen.

Errors and times of `method=` uniform, lightweight, refined and auto; what the diagnosis predicts of
the first three against what is measured; warnings of a wrong method, and how many of them are
false; and what the diagnosis costs. Real data comes from the folder in LWCS_DATA.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import lwcs
from benchmarks.cells import BestKnown, customers, read
from benchmarks.families import best_known
from benchmarks.hard_clusters import AT_THE_MEAN, FAMILIES
from benchmarks.measure import machine
from lwcs import CoresetKMeans
from lwcs.passes import euclidean_cost
from lwcs.sizing import fitting

METHODS = ("uniform", "lightweight", "refined")
SEEDS = 3
REAL = {"KDD": 100, "RNA": 200, "covtype": 100, "GloVe": 100}
ROWS, COLUMNS, CLUSTERS = 100_000, 20, 20
FAILING = FAMILIES | {"at the mean": AT_THE_MEAN}
# Other data, on which no method is wrong.
OTHERS = ("normal", "Student t", "customers")
# Draws per cluster where the size is given.
DRAWS = (10, 50)
POINT, PART, FALSE, SHARE = 0.01, 0.1, 0.05, 0.1
HEADINGS = (
    "| data | k | draws | measured | predicted by uniform | by lightweight | by refined | warned |"
)
WRONG = "not right for this data"
# Difference of the times of one fit between runs.
NOISE = 0.1
# Data, clusters and seeds that no threshold was set by.
UNSEEN_REAL, UNSEEN_CLUSTERS, UNSEEN_SEED = (
    {"KDD": 30, "RNA": 50, "covtype": 20, "GloVe": 20},
    40,
    100,
)


@dataclass(frozen=True)
class Cell:
    """Rows, a number of clusters, and the best cost known."""

    name: str
    rows: np.ndarray
    k: int
    best: float

    @cached_property
    def source(self) -> lwcs.Source:
        """The rows, on which centers are evaluated."""
        return lwcs.scan(self.rows)


@dataclass(frozen=True, slots=True)
class Fit:
    """One fit: its error, its time and its warnings."""

    error: float
    seconds: float
    diagnosing: float
    model: CoresetKMeans
    warned: list[str]


def real() -> Iterator[Cell]:
    """The data sets whose files exist."""
    best = BestKnown()
    for name, k in REAL.items():
        data = read(name)
        if data is not None:
            yield Cell(data.title, data.rows, k, best.cost(data.title, k))


def failing() -> Iterator[Cell]:
    """Families on which lightweight or uniform draws fail."""
    for name, family in FAILING.items():
        X = family(ROWS, COLUMNS, CLUSTERS, 0)
        places = family.centers(ROWS, COLUMNS, CLUSTERS, 0)
        yield Cell(name, X, CLUSTERS, best_known(X, places))


def others() -> Iterator[Cell]:
    """Data on which no method is wrong; errors are over the best of all fits."""
    rng = np.random.default_rng(0)
    yield Cell(OTHERS[0], rng.normal(size=(ROWS, 8)), 20, np.nan)
    yield Cell(OTHERS[1], rng.standard_t(4, size=(ROWS, 6)), 20, np.nan)
    yield Cell(OTHERS[2], customers(), 4, np.nan)


def unseen() -> Iterator[Cell]:
    """Data, clusters and seeds that no threshold was set by; errors are over the best of all."""
    for name, k in UNSEEN_REAL.items():
        data = read(name)
        if data is not None:
            yield Cell(data.title, data.rows, k, np.nan)
    for name, family in FAILING.items():
        rows = family(ROWS, COLUMNS // 2, UNSEEN_CLUSTERS, UNSEEN_SEED)
        yield Cell(name, rows, UNSEEN_CLUSTERS, np.nan)
    rng = np.random.default_rng(UNSEEN_SEED)
    yield Cell("log-normal", rng.lognormal(size=(ROWS, 5)), 20, np.nan)
    yield Cell("uniform cube", rng.random((ROWS, 6)), 30, np.nan)
    blobs = rng.normal(size=(ROWS, 10)) + 8.0 * rng.normal(size=(15, 10))[rng.integers(0, 15, ROWS)]
    yield Cell("15 blobs", blobs, 15, np.nan)


def fit(cell: Cell, method: str, seed: int, **options: object) -> Fit:
    """Fit once, and evaluate the centers on all rows."""
    spent, plain = [0.0], fitting.diagnose

    def timed(*arguments: object) -> object:
        start = time.perf_counter()
        found = plain(*arguments)  # type: ignore[arg-type]
        spent[0] += time.perf_counter() - start
        return found

    model = CoresetKMeans(cell.k, method=method, random_state=seed, **options)  # type: ignore[arg-type]
    fitting.diagnose = timed  # type: ignore[assignment]
    try:
        with warnings.catch_warnings(record=True, action="always") as caught:
            start = time.perf_counter()
            model.fit(cell.rows)
            seconds = time.perf_counter() - start
    finally:
        fitting.diagnose = plain
    cost = euclidean_cost(cell.source, model.cluster_centers_)
    said = [str(each.message) for each in caught]
    return Fit(cost / cell.best - 1.0, seconds, spent[0], model, said)


def chosen_sizes(cell: Cell, *, labels: bool, shares: list[float]) -> Iterator[str]:
    """Lines of a table: every method with the sizes of the target."""
    found: dict[str, list[Fit]] = {name: [] for name in (*METHODS, "auto")}
    fit(cell, "auto", SEEDS, compute_labels=labels)  # compiles, and fills the caches
    for seed in range(SEEDS):
        for method, own in found.items():
            own.append(fit(cell, method, seed, compute_labels=labels))
    means = {method: float(np.mean([each.error for each in own])) for method, own in found.items()}
    times = {
        method: float(np.median([each.seconds for each in own])) for method, own in found.items()
    }
    in_time = [m for m in METHODS if times[m] <= (1.0 + NOISE) * times["auto"]]
    for method, own in found.items():
        worst = max(each.error for each in own)
        shares += [each.diagnosing / each.seconds for each in own]
        used = ", ".join(dict.fromkeys(each.model.coreset_.method for each in own))
        size = f"{np.median([each.model.coreset_.size for each in own]):,.0f}"
        warned, verdicts = sum(bool(each.warned) for each in own), ("", "")
        if method == "auto":
            verdicts = tuple(
                "yes" if warned == len(own) or _near(means, others) else "NO"
                for others in (in_time, METHODS)
            )
        error = f"{percent(means[method])} / {percent(worst)}"
        took = f"{times[method]:.2f} s"
        yield _row(cell.name, cell.k, method, used, size, error, took, warned, *verdicts)


def _near(means: dict[str, float], others: Sequence[str]) -> bool:
    """Whether the error of "auto" is about that of the best of some methods, or less."""
    least = min((means[method] for method in others), default=np.inf)
    return means["auto"] <= max(least + POINT, (1.0 + PART) * least)


@dataclass(slots=True)
class Tally:
    """Warnings of a wrong method over fits with a given size."""

    fits: int = 0
    warned: int = 0
    false: int = 0
    wrong: int = 0
    """Fits where another method has half of the error, and three points less."""
    told: int = 0
    """Those of them that any warning was given for."""
    right: int = 0
    """The other fits, where no method is wrong."""
    alarms: int = 0
    """Those of them that were warned of a wrong method."""

    def add(self, fitted: Fit, error: float, others: dict[str, float]) -> bool:
        """Count a fit by its error and the mean errors of all methods; say if it was warned."""
        least = min(others.values())
        warned = any(WRONG in each for each in fitted.warned)
        self.fits += 1
        if error > max(2.0 * least, least + 3.0 * POINT):
            self.wrong += 1
            self.told += bool(fitted.warned)
        else:
            self.right += 1
            self.alarms += warned
        if warned:
            self.warned += 1
            named = fitted.model.diagnosis_.better()
            self.false += named is None or error - others[named] < POINT
        return warned

    def __str__(self) -> str:
        of_right, of_warnings = self.alarms / max(self.right, 1), self.false / max(self.warned, 1)
        return (
            f"{self.fits} fits, {self.warned} warnings that the method is wrong. Of the "
            f"{self.right} fits where the method is not wrong, that is, where no other has half of "
            f"the error and three points less, {self.alarms} were warned of: {percent(of_right)}; "
            f"aim ≤ {percent(FALSE)}: {_verdict(of_right)}. Of all warnings, {self.false} name a "
            "method that is not better by a point with as many draws: "
            f"{percent(of_warnings)}; aim ≤ {percent(FALSE)}: {_verdict(of_warnings)}. "
            f"Of {self.wrong} fits where another method has half of the error and three points "
            f"less, {self.told} had a warning, of this or of missed clusters."
        )


def _verdict(part: float) -> str:
    return "yes" if part <= FALSE else "NO"


def given_sizes(cell: Cell, tally: Tally, first_seed: int = 0) -> Iterator[str]:
    """Lines of a table: measured and predicted errors, and warnings."""
    seeds = range(first_seed, first_seed + SEEDS)
    for each in DRAWS:
        size = each * cell.k
        options = {"coreset_size": size, "init": "local-search"}
        found = {m: [fit(cell, m, seed, **options) for seed in seeds] for m in METHODS}
        options["compute_labels"] = False
        quiet = {m: [fit(cell, m, seed, **options) for seed in seeds] for m in METHODS}
        costs = {m: [one.model.inertia_ for one in own] for m, own in found.items()}
        best = cell.best if cell.best > 0.0 else min(map(min, costs.values()))
        means = {m: float(np.mean(own)) / best - 1.0 for m, own in costs.items()}
        warned = 0
        for method in METHODS:
            for at, cost in enumerate(costs[method]):
                for one in (found[method][at], quiet[method][at]):
                    warned += tally.add(one, cost / best - 1.0, means)
        measured = [
            percent(np.mean([one.model.sampling_error_ for one in own])) for own in found.values()
        ]
        predicted = [
            " / ".join(
                percent(np.mean([one.model.diagnosis_.errors.get(m, np.nan) for one in own]))
                for m in METHODS
            )
            for own in found.values()
        ]
        yield _row(cell.name, cell.k, f"{size:,}", " / ".join(measured), *predicted, warned)


def percent(part: float) -> str:
    """A fraction as a percentage."""
    return f"{100.0 * part:.1f} %" if abs(part) < 10.0 else f"{100.0 * part:.1e} %"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def page() -> Iterator[str]:
    """All tables."""
    shares: list[float] = []
    yield from ("# Methods, and what the diagnosis says of them", "")
    yield (
        f"Measured {machine()}, by `LWCS_DATA=… python -m benchmarks.methods --markdown "
        f"docs/results/methods.md`. {SEEDS} seeds; families of `benchmarks.hard_clusters` with "
        f"{ROWS:,} × {COLUMNS} rows."
    )
    for labels in (False, True):
        yield from (
            "",
            f"## Sizes that the target asks for, {'with labels' if labels else 'without labels'}",
            "",
            "Error of the cost on all rows against the best known, mean / worst, and the median "
            "time of a fit. Aim for `auto`: within 1 point or 10 % of the best of the others "
            "at equal time, or a warning; a method that takes longer than `auto`, by more than "
            f"{percent(NOISE)}, is not among them. The last column is stricter than the aim: the "
            "best of all, whatever time that takes.",
            "",
            "| data | k | method | used | draws | error | time | warned | reached at equal time | "
            "in any time |",
            "|---|---:|---|---|---:|---:|---:|---:|---|---|",
        )
        for cell in (*real(), *failing()):
            yield from chosen_sizes(cell, labels=labels, shares=shares)
    share = float(np.median(shares))
    reached = "yes" if share <= SHARE else "NO"
    yield from (
        "",
        f"The diagnosis takes {percent(share)} of the time of a fit (median; worst "
        f"{percent(max(shares))}); aim ≤ {percent(SHARE)}: {reached}.",
        "",
        "## Given sizes: predicted and measured errors, and warnings",
        "",
        "Sampling error by uniform / lightweight / refined draws: measured on all rows, and as the "
        "diagnosis of each method's own fits predicts all three, means over the seeds. Warned: of "
        f"{6 * SEEDS} fits, half of them without a final pass.",
        "",
        HEADINGS,
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    )
    tally = Tally()
    for cell in (*real(), *failing(), *others()):
        yield from given_sizes(cell, tally)
    yield from (
        "",
        str(tally),
        "",
        "## The same on data that no threshold was set by",
        "",
        "The thresholds of the diagnosis were set by the cells above. Here are others: other "
        "numbers of clusters, other seeds, other rows of the families, and three further data "
        "sets. Errors are over the best of all fits.",
        "",
        HEADINGS,
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    )
    tally = Tally()
    for cell in unseen():
        yield from given_sizes(cell, tally, UNSEEN_SEED)
    yield from ("", str(tally))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    options = parser.parse_args()
    lines = []
    for line in page():
        print(line, flush=True)
        lines.append(line)
    if options.markdown:
        options.markdown.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

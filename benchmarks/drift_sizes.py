"""Alarms of `lwcs.drift` where the fit had many more rows than there are now, or many fewer.

`make drift` measures these lines; `benchmarks.drift` writes them with the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import lwcs
from lwcs import CoresetKMeans

Rows = np.ndarray
Population = Callable[[np.random.Generator, int], Rows]

PART = float(os.environ.get("LWCS_RUNS", "1"))
K, COLUMNS = 10, 5
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
# Fits and draws of a million rows take most of the time.
RUNS = dict(zip(SIZES, (40, 40, 40, 20, 10), strict=True))
SHIFT, FAR_SHARE, FAR = 0.5, 0.02, 10.0
_PLACES = 6.0 * np.random.default_rng(5).normal(size=(K, COLUMNS))
_SHARES = 0.6 ** np.arange(K) / np.sum(0.6 ** np.arange(K))
_THREE = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])


def unequal(rng: np.random.Generator, n: int) -> Rows:
    """Gaussian clusters of 40 % to 0.4 % of the rows."""
    return _PLACES[rng.choice(K, n, p=_SHARES)] + rng.normal(size=(n, COLUMNS))


def heavy(rng: np.random.Generator, n: int) -> Rows:
    """Clusters of equal sizes, with noise by Student's distribution with 3 degrees of freedom."""
    return _PLACES[rng.integers(K, size=n)] + rng.standard_t(3.0, (n, COLUMNS))


def nothing(rng: np.random.Generator, n: int) -> Rows:
    """No clusters: the uniform distribution."""
    return rng.random((n, COLUMNS))


POPULATIONS: dict[str, Population] = {
    "unequal clusters": unequal,
    "heavy tails (Student, 3)": heavy,
    "without clusters": nothing,
}


@dataclass(slots=True)
class Cell:
    """Numbers of alarms, and of runs."""

    same: int = 0
    shifted: int = 0
    far: int = 0
    runs: int = 0

    def __str__(self) -> str:
        return " / ".join(
            f"{100.0 * each / self.runs:.0f}" for each in (self.same, self.shifted, self.far)
        )


def measured(population: Population, then: int, now: int) -> Cell:
    """Alarms without a change, with every row shifted, and with a new cluster far away."""
    cell = Cell(runs=max(1, round(PART * min(RUNS[then], RUNS[now]))))
    for seed in range(cell.runs):
        rng = np.random.default_rng([seed, then, now])
        model = CoresetKMeans(K, random_state=seed, n_jobs=1).fit(population(rng, then))
        new = population(rng, now)
        radius = float(np.sqrt(model.fitted_on_.cost.value / COLUMNS))
        other = new.copy()
        count = round(FAR_SHARE * now)
        other[:count] = new.mean(axis=0) + FAR * new.std(axis=0) * rng.normal(size=(count, COLUMNS))
        cell.same += alarm(model, new, seed)
        cell.shifted += alarm(model, new + SHIFT * radius, seed)
        cell.far += alarm(model, other, seed)
    return cell


def alarm(model: CoresetKMeans, rows: Rows, seed: int) -> bool:
    """Whether there is an alarm."""
    return lwcs.drift(model, rows, random_state=seed, n_jobs=1).drifted


def gross() -> Iterator[str]:
    """Lines: small fits of three Gaussian clusters, and a large change in many new rows."""

    def day(rng: np.random.Generator, n: int) -> Rows:
        return rng.normal(size=(n, 2)) + _THREE[rng.integers(3, size=n)]

    def outliers(rng: np.random.Generator, rows: Rows) -> Rows:
        rows[: len(rows) // 50] += 100.0 * rng.normal(size=(len(rows) // 50, 2))
        return rows

    cases = {
        "3,000 rows, then 100,000 of which 2 % are 100 sd away": (3_000, outliers),
        "300 rows, then 100,000 that are all shifted by 1 sd": (300, lambda _, rows: rows + 1.0),
    }
    for title, (then, changed) in cases.items():
        found = 0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            model = CoresetKMeans(3, random_state=seed, n_jobs=1).fit(day(rng, then))
            found += alarm(model, changed(rng, day(rng, 100_000)), seed)
        yield f"| {title} | {found} of 10 |"


def head() -> Iterator[str]:
    """What the table shows."""
    yield (
        "The fit had as many rows as the line says, and there are as many now as the column says. "
        "Each cell: percentage of alarms without a change (false alarms) / with every row shifted "
        f"by {SHIFT:g} standard deviations of a cluster in every column / with {FAR_SHARE:.0%} of "
        f"the rows {FAR:g} standard deviations of the data away; k = {K}, {COLUMNS} columns. Runs "
        "are fewer where there are 100,000 rows or more, then or now."
    )
    yield ""
    yield f"| data | rows at fit | runs | {' | '.join(f'{n:,} now' for n in SIZES)} |"
    yield "|---|---:|---|" + "---:|" * len(SIZES)


def lines(before: list[str], names: list[str]) -> Iterator[str]:
    """One line for each population and number of rows of the fit, kept if it is not named."""
    for name in POPULATIONS:
        for then in SIZES:
            kept = [each for each in before if each.startswith(f"| {name} | {then:,} |")]
            yield kept[0] if kept and f"{name}, {then}" not in names else line(name, then)


def line(name: str, then: int) -> str:
    """The cells of one population and number of rows at the fit."""
    cells = [measured(POPULATIONS[name], then, now) for now in SIZES]
    runs = ", ".join(map(str, sorted({cell.runs for cell in cells}, reverse=True)))
    return f"| {name} | {then:,} | {runs} | {' | '.join(map(str, cells))} |"

"""The data sets that the default is judged on, and the best solution known for each of them.

Four come from the folder in LWCS_DATA, three from scikit-learn, one is made here. The costs of the
best solutions known are in docs/results/best_known.json; a benchmark that finds a better solution
writes its cost there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

import lwcs
from benchmarks.paper import RESULTS, available
from lwcs.comparing.comparison_data import read_known

BEST = RESULTS / "best_known.json"


@dataclass(frozen=True, slots=True)
class Data:
    """Rows of a data set, and its title, which says if rows are missing."""

    title: str
    rows: np.ndarray[Any, np.dtype[Any]]


def customers(n: int = 50_000) -> np.ndarray:
    """A table of customers as it comes from a database: nothing is scaled, one column is heavy.

    Age in years, visits a year (Poisson, with a gamma rate), mean basket in euros (log-normal),
    tenure in years (exponential), share of returns, and revenue a year: visits × basket × noise,
    where one customer in twenty is a business that buys 1 + 5·Pareto(1.8) times as much. Revenue
    has nearly all of the variance, and a few rows have most of it.
    """
    rng = np.random.default_rng(14)
    age = np.clip(rng.normal(44.0, 15.0, n), 18.0, 95.0)
    visits = rng.poisson(rng.gamma(2.0, 6.0, n)) + 1.0
    basket = rng.lognormal(3.4, 0.6, n)
    tenure = np.minimum(rng.exponential(5.0, n), age - 18.0)
    returns = rng.beta(1.5, 12.0, n)
    business = np.where(rng.random(n) < 0.05, 1.0 + 5.0 * rng.pareto(1.8, n), 1.0)
    revenue = visits * basket * rng.lognormal(0.0, 0.5, n) * business
    return np.stack([age, visits, basket, tenure, returns, revenue], axis=1)


MADE: dict[str, Callable[[], np.ndarray]] = {
    "iris": lambda: datasets.load_iris().data,
    "digits": lambda: datasets.load_digits().data,
    "breast cancer": lambda: datasets.load_breast_cancer().data,
    "customers": customers,
}
CELLS = {
    "KDD": (10, 100, 500),
    "RNA": (5, 20, 200, 500),
    "covtype": (20, 100),
    "GloVe": (100, 500),
    "iris": (3,),
    "digits": (10,),
    "breast cancer": (4,),
    "customers": (4,),
}


@lru_cache(maxsize=1)
def read(name: str) -> Data | None:
    """A data set by its short name; None, and a message, if its file is missing."""
    if name in MADE:
        return Data(name, MADE[name]())
    path = available(Path(os.environ.get("LWCS_DATA", ""))).get(name)
    if path is None:
        print(f"{name} is left out: the folder LWCS_DATA has no file of it", flush=True)
        return None
    title, rows = read_known(name, path)
    return Data(title, np.ascontiguousarray(rows))


@dataclass(frozen=True, slots=True)
class Best:
    """The best known solution of a cell, and how many runs were made to find it."""

    data: str
    k: int
    cost: float
    found_by: str
    sklearn_runs: int = 0
    our_runs: int = 0


class BestKnown:
    """The best known solutions, in a file that several benchmarks may write to."""

    def __init__(self, path: Path = BEST) -> None:
        self._path = path
        self._read()

    def _read(self) -> None:
        found = json.loads(self._path.read_text("utf-8")) if self._path.exists() else []
        self._cells = {(entry["data"], entry["k"]): Best(**entry) for entry in found}

    def get(self, data: str, k: int) -> Best | None:
        """The best known solution of a cell."""
        return self._cells.get((data, k))

    def cost(self, data: str, k: int) -> float:
        """The cost to compare with; infinite if no solution is known."""
        best = self.get(data, k)
        return np.inf if best is None else best.cost

    def offer(
        self, data: str, k: int, cost: float, found_by: str, *, sklearn: int = 0, ours: int = 0
    ) -> None:
        """Keep a solution if it is better; count the runs that were made to find it."""
        self._read()
        old = self._cells.get((data, k), Best(data, k, np.inf, ""))
        new = replace(old, sklearn_runs=old.sklearn_runs + sklearn, our_runs=old.our_runs + ours)
        if cost < old.cost:
            new = replace(new, cost=cost, found_by=found_by)
        if new != old:
            self._cells[data, k] = new
            self._write()

    def _write(self) -> None:
        entries = [json.dumps(asdict(best)) for best in self._cells.values()]
        beside = self._path.with_suffix(".part")
        beside.write_text("[\n" + ",\n".join(entries) + "\n]\n", encoding="utf-8")
        beside.replace(self._path)


def offer_paper(best: BestKnown, name: str, title: str, k: int) -> None:
    """Take the best of what `make paper` found, and count scikit-learn's runs on all rows."""
    for path in sorted((RESULTS / "paper").glob(f"{name}*.parquet")):
        own = [t for t in lwcs.load(path).trials if (t.key.data, t.key.n_clusters) == (title, k)]
        if own:
            runs = sum(trial.key.method == "full-sklearn" for trial in own)
            first = min(own, key=lambda trial: trial.cost)
            found_by = f"{first.key.method}, seed {first.key.seed}, of make paper"
            best.offer(title, k, first.cost, found_by, sklearn=runs)

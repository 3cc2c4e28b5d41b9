"""exemplars(): the rows nearest to each center and the farthest ones of each cluster, in one pass.

Every partition returns the best n of each kind and cluster, which are merged in the order of
partitions. Of equally far rows, those that come first are chosen, so that the result does not
depend on how the rows are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import BadValueError, check_count
from lwcs.coreset.coreset import Coreset
from lwcs.estimators.cluster_facts import known_facts
from lwcs.estimators.fitted_models import FittedCenters, as_fitted
from lwcs.estimators.mixture_predict import densities
from lwcs.estimators.summary import ClusterSummary
from lwcs.estimators.validation import coreset_of_stream, scan_rows
from lwcs.evaluation.typical_rows_result import DENSITY, SIGNS, Chosen, ChosenRows, Exemplars
from lwcs.geometry import Centers
from lwcs.passes import measured
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import as_threads
from lwcs.sources.base import gathered
from lwcs.sources.memory.dataframes import TableSource
from lwcs.sources.sequence import SequenceSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.estimators.fitted_models import FittedMixture
    from lwcs.runtime.progress import Callback
    from lwcs.solvers.em import Mixture
    from lwcs.sources import Block, Source


@dataclass(frozen=True, slots=True)
class ChoosingTask:
    """The nearest and the farthest rows of each cluster in one partition."""

    model: Centers | Mixture
    k: int
    n: int

    def __call__(self, blocks: Iterator[Block], partition: int) -> ChosenRows:
        """Choose from block after block."""
        found = ChosenRows(0, np.zeros(self.k))
        for block in blocks:
            with BadValueError.in_partition(partition):
                found = found.merged(self._of(block), self.n)
        return found

    def _of(self, block: Block) -> ChosenRows:
        labels, distances = self._labelled(block)
        n_rows = len(labels)
        weights = np.ones(n_rows) if block.weights is None else np.asarray(block.weights)
        if block.dropped is not None:
            weights = np.where(block.dropped, 0.0, weights)
        sizes = np.bincount(labels, weights, self.k).astype(np.float64, copy=False)
        used = np.flatnonzero(weights > 0.0)
        if not len(used):
            return ChosenRows(n_rows, sizes)
        # Points are copied only of the rows that are chosen.
        numbers = Chosen(labels[used], distances[used], used, np.empty((len(used), 0)))
        chosen = [used[numbers.best(self.n, sign)] for sign in SIGNS]
        whole = Chosen(labels, distances, np.arange(n_rows), block.points, block.beside)
        return ChosenRows(n_rows, sizes, *(whole[each] for each in chosen))

    def _labelled(self, block: Block) -> tuple[IntArray, FloatArray]:
        if isinstance(self.model, Centers):
            rows = measured(block, self.model)
            labels, distances = rows.nearest(self.model)
            lengths = rows.geometry.lengths(np.asarray(distances))
            return np.asarray(labels, dtype=np.int64), lengths
        components, density = densities(self.model, block.points, block.first_row)
        return components, -density


def exemplars(
    model: Any,
    X: Any,
    n: int = 5,
    *,
    keep: Sequence[str] | str = (),
    n_jobs: int | None = None,
    progress: int | Callback = 0,
) -> Exemplars:
    """Typical rows: those nearest to each center, and the farthest ones of each cluster.

    Rows are read once. Of equally far rows, the first ones are chosen, so that the result does not
    depend on how the rows are cut into partitions.

    Parameters
    ----------
    model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
        Fitted model. For a mixture, a row belongs to its most likely component, and those with the
        highest density in it come first.
    X : array, sparse array, table, path, Source or data of an engine
        Rows: whatever `lwcs.scan` accepts, with the columns that were fitted, which are found by
        name. Rows are numbered through all files and partitions.
    n : int, default=5
        How many rows of each kind to choose per cluster.
    keep : list of str or str, default=()
        Names or patterns of columns to keep beside the rows, such as an id: of files, queries and
        tables in memory.
    n_jobs : int, optional
        Number of threads; by default all cores that the container allows.
    progress : int or callable, default=0
        Whether to show progress on standard error, or a function that is called with a
        `lwcs.Progress`.

    Returns
    -------
    Exemplars
        The rows, as a table and as text.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.array([[0.0], [1.0], [2.0], [7.0], [20.0], [21.0], [22.0]])
    >>> found = lwcs.exemplars(lwcs.CoresetKMeans(2, random_state=0).fit(X), X, n=1)
    >>> found.row.tolist(), found.kind
    ([2, 3, 5, 4], ['nearest', 'farthest', 'nearest', 'farthest'])
    """
    check_count(n, "n")
    judge = as_fitted(model)
    if isinstance(coreset_of_stream(X), Coreset):
        raise TypeError(
            "a coreset has few of the rows, and not their numbers in order; pass the rows "
            "themselves, or coreset.points"
        )
    source, facts = scan_rows(model, X, reset=False), known_facts(model)
    columns = _kept_columns(source, keep)
    found = choose_rows(judge, source, n, as_threads(n_jobs), Journal(progress))
    order = np.argsort(-found.sizes, kind="stable") if facts is None else facts.by_size
    names = getattr(model, "feature_names_in_", source.feature_names)
    return Exemplars(
        found, n, None if names is None else tuple(map(str, names)),
        "component" if judge.soft else "cluster",
        judge.geometry.length_name if isinstance(judge, FittedCenters) else DENSITY,
        order, None if facts is None else ClusterSummary(facts), columns,
    )  # fmt: skip


def choose_rows(
    judge: FittedCenters | FittedMixture, source: Source, n: int, n_jobs: int, journal: Journal
) -> ChosenRows:
    """Choose the nearest and the farthest rows of each cluster, in one pass."""
    given: Centers | Mixture
    if isinstance(judge, FittedCenters):
        geometry = judge.geometry.with_kernel(kernels.choose())
        given = geometry.own_centers(judge.centers)
    else:
        given = judge.mixture
    task = ChoosingTask(given, judge.k, n)
    with source.explaining():
        parts = gathered(source, task, "exemplars", journal=journal, n_jobs=n_jobs)
        return reduce(lambda one, other: one.merged(other, n), parts)


def _kept_columns(source: Source, keep: Sequence[str] | str) -> Any:
    """Keep columns beside the rows; of a table in memory, a function that looks them up by row."""
    names = [keep] if isinstance(keep, str) else list(keep)
    if not names:
        return None
    table = getattr(source, "whole", source)
    if isinstance(source, SequenceSource):
        source.keep(names)
        return None
    if isinstance(table, TableSource):
        table.beside(names, np.empty(0, dtype=np.int64))
        return lambda rows: table.beside(names, rows)
    raise TypeError(
        f"keep={names} names columns, which a {type(source).__name__} cannot keep beside its rows; "
        "pass files, a query or a table in memory, or leave it out and use the row numbers"
    )

"""What CoresetKMeans warns of after a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lwcs.foundation.notices import warn
from lwcs.foundation.rows import count_distinct

if TYPE_CHECKING:
    from lwcs.coreset import Coreset
    from lwcs.solvers.lloyd import Clustering


def warn_of_fit(found: Clustering, coreset: Coreset, k: int, max_iter: int) -> None:
    """Warn of fewer clusters than were asked for, and of a fit that has not converged."""
    distinct = int(np.count_nonzero(np.bincount(found.labels)))
    if distinct < k:
        warn(
            f"the number of distinct clusters ({distinct}) is smaller than n_clusters "
            f"({k}): {_why_fewer(coreset, k)}",
            ConvergenceWarning,
        )
    if not found.converged:
        warn(
            f"Lloyd's algorithm did not converge in max_iter={max_iter} iterations; "
            "pass a larger max_iter or tol",
            ConvergenceWarning,
        )


def _why_fewer(coreset: Coreset, k: int) -> str:
    """Why fewer than k clusters have rows, and what to do."""
    rows = count_distinct(coreset.rows[np.flatnonzero(coreset.omega)])
    whole = coreset.method == "all rows"
    has = f"{'the data' if whole else 'the coreset'} has {'only ' * (rows < k)}{rows} distinct row"
    has += "s" * (rows != 1)
    if rows >= k:
        return f"{has}, but some are equally far from several centers; pass a smaller n_clusters"
    return f"{has}; pass n_clusters <= {rows}" + ("" if whole else ", or a coreset of more draws")

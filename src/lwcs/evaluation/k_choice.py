"""KChoice: what `choose_k` returns, a recommended number of clusters and what speaks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lwcs.evaluation import k_rows
from lwcs.runtime import formatting as markup
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from lwcs.coreset.coreset import Coreset
    from lwcs.evaluation.k_rows import KRow


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """Another number of clusters, and what speaks for it."""

    k: int
    why: str

    def __str__(self) -> str:
        return f"k = {self.k}: {self.why}"


@dataclass(frozen=True, eq=False, repr=False)
class KChoice(Tabular):
    """How many clusters data has. Created by `lwcs.choose_k`.

    pyarrow, polars, pandas and DuckDB take it as a table; ``print(choice)`` shows it with the
    recommendation.

    Attributes
    ----------
    k : int or None
        Recommended number of clusters; None if the data shows no clusters.
    reason : str
        Why, in words.
    runners_up : tuple of RunnerUp
        Other numbers of clusters worth a look, with what speaks for them: `k` and `why`.
    rows : tuple of KRow
        What is known of every number of clusters, in increasing order. What was not computed is
        None. `k`; `cost` with its interval (`value`, `low`, `high`), by draws that were not
        clustered; `silhouette` and `davies_bouldin`; `separated`, whether the data tells all
        clusters apart from their neighbours, and `weakest`, how clear that is for the pair that is
        told apart least; `smallest`, how many rows of the smallest cluster were drawn; `stability`,
        the mean Jaccard overlap of the least stable cluster with its match over bootstrap coresets,
        without clusters of fewer than 13 rows; for mixtures `log_likelihood` with its interval,
        `bic` and `bic_noise`, the standard error of its difference to the least one.
    model_kind : {"kmeans", "mixture"}
        What was fitted.
    coreset : Coreset
        The draws that the solutions were fitted on.
    timings : dict
        Seconds, rows and passes by stage, as in the details of a coreset.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (500, 2)) for center in (0.0, 10.0, 20.0)])
    >>> choice = lwcs.choose_k(X, range(2, 6), random_state=0)
    >>> choice
    KChoice(k=3, of 2 to 5, by kmeans)
    >>> choice.model().cluster_centers_.shape
    (3, 2)
    """

    k: int | None
    reason: str
    runners_up: tuple[RunnerUp, ...]
    rows: tuple[KRow, ...]
    model_kind: Literal["kmeans", "mixture"]
    coreset: Coreset
    timings: Mapping[str, Any]
    _models: Callable[[int], Any] = field(repr=False)

    _instead_of_rows = "pass the data that k was chosen for"

    @property
    def ks(self) -> tuple[int, ...]:
        """The numbers of clusters that were tried."""
        return tuple(row.k for row in self.rows)

    def row(self, k: int) -> KRow:
        """What is known of one number of clusters."""
        for row in self.rows:
            if row.k == k:
                return row
        raise ValueError(
            f"k={k!r} was not tried; pass one of {', '.join(map(str, self.ks))}, or call choose_k "
            "with it among ks"
        )

    def model(self, k: int | None = None) -> Any:
        """The fitted CoresetKMeans or CoresetMixture with k clusters, without solving again.

        By default that of the recommended number of clusters.
        """
        wanted = self.k if k is None else k
        if wanted is None:
            raise ValueError(
                f"no number of clusters is recommended ({self.reason}); pass k, one of "
                f"{', '.join(map(str, self.ks))}"
            )
        return self._models(self.row(wanted).k)

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table with one row per number of clusters."""
        return k_rows.to_arrow(self.rows)

    def to_pandas(self) -> Any:
        """Convert to a pandas DataFrame with one row per number of clusters."""
        return self.to_arrow().to_pandas()

    def words(self) -> str:
        """The recommendation and the runners-up, one line each."""
        lines = [self.reason, *(f"Also worth a look: {each}" for each in self.runners_up)]
        return "\n".join(lines)

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        text = StringIO()
        Console(width=100, file=text).print(k_rows.to_rich(self.rows, self.k))
        return f"{text.getvalue()}{self.words()}"

    def _repr_html_(self) -> str:
        words = markup.paragraphs(self.words().splitlines())
        return k_rows.to_html(self.rows, self.k) + words

    def __repr__(self) -> str:
        tried = f"{self.ks[0]} to {self.ks[-1]}" if len(self.ks) > 1 else str(self.ks[0])
        return f"KChoice(k={self.k}, of {tried}, by {self.model_kind})"

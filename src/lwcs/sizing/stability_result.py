"""What `model.stability()` returns: one row per cluster, and the pairs that may be one cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lwcs.runtime import formatting as markup
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lwcs.arrays.types import FloatArray
    from lwcs.storage.fields import Fields

STABILITY = "stability"
STABLE = 0.85
"""Clusters that a mixture really has score more."""
DOUBTFUL = 0.6
"""Halves of a cluster score less."""
SHOWN = 20
"""Clusters and pairs in a table of text."""
_COLUMNS = (
    "jaccard: overlap with the best match in the bootstrap coresets; score: the same, where "
    "clusters that cannot be told apart count as one."
)


@dataclass(frozen=True, slots=True, eq=False)
class Stability(Tabular):
    """How real the clusters of a model are, by bootstrap coresets.

    Attributes
    ----------
    score : array of shape (n_clusters,)
        Mean Jaccard overlap of each cluster with its best match in the replicates, where clusters
        that the draws cannot tell apart count as one. Above 0.85, a cluster is found every time;
        below 0.6, it is a part of a larger one, or not found again.
    jaccard : array of shape (n_clusters,)
        The same without that, as by Hennig (2007). It is high for both halves of a cluster that is
        cut at the same place every time.
    share, share_error : arrays of shape (n_clusters,)
        Share of each cluster in the weight of all rows, and its standard error; 0 if all rows
        were used.
    center_errors : array of shape (n_clusters, n_features) or None
        Standard error of each center per column, in the units of the data: how far the center of
        the match that `score` is about is away, by root mean square. A file keeps `center_error`
        alone.
    center_error : array of shape (n_clusters,)
        Its length over all columns, as distances are measured: in standard deviations for data
        that was scanned with ``scale="standard"``.
    pairs : tuple of pairs of int
        Neighbouring clusters that the draws cannot tell apart.
    n_bootstrap, draws, replicate_draws : int
        Number of replicates, and of the draws of the coreset and of each replicate.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 1.0, (500, 2)) for center in (0.0, 10.0, 20.0)])
    >>> stability = lwcs.CoresetKMeans(3, random_state=0).fit(X).stability(random_state=0)
    >>> stability
    <Stability of 3 clusters, 3 stable>
    >>> bool((stability.score > 0.85).all())
    True
    """

    score: FloatArray
    jaccard: FloatArray
    share: FloatArray
    share_error: FloatArray
    center_errors: FloatArray | None
    center_error: FloatArray
    pairs: tuple[tuple[int, int], ...]
    n_bootstrap: int
    draws: int
    replicate_draws: int

    _instead_of_rows: ClassVar[str] = "pass rows of data"

    def __len__(self) -> int:
        """Number of clusters."""
        return len(self.score)

    def worst_first(self) -> list[int]:
        """The clusters, the least stable first; of equally stable ones the smaller number."""
        return [int(each) for each in np.argsort(self.score, kind="stable")]

    def __str__(self) -> str:
        order = self.worst_first()
        lines = [self._heading(), "cluster  score  jaccard           share  center error"]
        lines += [
            f"{each:>7}  {self.score[each]:5.2f}  {self.jaccard[each]:7.2f}  "
            f"{share_words(self.share[each], self.share_error[each]):>14}  "
            f"{self.center_error[each]:12.3g}"
            for each in order[:SHOWN]
        ]
        if len(order) > SHOWN:
            more = len(order) - SHOWN
            lines.append(f"and {more} more, which score {self.score[order[SHOWN]]:.2f} or more")
        return "\n".join([*lines, pair_words(self.pairs), _COLUMNS])

    def __repr__(self) -> str:
        return f"<Stability of {len(self)} clusters, {int((self.score > STABLE).sum())} stable>"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        lines = [
            (
                each,
                f"{self.score[each]:.2f}",
                f"{self.jaccard[each]:.2f}",
                share_words(self.share[each], self.share_error[each]),
                f"{self.center_error[each]:.3g}",
            )
            for each in self.worst_first()
        ]
        shown = markup.table(("cluster", "score", "jaccard", "share", "center error"), lines)
        words = markup.paragraphs([pair_words(self.pairs), _COLUMNS])
        return f"{markup.paragraphs([self._heading()])}{shown}{words}"

    def words(self) -> str:
        """How many clusters are stable, and how many are not."""
        stable, doubtful = int((self.score > STABLE).sum()), int((self.score < DOUBTFUL).sum())
        between = len(self) - stable - doubtful
        words = (
            f"{stable} of {len(self)} cluster{'s' * (len(self) != 1)} {_are(stable)} stable "
            f"(score > {STABLE}), {doubtful} {_are(doubtful)} not (score < {DOUBTFUL})"
        )
        return words + (f", {between} {_are(between)} in between" if between else "")

    def _heading(self) -> str:
        draws = f"{self.n_bootstrap} bootstrap coresets of {self.replicate_draws:,} draws"
        return f"{self.words()}, by {draws}"

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table: one row per cluster, without the pairs."""
        import pyarrow as pa

        columns = {name: getattr(self, name) for name in _PER_CLUSTER}
        return pa.table({"cluster": np.arange(len(self)), **columns})

    def saved(self) -> dict[str, Any]:
        """The result as metadata of a file, without the errors of centers per column."""
        return {
            **{name: getattr(self, name).tolist() for name in _PER_CLUSTER},
            "n_pairs": len(self.pairs),
            "pairs": [each for pair in self.pairs for each in pair],
            **{name: getattr(self, name) for name in _NUMBERS},
        }

    @classmethod
    def read(cls, fields: Fields, k: int) -> Stability | None:
        """Read it off the metadata of a model with k clusters; None if the file has no result."""
        if fields.null(STABILITY, missing=True):
            return None
        own = fields.inner(STABILITY)
        columns: dict[str, Any] = {}
        for name in _PER_CLUSTER:
            values = own.vector(name, k)
            most = 1.0 + 1e-9 if name in _PARTS else np.inf
            if values is None or (values < 0.0).any() or (values > most).any():
                wanted = "from 0 to 1" if name in _PARTS else ">= 0"
                raise own.fail(name, f"a list of {k:,} numbers {wanted}")
            columns[name] = values
        pairs = own.vector("pairs", 2 * own.integer("n_pairs", most=k * (k - 1) // 2))
        flat = np.empty(0) if pairs is None else pairs
        one, other = flat[::2], flat[1::2]
        whole = (flat == np.floor(flat)) & (flat >= 0)
        if pairs is None or not whole.all() or not ((one < other) & (other < k)).all():
            raise own.fail("pairs", f"pairs of different clusters from 0 to {k - 1:,}, in order")
        numbers: dict[str, Any] = {name: own.integer(name, least=1) for name in _NUMBERS}
        found = tuple(zip(one.astype(int).tolist(), other.astype(int).tolist(), strict=True))
        return cls(center_errors=None, pairs=found, **columns, **numbers)


_PER_CLUSTER = ("score", "jaccard", "share", "share_error", "center_error")
_PARTS = ("score", "jaccard", "share")
_NUMBERS = ("n_bootstrap", "draws", "replicate_draws")


def pair_words(pairs: Sequence[Sequence[int]]) -> str:
    """A sentence on the pairs that cannot be told apart."""
    if not pairs:
        return "Every two neighbouring clusters can be told apart."
    shown = ", ".join(f"{one} and {other}" for one, other in pairs[:SHOWN])
    more = len(pairs) - SHOWN
    rest = f", and {more} more pairs" if more > 0 else ""
    return f"The data cannot tell these clusters apart: {shown}{rest}."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def share_words(share: float, error: float) -> str:
    """A share with its standard error, in percent."""
    return markup.plain_percent(share) + (f" ± {100 * error:.2g}" if error > 0.0 else "")

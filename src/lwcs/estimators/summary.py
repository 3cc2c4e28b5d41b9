"""ClusterSummary: the clusters of a model as a table that people can read, the largest first.

Each cluster has a name in plain words, which is made of the columns in which its center differs
most from the mean of all rows: "high amount, low age".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lwcs.coreset.coreset import Coreset, refuse_bad_rows
from lwcs.estimators.validation import check_features, coreset_of_stream
from lwcs.runtime import formatting as markup
from lwcs.runtime.formatting import plain_number, plain_percent, shortened
from lwcs.sizing.stability import SHOWN, share_words
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lwcs.estimators.cluster_facts import ClusterFacts, Difference

# Differences in standard deviations from which a column is slightly high, high, or very high.
_SLIGHT, _CLEAR, _FAR = 0.25, 0.5, 2.0
# Columns in a name; one more where two clusters would have the same name.
_IN_NAME, _TELLING = 2, 5
AVERAGE = "about average"
QUANTILE_NAMES = ("p10", "median", "p90")
_NAME, _COLUMN = 48, 18
_HEADINGS = ("column", "center", "median", "10 % to 90 %", "from mean")


@dataclass(frozen=True, eq=False, repr=False)
class ClusterSummary(Tabular):
    """What the clusters of a model are like: one row per cluster, the largest first.

    pyarrow, polars, pandas and DuckDB take it as a table; ``print(summary)`` shows the largest
    clusters, with the columns that tell each of them apart. Sizes and costs are those of all rows
    where the fit has counted them, else estimates. Medians and 10–90 % ranges are those of the
    coreset, and have its sampling error. Made by `CoresetKMeans.summary` and
    `CoresetMixture.summary`.

    The columns of the table are `cluster`, its number; `name`; `rows` (or `weight`, if rows have
    weights); `share` of all rows and its standard error, `share_error`; `cost`, and `cost_share` of
    the cost of all rows (null for mixtures); `spread`, the typical distance of a row from its
    center; `nearest`, the cluster whose center is nearest, and `distance_to_nearest`; `differs`,
    the columns in which the center differs most from the mean of all rows, in standard deviations.
    Then come four columns per column of the data, such as `amount` for the center, `amount_p10`,
    `amount_median` and `amount_p90`. Of data with more than 100 columns (fewer if there are more
    than 200 clusters), those that tell clusters apart best have the last three.

    Attributes
    ----------
    facts : ClusterFacts
        The numbers behind it, by cluster.
    names : tuple of str
        The name of each cluster, by its number.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> age, amount = rng.normal(40, 9, 600), rng.normal(100, 5, 600)
    >>> amount[:200] += 90
    >>> rows = pd.DataFrame({"age": age, "amount": amount})
    >>> summary = lwcs.CoresetKMeans(2, random_state=0).fit(rows).summary()
    >>> summary.to_arrow().to_pandas()[["name", "rows"]]
                  name  rows
    0       low amount   400
    1  high amount       200
    """

    facts: ClusterFacts

    _instead_of_rows: ClassVar[str] = "pass rows of data"

    @classmethod
    def of(cls, model: Any, coreset: Any = None) -> ClusterSummary:
        """Summarize a fitted model, by a coreset if one is given."""
        # Facts know both estimators, which have the method below.
        from lwcs.estimators.cluster_facts import facts_of

        coreset = coreset_of_stream(coreset)
        if coreset is not None:
            if not isinstance(coreset, Coreset):
                raise TypeError(
                    f"coreset is a {type(coreset).__name__}, not a Coreset; pass "
                    "coreset=lwcs.build(data, 20_000)"
                )
            check_features(model, coreset)
            refuse_bad_rows(coreset)
        return cls(facts_of(model, coreset))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each cluster, by its number."""
        telling = [self.facts.telling(cluster, _IN_NAME + 1) for cluster in range(self.facts.k)]
        names = [_name(each, _IN_NAME, _CLEAR) for each in telling]
        often = Counter(names)
        return tuple(
            name if often[name] == 1 and name != AVERAGE else _name(each, _IN_NAME + 1, _SLIGHT)
            for name, each in zip(names, telling, strict=True)
        )

    def __len__(self) -> int:
        """Number of clusters."""
        return self.facts.k

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table: one row per cluster, the largest first."""
        import pyarrow as pa

        facts, order = self.facts, self.facts.by_size
        own = {facts.called: order, "name": [self.names[each] for each in order]}
        own |= {name: values[order] for name, values in self._numbers().items()}
        own["differs"] = [differs_words(facts.telling(each)) for each in order]
        table: dict[str, Any] = {
            name: pa.array(values, from_pandas=True) for name, values in own.items()
        }
        for j, name in enumerate(facts.names):
            columns = {name: facts.centers[order, j]}
            known = [facts.quantiles_of(each, j) for each in order]
            if known[0] is not None:
                parts = zip(QUANTILE_NAMES, np.array(known, dtype=np.float64).T, strict=True)
                columns |= {f"{name}_{part}": values for part, values in parts}
            for title, values in columns.items():
                while title in table:
                    title = f"{title}_"
                table[title] = pa.array(values)
        return pa.table(table)

    def _numbers(self) -> dict[str, Any]:
        """Columns of numbers by cluster; what is not known is NaN."""
        facts = self.facts
        size = {"weight": facts.size} if facts.has_weights else {"rows": self.sizes}
        unknown = np.full(facts.k, np.nan)
        cost = unknown if facts.cost is None or facts.is_mixture else facts.cost
        return {
            **size,
            "share": facts.share,
            "share_error": facts.share_error,
            "cost": cost,
            "cost_share": cost / (cost.sum() or 1.0),
            "spread": facts.spread,
            "nearest": facts.nearest,
            "distance_to_nearest": np.where(np.isfinite(facts.apart), facts.apart, np.nan),
        }

    @property
    def sizes(self) -> Any:
        """Number of rows of each cluster, by its number."""
        return np.rint(self.facts.size).astype(np.int64)

    def __repr__(self) -> str:
        return f"<ClusterSummary of {len(self)} {self.facts.called}{'s' * (len(self) != 1)}>"

    def __str__(self) -> str:
        order = self.facts.by_size
        parts = [self._heading(), *map(self._block, order[:SHOWN])]
        if len(order) > SHOWN:
            parts.append(f"and {len(order) - SHOWN:,} more, which are no larger")
        if any(self._lines(each) for each in order[:SHOWN]):
            parts.append(
                "From mean: the center less the mean of all rows, in standard deviations.\n"
                "Medians and ranges are those of the coreset."
            )
        return "\n\n".join(parts)

    def _heading(self) -> str:
        facts = self.facts
        rows = f"{facts.n_rows:,} row{'s' * (facts.n_rows != 1)}"
        largest = ", the largest first" if facts.k > 1 else ""
        return f"{facts.k:,} {facts.called}{'s' * (facts.k != 1)} of {rows}{largest}"

    def _block(self, cluster: int) -> str:
        """The facts about a cluster as text, and a table of the columns that tell it apart."""
        facts = self.facts
        lines = [f"{facts.called} {cluster}: {name_within(self.names[cluster], _NAME)}"]
        lines += [f"  {each}" for each in self.sentences(cluster)]
        table = self._lines(cluster)
        if not table:
            return "\n".join(lines)
        widths = [max(map(len, column)) for column in zip(_HEADINGS, *table, strict=True)]
        for first, *others in (_HEADINGS, *table):
            cells = [each.rjust(width) for each, width in zip(others, widths[1:], strict=True)]
            lines.append("  ".join(["", first.ljust(widths[0]), *cells]))
        return "\n".join(lines)

    def sentences(self, cluster: int) -> list[str]:
        """Size and cost of a cluster, and its nearest one, in words."""
        facts = self.facts
        share = share_words(float(facts.share[cluster]), float(facts.share_error[cluster]))
        rows = f"weight {plain_number(facts.size[cluster])}"
        if not facts.has_weights:
            n = int(self.sizes[cluster])
            rows = f"{'about ' * bool(facts.share_error[cluster])}{n:,} row{'s' * (n != 1)}"
        words = [f"{rows} ({share})"]
        part = self._numbers()["cost_share"][cluster]
        if isfinite(part):
            words.append(f"{plain_percent(float(part))} of the cost")
        sentences = [", ".join(words)]
        spread = f"typical distance from its center {plain_number(facts.spread[cluster], 3)}"
        if facts.k > 1:
            apart = plain_number(facts.apart[cluster], 3)
            spread += f"; nearest: {facts.called} {facts.nearest[cluster]}, {apart} away"
        return [*sentences, spread]

    def _lines(self, cluster: int) -> list[tuple[str, ...]]:
        """Center, median and range of the columns that tell a cluster apart, as text."""
        facts, lines = self.facts, list[tuple[str, ...]]()
        for each in facts.telling(cluster, _TELLING):
            known = facts.quantiles_of(cluster, each.column)
            median, ends = "", ""
            if known is not None:
                median = plain_number(known[1])
                ends = f"{plain_number(known[0], 3)} to {plain_number(known[2], 3)}"
            lines.append(
                (
                    shortened(" ".join(each.name.split()), _COLUMN),
                    plain_number(facts.centers[cluster, each.column]),
                    median,
                    ends,
                    f"{each.deviations:+.2f}",
                )
            )
        return lines

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        facts, order = self.facts, self.facts.by_size[:SHOWN]
        headings = (facts.called, "name", "size, cost, neighbour", "what tells it apart")
        lines = [
            (
                each,
                self.names[each],
                "; ".join(self.sentences(each)),
                differs_words(facts.telling(each)),
            )
            for each in order
        ]
        return markup.paragraphs([self._heading()]) + markup.table(headings, lines)


def differs_words(telling: Sequence[Difference]) -> str:
    """The columns that tell a cluster apart, with the difference in standard deviations."""
    return ", ".join(f"{each.name} {each.deviations:+.2f} sd" for each in telling)


def name_within(name: str, most: int) -> str:
    """A name of at most `most` characters, in which each of its columns is cut alike."""
    parts = name.split(", ")
    room = (most - 2 * (len(parts) - 1)) // len(parts)
    return name if len(name) <= most else ", ".join(shortened(each, room) for each in parts)


def _name(telling: Sequence[Difference], n: int, least: float) -> str:
    """The first n columns with a difference of at least `least`, each with how high it is."""
    words = []
    for each in telling[:n]:
        size = abs(each.deviations)
        degree = "very " if size >= _FAR else "" if size >= _CLEAR else "slightly "
        if size >= least:
            words.append(f"{degree}{'high' if each.deviations > 0.0 else 'low'} {each.name}")
    return ", ".join(words) or AVERAGE


class SummaryMixin:
    """The method `summary` of models."""

    def summary(self, coreset: Any = None) -> ClusterSummary:
        """Say what the clusters are like: sizes, centers, ranges of values, and a name for each.

        Parameters
        ----------
        coreset : Coreset or StreamingCoreset, optional
            Summary of the rows that ranges of values are taken from; by default, the coreset that
            was fitted. A file of a model has these ranges, so that a loaded model needs none.

        Returns
        -------
        ClusterSummary
            One row per cluster, the largest first; any library of tables takes it as a table.

        Examples
        --------
        >>> import numpy as np, lwcs
        >>> X = np.random.default_rng(0).normal(size=(900, 2)) + np.repeat([0, 9, 9], 300)[:, None]
        >>> lwcs.CoresetKMeans(2, random_state=0).fit(X).summary().to_arrow()["rows"].to_pylist()
        [600, 300]
        """
        model: Any = self
        return ClusterSummary.of(model._fitted(), coreset)

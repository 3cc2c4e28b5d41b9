"""KChoice: what `choose_k` returns, a recommended number of clusters and its table of evidence."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lwcs.runtime import formatting as markup
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from rich.table import Table

    from lwcs.coreset.coreset import Coreset


Outcome = Literal["structure", "none stands out", "too few rows", "no structure"]


_TOLD_APART = (
    "Told apart: between every two neighbouring clusters there is a valley, where rows are fewer "
    "than on both sides"
)


@dataclass(frozen=True, eq=False, repr=False)
class KChoice(Tabular):
    """How many clusters data has. Created by `lwcs.choose_k`.

    pyarrow, polars, pandas and DuckDB take it as a table; ``print(choice)`` shows it with the
    recommendation.

    Attributes
    ----------
    k : int or None
        Recommended number of clusters, which most resamples choose; None if they choose none.
    reason : str
        Why, in words.
    runners_up : tuple of RunnerUp
        Other numbers of clusters worth a look, with what speaks for them: `k` and `why`.
    outcome : {"structure", "none stands out", "too few rows", "no structure"}
        "structure" if a k is recommended. If none is: "none stands out" where some clusters are
        told apart, but for no k clearly enough; "too few rows" where draws are too few to show a
        valley, even if there is one; "no structure" where they would show it.
    resamples : dict
        Part of the resamples in which each k was chosen, the most often chosen first; under None,
        the part in which none was. In a resample, the draws are drawn again with replacement, and
        the choice is made again with the same solutions.
    rows : tuple of KRow
        What is known of every number of clusters, in increasing order. What was not computed is
        None. `k`; `cost` with its interval (`value`, `low`, `high`), by draws that were not
        clustered; `silhouette` and `davies_bouldin`; `separated`, whether the data tells all
        clusters apart from their neighbours, and `weakest`, how clear that is for the pair that is
        told apart least; `smallest`, how many rows of the smallest cluster were drawn; `unclear`,
        whether draws are too few to show a valley somewhere; `stability`, the mean Jaccard overlap
        of the least stable cluster with its match over bootstrap coresets, without clusters of
        fewer than 13 rows; for mixtures `log_likelihood` with its interval, `bic` and `bic_noise`,
        the standard error of its difference to the least one; `chosen`, the part of the resamples
        in which it was chosen, and `why` it is not recommended.
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
    KChoice(k=3 in 100 % of resamples, of 2 to 5, by kmeans)
    >>> choice.model().cluster_centers_.shape
    (3, 2)
    """

    k: int | None
    reason: str
    runners_up: tuple[RunnerUp, ...]
    outcome: Outcome
    resamples: Mapping[int | None, float]
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
        """The evidence for one number of clusters."""
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
        import pyarrow as pa

        types = {"k": pa.int64(), "smallest": pa.int64(), "why": pa.string()}
        types |= dict.fromkeys(("separated", "unclear"), pa.bool_())
        records = [row.record() for row in self.rows]
        # With a schema, columns that nothing was computed for keep their type.
        schema = pa.schema([(name, types.get(name, pa.float64())) for name in records[0]])
        return pa.Table.from_pylist(records, schema=schema)

    def to_pandas(self) -> Any:
        """Convert to a pandas DataFrame with one row per number of clusters."""
        return self.to_arrow().to_pandas()

    def words(self) -> str:
        """The recommendation, the resamples, the runners-up, and why other k were not chosen."""
        lines = [self.reason, self.resample_words()]
        lines += [f"Also worth a look: {each}" for each in self.runners_up]
        whys: dict[str, list[int]] = {}
        for row in self.rows:
            if row.why is not None:
                whys.setdefault(row.why, []).append(row.k)
        # One reason for all is that for which none is recommended.
        if len(whys) > 1 or self.k is not None:
            lines += [f"Not k = {_spans(ks)}: {_of(ks, why)}" for why, ks in whys.items()]
        if any(row.separated is not None for row in self.rows):
            lines.append(_TOLD_APART)
        return "\n".join(lines)

    def resample_words(self) -> str:
        """Which k the resamples choose, such as k = 4 in 62 % of resamples, 3 in 38 %."""
        parts = [
            f"{'none' if k is None else f'k = {k}'} in {markup.plain_percent(share, 2)}"
            for k, share in self.resamples.items()
        ]
        parts[0] += " of resamples"
        return ", ".join(parts)

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        text = StringIO()
        Console(width=100, file=text).print(to_rich(self))
        return f"{text.getvalue()}{self.words()}"

    def _repr_html_(self) -> str:
        headings, lines = _texts(self.rows)
        names = [heading.replace("–\n", "–").replace("\n", " ") for heading in headings]
        bold = None if self.k is None else self.ks.index(self.k)
        words = markup.paragraphs(self.words().splitlines())
        return markup.table(names, lines, bold=bold) + words

    def __repr__(self) -> str:
        tried = f"{self.ks[0]} to {self.ks[-1]}" if len(self.ks) > 1 else str(self.ks[0])
        chosen = (
            f"k={self.k} in {markup.plain_percent(self.resamples.get(self.k, 0.0), 2)} of resamples"
        )
        return f"KChoice({chosen}, of {tried}, by {self.model_kind})"


def _of(ks: Sequence[int], why: str) -> str:
    """A reason for one k or several."""
    return why if len(ks) == 1 else why.replace("its clusters", "their clusters")


def _spans(ks: Sequence[int]) -> str:
    """Turn [2, 4, 5, 6] into 2, 4 to 6."""
    runs: list[list[int]] = []
    for k in ks:
        if runs and runs[-1][-1] == k - 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


class Verdict(NamedTuple):
    """The first fields of a KChoice, which are decided from its rows and its resamples."""

    k: int | None
    reason: str
    runners_up: tuple[RunnerUp, ...]
    outcome: Outcome
    resamples: Mapping[int | None, float]
    rows: tuple[KRow, ...]


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """Another number of clusters, and what speaks for it."""

    k: int
    why: str

    def __str__(self) -> str:
        return f"k = {self.k}: {self.why}"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and the ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class KRow:
    """One number of clusters; what was not computed is None."""

    k: int
    cost: Interval | None = None
    """Cost of all rows, by draws that were not clustered."""
    silhouette: float | None = None
    davies_bouldin: float | None = None
    separated: bool | None = None
    """Whether the data tells all clusters apart from their neighbours."""
    weakest: float | None = None
    """Depth of the valley between the two clusters that are least told apart."""
    smallest: int | None = None
    """Number of distinct rows that were drawn from the smallest cluster."""
    unclear: bool | None = None
    """Whether draws of some clusters are too few to show a valley, even if there is one."""
    stability: float | None = None
    """Mean Jaccard overlap of the least stable cluster over bootstrap coresets."""
    log_likelihood: Interval | None = None
    """Mean per row, by draws that were not fitted."""
    bic: float | None = None
    bic_noise: float | None = None
    """Standard error of the difference to the least BIC."""
    chosen: float | None = None
    """Part of the resamples in which it was chosen."""
    why: str | None = None
    """Why it was not chosen; None if it was."""

    def record(self) -> dict[str, Any]:
        """The row as plain values; an interval becomes three columns."""
        record: dict[str, Any] = {}
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if name in ("cost", "log_likelihood"):
                ends = (None, None, None) if value is None else astuple(value)
                record |= zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)
            else:
                record[name] = value
        return record


def _cost(cost: Interval) -> str:
    """A cost and the half-width of its interval, in percent of it."""
    exact = cost.low == cost.high or not cost.value
    percent = "" if exact else f" ± {markup.plain_percent(cost.high / cost.value - 1.0, 2)}"
    return f"{cost.value:.5g}{percent}"


def _log_likelihood(mean: Interval) -> str:
    """A log-likelihood and the half-width of its interval."""
    noise = "" if mean.low == mean.high else f" ± {mean.high - mean.value:.2g}"
    return f"{mean.value:.6g}{noise}"


_COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("k", "k", str),
    ("cost", "cost", _cost),
    ("log_likelihood", "log-likelihood", _log_likelihood),
    ("bic", "BIC", "{:.6g}".format),
    ("silhouette", "silhouette", "{:.3f}".format),
    ("davies_bouldin", "Davies–\nBouldin", "{:.3f}".format),
    ("separated", "told\napart", lambda value: "yes" if value else "no"),
    ("stability", "stability", "{:.2f}".format),
    ("chosen", "chosen", lambda value: markup.plain_percent(value, 2)),
)


def _texts(rows: Sequence[KRow]) -> tuple[list[str], list[list[str]]]:
    """The headings and lines of the table, with the columns in which anything is known."""
    shown = [each for each in _COLUMNS if any(getattr(row, each[0]) is not None for row in rows)]
    lines = []
    for row in rows:
        values = [(getattr(row, name), text) for name, _, text in shown]
        lines.append(["–" if value is None else text(value) for value, text in values])
    return [heading for _, heading, _ in shown], lines


def to_rich(choice: KChoice) -> Table:
    """The table for a terminal; an arrow points at the recommended number of clusters."""
    from rich.table import Table

    headings, lines = _texts(choice.rows)
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for k, line in zip(choice.ks, lines, strict=True):
        if k == choice.k:
            table.add_row(f"→ {line[0]}", *line[1:], style="bold")
        else:
            table.add_row(*line)
    return table

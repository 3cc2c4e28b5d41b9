"""Results of comparisons: solutions, their errors and speedups, tables of them, and their file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.comparing.methods import FULL, METHODS, title
from lwcs.storage.fields import Fields, reading
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from rich.table import Table


KIND = "comparison"


@dataclass(frozen=True, slots=True)
class Key:
    """Identifies a solution; a comparison has one solution per key."""

    data: str
    n_clusters: int
    method: str
    polish: int
    size: int
    """Number of draws m; 0 for a method without a size."""
    seed: int


@dataclass(frozen=True, slots=True)
class Trial:
    """One solution: its times, and its cost on all rows (and on held-out rows)."""

    key: Key
    build_seconds: float
    solve_seconds: float
    cost: float
    holdout_cost: float | None = None

    @property
    def seconds(self) -> float:
        """Time to build and solve."""
        return self.build_seconds + self.solve_seconds

    def record(self) -> dict[str, Any]:
        """Return this solution as a row of the table."""
        values = asdict(self)
        return values.pop("key") | values


@dataclass(frozen=True, slots=True)
class Setup:
    """The data and settings that must be equal for a run to be resumed."""

    n_samples: int
    n_features: int
    spread: float
    """Φ, which distinguishes data sets of the same shape."""
    holdout_rows: int
    first_seed: int

    def check_same(self, other: Setup, path: str) -> None:
        """Refuse to resume from the file of another experiment."""
        for field in fields(self):
            value, saved = getattr(self, field.name), getattr(other, field.name)
            if value != saved and not (
                field.name == "spread" and np.isclose(value, saved, rtol=1e-6, atol=0.0)
            ):
                raise ValueError(
                    f"{path!r} holds a comparison with {field.name}={saved!r}, not {value!r}; "
                    "choose another file, or delete this one to start again"
                )


@dataclass(frozen=True)
class Cell:
    """One cell of a table: a method at a size, over all seeds."""

    key: Key
    """Key of the first trial."""
    errors: np.ndarray[Any, np.dtype[np.float64]]
    """Errors relative to FULL, one per seed."""
    seconds: float
    build_seconds: float
    speedup: float

    @property
    def error(self) -> float:
        """Mean relative error η = φ(Q)/φ(Q_full) − 1."""
        return float(self.errors.mean())

    @property
    def interval(self) -> float:
        """Half-width of the 95 % confidence interval of the mean, by Student's t."""
        from scipy.stats import t

        n = len(self.errors)
        if n < 2 or not np.isfinite(self.errors).all():
            return float("nan")
        return float(t.ppf(0.975, n - 1) * self.errors.std(ddof=1) / np.sqrt(n))


@dataclass(frozen=True)
class CompareResult(Tabular):
    """Result of a comparison: solutions of every method at every size.

    Attributes
    ----------
    trials : tuple of Trial
        One solution per (data, k, method, polish, size, seed).

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).lognormal(size=(5_000, 4))
    >>> result = lwcs.compare(
    ...     X, 5, methods=["full", "uniform", "lightweight"], sizes=[200], repeats=2, random_state=0
    ... )
    >>> for cell in result.cells("data", 5):
    ...     print(cell.key.method, cell.key.polish, f"{cell.error:.1%}")
    full 0 0.0%
    uniform 0 ...
    uniform 1 ...
    lightweight 0 ...
    lightweight 1 ...
    """

    trials: tuple[Trial, ...]

    _instead_of_rows = "pass the data that was compared"

    def __add__(self, other: CompareResult) -> CompareResult:
        """Concatenate two comparisons."""
        return CompareResult(self.trials + other.trials)

    @property
    def data(self) -> list[str]:
        """Names of the data sets."""
        return list(dict.fromkeys(trial.key.data for trial in self.trials))

    def clusters(self, data: str) -> list[int]:
        """Numbers of clusters that were compared on a data set."""
        return sorted({t.key.n_clusters for t in self.trials if t.key.data == data})

    def sizes(self) -> list[int]:
        """Coreset sizes m that were compared."""
        return sorted({t.key.size for t in self.trials} - {0})

    def cells(self, data: str, n_clusters: int, *, holdout: bool = False) -> list[Cell]:
        """Return error and time of every method at every size, relative to FULL.

        Cells are in the order of METHODS. FULL is k-means on all rows: its cost is the mean over
        all such solutions, and its time is that of the faster of its solvers.

        Parameters
        ----------
        data : str
            Name of the data set.
        n_clusters : int
            Number of clusters k.
        holdout : bool, default=False
            Whether to measure errors on held-out rows.
        """
        own = [t for t in self.trials if t.key.data == data and t.key.n_clusters == n_clusters]
        groups: dict[tuple[int, int, int], list[Trial]] = {}
        for trial in own:
            key = trial.key
            groups.setdefault((METHODS.index(key.method), key.polish, key.size), []).append(trial)
        full = [t for t in own if t.key.method in FULL]
        if not full:
            return []
        reference = float(np.mean([_cost(t, holdout) for t in full]))
        seconds = min(
            float(np.mean([t.seconds for t in full if t.key.method == method]))
            for method in {t.key.method for t in full}
        )
        return [_cell(groups[group], reference, seconds, holdout) for group in sorted(groups)]

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow table with one row per solution."""
        import pyarrow as pa

        return pa.Table.from_pylist([trial.record() for trial in self.trials], schema=_schema())

    def to_markdown(self, *, holdout: bool = False) -> str:
        """Return Markdown tables like Table 1 of the paper: first the errors, then the speedups."""
        parts = []
        for table in _tables(self, holdout):
            names = [f"{what}, {each}" for what in ("error", "speedup") for each in table.headings]
            lines = [
                f"**{table.title}** ({table.full})",
                "",
                f"| {' | '.join(['method', 'seeds', *names])} |",
                f"|---|{'---:|' * (len(names) + 1)}",
            ]
            for method, seeds, cells in table.lines:
                texts = [*map(error_text, cells), *map(speedup_text, cells)]
                lines.append(f"| {' | '.join([method, seeds, *texts])} |")
            parts.append("\n".join(lines))
        return "\n\n".join(parts) + "\n"

    def __str__(self) -> str:
        from rich.console import Console

        text = StringIO()
        console = Console(width=200, file=text)
        for table in to_rich(self):
            console.print(table)
        return text.getvalue()

    def __repr__(self) -> str:
        return f"CompareResult({len(self.trials):,} solutions of {', '.join(self.data)})"


def _cost(trial: Trial, holdout: bool) -> float:
    if not holdout:
        return trial.cost
    if trial.holdout_cost is None:
        raise ValueError("no rows were held out; call compare with holdout_rows > 0")
    return trial.holdout_cost


def _cell(trials: list[Trial], reference: float, full_seconds: float, holdout: bool) -> Cell:
    errors = np.array([_relative_error(_cost(trial, holdout), reference) for trial in trials])
    seconds = float(np.mean([trial.seconds for trial in trials]))
    building = float(np.mean([trial.build_seconds for trial in trials]))
    # A clock may be so coarse that a solution takes no time.
    speedup = full_seconds / seconds if seconds > 0.0 else float("inf" if full_seconds else "nan")
    return Cell(trials[0].key, errors, seconds, building, speedup)


def _relative_error(cost: float, reference: float) -> float:
    """cost/reference − 1; where every row is a center, any cost at all is infinitely larger."""
    if reference == 0.0:
        return 0.0 if cost == 0.0 else float("inf")
    return cost / reference - 1.0


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The table of one data set and k, in the layout of Table 1 of the paper."""

    title: str
    """The data set and k."""
    full: str
    """Times of k-means on all rows."""
    headings: list[str]
    """One per size; methods that use all rows have a column of their own."""
    lines: list[tuple[str, str, list[Cell | None]]]
    """Per method its title, its number of seeds, and its cell (or None) per size."""


def _tables(result: CompareResult, holdout: bool) -> Iterator[ResultTable]:
    sizes = sorted({trial.key.size for trial in result.trials})
    headings = [f"m = {size:,}" if size else "all rows" for size in sizes]
    for data in result.data:
        for k in result.clusters(data):
            methods: dict[str, dict[int, Cell]] = {}
            for cell in result.cells(data, k, holdout=holdout):
                method = title(cell.key.method, cell.key.polish)
                methods.setdefault(method, {})[cell.key.size] = cell
            lines = [
                (method, "–".join(map(str, sorted({len(each.errors) for each in cells.values()}))),
                 [cells.get(size) for size in sizes])
                for method, cells in methods.items()
            ]  # fmt: skip
            full = ", ".join(
                f"{title(cell.key.method)} {cell.seconds:.3g} s"
                for cell in result.cells(data, k)
                if cell.key.method in FULL
            )
            yield ResultTable(f"{data}, k = {k}", full, headings, lines)


def error_text(cell: Cell | None) -> str:
    """Format an error with the half-width of its 95 % interval, such as 18.5 % ± 0.2."""
    if cell is None:
        return ""
    half = "" if np.isnan(cell.interval) else f" ± {100 * cell.interval:.1f}"
    return f"{100 * cell.error:.1f} %{half}"


def speedup_text(cell: Cell | None) -> str:
    """Format a speedup, such as 828×; below ten, with one decimal."""
    if cell is None:
        return ""
    return f"{cell.speedup:,.1f}×" if cell.speedup < 10 else f"{cell.speedup:,.0f}×"


def to_rich(result: CompareResult, *, holdout: bool = False) -> list[Table]:
    """Return one table per data set and k for a terminal, with speedups below errors."""
    from rich.table import Table
    from rich.text import Text

    made = []
    for each in _tables(result, holdout):
        table = Table(
            # As Text: rich would take a data set [b] for markup.
            title=Text(f"{each.title} ({each.full})", style="table.title"),
            caption="error relative to full ± 95 % interval, speedup",
        )
        table.add_column("method (seeds)")
        for heading in each.headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for method, seeds, cells in each.lines:
            texts = (f"{error_text(cell)}\n{speedup_text(cell)}" for cell in cells)
            table.add_row(f"{method} ({seeds})", *texts)
        made.append(table)
    return made


def _schema() -> pa.Schema:
    import pyarrow as pa

    texts = {"data": pa.string(), "method": pa.string()}
    keys = [(field.name, texts.get(field.name, pa.int64())) for field in fields(Key)]
    return pa.schema(keys + [(field.name, pa.float64()) for field in fields(Trial)[1:]])


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CompareResult:
    """Return the comparison that was saved as this table."""
    with reading(name):
        read_setup(metadata)
        return CompareResult(tuple(_trials(table)))


def read_setup(metadata: dict[str, Any]) -> Setup:
    """Return the setup that a file was saved with."""
    saved = Fields(metadata).inner("setup")
    return Setup(
        n_samples=saved.integer("n_samples", least=1),
        n_features=saved.integer("n_features", least=1),
        spread=saved.number("spread", least=0.0),
        holdout_rows=saved.integer("holdout_rows"),
        first_seed=saved.integer("first_seed"),
    )


def _trials(table: pa.Table) -> Iterator[Trial]:
    """Yield the solutions of a table, all of whose columns are checked."""
    from lwcs.storage import arrow_tables as tables

    schema = _schema()
    tables.check_columns(table, schema.names)
    for field in schema:
        if table[field.name].type != field.type:
            raise ValueError(
                f"column {field.name!r} holds {table[field.name].type}, must be {field.type}"
            )
    texts = ("data", "method")
    for name in texts:
        tables.texts_of(table, name)
    for name in schema.names:
        if name not in (*texts, "holdout_cost"):
            tables.check_numbers(
                tables.column_of(table, name), name, 1 if name == "n_clusters" else 0
            )
    held = table["holdout_cost"].combine_chunks().drop_null()
    tables.check_numbers(tables.numbers_of(held, "holdout_cost"), "holdout_cost", 0.0)
    keys = set()
    for row in table.to_pylist():
        key = Key(**{field.name: row.pop(field.name) for field in fields(Key)})
        if key.method not in METHODS:
            raise ValueError(f"column 'method' holds {key.method!r}, which is not a method")
        if key in keys:
            raise ValueError(f"{key} is there twice, must be there once")
        keys.add(key)
        yield Trial(key, **row)

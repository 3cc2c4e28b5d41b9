"""Tables in the layout of Table 1 of the paper: error ± 95 % interval, speedup."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lwcs.comparing.methods import FULL, METHODS, title
from lwcs.storage import persistence as storage
from lwcs.storage.atomic_write import check_target
from lwcs.storage.fields import Fields, reading
from lwcs.storage.locations import DEFAULT
from lwcs.storage.persistence import Tabular

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from rich.table import Table

    from lwcs.storage.locations import Access


def _columns(result: CompareResult) -> list[int]:
    """Return the sizes of a table's columns; 0 is for methods that use all rows."""
    return sorted({trial.key.size for trial in result.trials})


def _heading(size: int) -> str:
    return f"m = {size:,}" if size else "all rows"


class Line(NamedTuple):
    """One line of a table: a method, its number of seeds, and its cell (or None) per size."""

    title: str
    seeds: str
    cells: list[Cell | None]


def table_lines(result: CompareResult, data: str, k: int, *, holdout: bool) -> list[Line]:
    """Return the lines of the table for one data set and one k."""
    lines: dict[str, dict[int, Cell]] = {}
    for cell in result.cells(data, k, holdout=holdout):
        lines.setdefault(title(cell.key.method, cell.key.polish), {})[cell.key.size] = cell
    return [
        Line(
            name,
            "–".join(map(str, sorted({len(cell.errors) for cell in by_size.values()}))),
            [by_size.get(size) for size in _columns(result)],
        )
        for name, by_size in lines.items()
    ]


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


def to_markdown(result: CompareResult, *, holdout: bool = False) -> str:
    """Return one Markdown table per data set and k: first the errors, then the speedups."""
    sizes = [_heading(size) for size in _columns(result)]
    head = ["method", "seeds", *(f"error, {s}" for s in sizes), *(f"speedup, {s}" for s in sizes)]
    parts = []
    for data in result.data:
        for k in result.clusters(data):
            lines = [
                f"**{data}, k = {k}** ({full_text(result, data, k)})",
                "",
                f"| {' | '.join(head)} |",
                f"|---|{'---:|' * (len(head) - 1)}",
            ]
            for line in table_lines(result, data, k, holdout=holdout):
                cells = [*map(error_text, line.cells), *map(speedup_text, line.cells)]
                lines.append(f"| {' | '.join([line.title, line.seeds, *cells])} |")
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def to_tables(result: CompareResult, *, holdout: bool = False) -> list[Table]:
    """Return one table per data set and k for a terminal, with speedups below errors."""
    from rich.table import Table
    from rich.text import Text

    tables = []
    for data in result.data:
        for k in result.clusters(data):
            table = Table(
                # As Text: rich would take a data set [b] for markup.
                title=Text(f"{data}, k = {k} ({full_text(result, data, k)})", style="table.title"),
                caption="error relative to full ± 95 % interval, speedup",
            )
            table.add_column("method (seeds)")
            for size in _columns(result):
                table.add_column(_heading(size), justify="right", no_wrap=True)
            for line in table_lines(result, data, k, holdout=holdout):
                cells = [f"{error_text(cell)}\n{speedup_text(cell)}" for cell in line.cells]
                table.add_row(f"{line.title} ({line.seeds})", *cells)
            tables.append(table)
    return tables


def to_text(result: CompareResult) -> str:
    """Return the tables as plain text."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    console = Console(width=200, file=text)
    for table in to_tables(result):
        console.print(table)
    return text.getvalue()


def full_text(result: CompareResult, data: str, k: int) -> str:
    """Return how long k-means on all rows took."""
    times = [
        f"{title(cell.key.method)} {cell.seconds:.3g} s"
        for cell in result.cells(data, k)
        if cell.key.method in FULL
    ]
    return ", ".join(times)


KIND = "comparison"
_LEAST = {
    "n_clusters": 1,
    "polish": 0,
    "size": 0,
    "seed": 0,
    "build_seconds": 0.0,
    "solve_seconds": 0.0,
    "cost": 0.0,
}
"""The least values of columns of numbers."""


@dataclass(frozen=True, slots=True)
class Key:
    """What identifies a solution; a comparison has one solution per key."""

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
            own, theirs = getattr(self, field.name), getattr(other, field.name)
            if own != theirs and not (
                field.name == "spread" and np.isclose(own, theirs, rtol=1e-6, atol=0.0)
            ):
                raise ValueError(
                    f"{path!r} holds a comparison with {field.name}={theirs!r}, not {own!r}; "
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
        """Return Markdown tables like Table 1 of the paper."""
        return to_markdown(self, holdout=holdout)

    def __str__(self) -> str:

        return to_text(self)

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


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("data", pa.string()),
            ("n_clusters", pa.int64()),
            ("method", pa.string()),
            ("polish", pa.int64()),
            ("size", pa.int64()),
            ("seed", pa.int64()),
            ("build_seconds", pa.float64()),
            ("solve_seconds", pa.float64()),
            ("cost", pa.float64()),
            ("holdout_cost", pa.float64()),
        ]
    )


def from_table(table: pa.Table, metadata: dict[str, Any], name: str) -> CompareResult:
    """Return the comparison that was saved as this table."""
    with reading(name):
        read_setup(metadata)
        return CompareResult(tuple(_trials(table)))


def read_setup(metadata: dict[str, Any]) -> Setup:
    """Return the setup that a file was saved with."""
    own = Fields(metadata).inner("setup")
    return Setup(
        n_samples=own.integer("n_samples", least=1),
        n_features=own.integer("n_features", least=1),
        spread=own.number("spread", least=0.0),
        holdout_rows=own.integer("holdout_rows"),
        first_seed=own.integer("first_seed"),
    )


def _trials(table: pa.Table) -> Iterator[Trial]:
    """Yield the solutions of a table, all of whose columns are checked."""
    from lwcs.storage.arrow_tables import (
        check_columns,
        check_numbers,
        column_of,
        numbers_of,
        texts_of,
    )

    schema = _schema()
    check_columns(table, schema.names)
    for field in schema:
        if table[field.name].type != field.type:
            raise ValueError(
                f"column {field.name!r} holds {table[field.name].type}, must be {field.type}"
            )
    for name in ("data", "method"):
        texts_of(table, name)
    for name, least in _LEAST.items():
        check_numbers(column_of(table, name), name, least)
    held = table["holdout_cost"].combine_chunks().drop_null()
    check_numbers(numbers_of(held, "holdout_cost"), "holdout_cost", 0.0)
    keys = set()
    for row in table.to_pylist():
        key = Key(**{field.name: row.pop(field.name) for field in fields(Key)})
        if key.method not in METHODS:
            raise ValueError(f"column 'method' holds {key.method!r}, which is not a method")
        if key in keys:
            raise ValueError(f"{key} is there twice, must be there once")
        keys.add(key)
        yield Trial(key, **row)


class Log:
    """The file of a running comparison, replaced atomically so that it is always complete."""

    def __init__(
        self, path: str | os.PathLike[str] | None, setup: Setup, access: Access = DEFAULT
    ) -> None:
        self._path, self._setup, self._access = path, setup, access
        self.trials: dict[Key, Trial] = {}
        if path is None:
            return
        check_target(path, access)
        if access.place(path).exists():
            table, metadata = storage.read_table(path, access)
            if metadata.get("kind") != KIND:
                raise ValueError(f"{str(path)!r} is not a saved comparison; choose another file")
            found = from_table(table, metadata, str(path))
            setup.check_same(read_setup(metadata), str(path))
            self.add(found.trials, write=False)

    def add(self, trials: Iterable[Trial], *, write: bool = True) -> None:
        """Append solutions, and save them."""
        self.trials |= {trial.key: trial for trial in trials}
        if write and self._path is not None:
            table = self.result().to_arrow()
            sealed = storage.with_metadata(table, KIND, {"setup": asdict(self._setup)})
            storage.write_table(sealed, self._path, self._access)

    def result(self) -> CompareResult:
        """Return the solutions so far, in order."""
        return CompareResult(tuple(self.trials[key] for key in sorted(self.trials, key=astuple)))

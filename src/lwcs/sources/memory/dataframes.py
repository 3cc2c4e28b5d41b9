"""Rows in a pandas, polars or pyarrow table (anything that narwhals supports), block by block."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from narwhals.exceptions import DuplicateError

from lwcs.sources.arrow_rows import as_lists, has_nulls, missing_in, values_in
from lwcs.sources.base import Block
from lwcs.sources.column_types import WHY, days_of
from lwcs.sources.columns import Selection, matched
from lwcs.sources.memory.local import LocalSource
from lwcs.sources.scan_options import check_one_level, check_unique

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lwcs.arrays.types import DenseRows, IntArray, Mask
    from lwcs.sources.scan_options import ScanOptions

_IN_COLUMNS = "pass their real and imaginary parts as columns"
_LOOK = 1000
"""Number of Python objects from which their type is inferred."""


class TableSource(LocalSource):
    """Some columns of a table; they are copied one block at a time, never as a whole."""

    selection: Selection

    def __init__(self, table: Any, options: ScanOptions) -> None:
        self.frame = frame = _as_frame(table)
        check_unique([str(name) for name in frame.columns])
        columns = {str(series.name): _GivenColumn.of(series) for series in frame.iter_columns()}
        known = getattr(getattr(table, "schema", None), "metadata", None)
        schema = pa.schema([given.field(name) for name, given in columns.items()], known)
        selection = Selection.of(schema, options, lambda name: columns[name].first())
        self._use(selection)
        self.named_by_text = all(isinstance(name, str) for name in frame.columns)
        self.n_rows, self._drop = len(frame), options.drop
        self._columns = [
            columns[name].column(width, name, as_days=name in selection.dates)
            for name, width, _ in selection.places()
        ]
        self._no_weight: Mask | None = None
        if selection.weight is not None:
            self._set_weights(columns[selection.weight], selection.weight)
        if selection.by_default:
            selection.warn_of_identifiers(self._identifiers())

    def _identifiers(self) -> list[str]:
        """Columns that look like identifiers in the first rows without missing values."""
        first = slice(0, min(self.n_rows, self.block_rows))
        gaps = np.zeros(first.stop, dtype=bool)
        for column in self._columns:
            gaps |= column.missing(first)
        return self.selection.looking_like_identifiers(Block(self._filled(first), None, 0, gaps))

    def _set_weights(self, given: _GivenColumn, name: str) -> None:
        column = given.column(None, name)
        gaps = column.missing(_ALL)
        weights = np.asarray(column.values(_ALL), dtype=np.float64)
        if gaps.any() and not self._drop:
            raise ValueError(
                f"the weight column {name!r} has a missing value in row "
                f"{int(np.flatnonzero(gaps)[0])}; every row needs a weight (a weight of 0 ignores "
                "the row)"
            )
        self._no_weight = gaps
        self.set_weights(np.where(gaps, 0.0, weights), f"weight column {name!r}")

    def read(self, start: int, stop: int) -> DenseRows:
        """Copy some rows."""
        return self._checked(slice(start, stop))

    def take(self, rows: IntArray) -> DenseRows:
        """Copy the requested rows."""
        return self._checked(rows)

    def beside(self, columns: Sequence[str], rows: IntArray) -> pa.Table:
        """Some columns of any type, by name or pattern, of the requested rows."""
        names = matched(columns, list(map(str, self.frame.columns)), "keep")
        series = {str(each.name): each for each in self.frame.iter_columns()}
        return pa.table({name: pa.array(series[name][rows].to_list()) for name in names})

    def _checked(self, rows: slice | IntArray) -> DenseRows:
        if not self._drop and any(column.has_nulls(rows) for column in self._columns):
            raise self._missing()
        return self._filled(rows)

    def _filled(self, rows: slice | IntArray) -> DenseRows:
        """Rows with 0 in place of nulls."""
        n_rows = len(range(*rows.indices(self.n_rows))) if isinstance(rows, slice) else len(rows)
        array = np.empty((n_rows, self.n_features), dtype=self.dtype)
        for column, (name, width, part) in zip(self._columns, self.selection.places(), strict=True):
            values = column.values(rows)
            self.selection.note(name, values)
            array[:, part.start if width is None else part] = values
        return array

    def _missing_rows(self) -> Mask:
        """Rows with a null or NaN among the features or the weight."""
        gaps = np.zeros(self.n_rows, dtype=bool) if self._no_weight is None else self._no_weight
        for column in self._columns:
            gaps = gaps | column.missing(_ALL)
        return gaps

    def _missing(self) -> ValueError:
        """Name the first row of all that has a missing value, and count such rows."""
        gaps = np.stack([column.missing(_ALL) for column in self._columns], axis=1)
        row, at = map(int, np.argwhere(gaps)[0])
        count = int(gaps.any(axis=1).sum())
        return ValueError(
            f"column {self.selection.columns[at]!r} has a missing value in row {row}"
            f"{f', the first of {count:,} such rows' if count > 1 else ''}; values must be present "
            "and finite: fill the missing values, or drop such rows with "
            "lwcs.scan(…, missing='drop')"
        )


_ALL = slice(None)


@dataclass(frozen=True, slots=True)
class _SeriesColumn:
    """A column of numbers, in the library of its table."""

    series: nw.Series[Any]

    def has_nulls(self, rows: slice | IntArray) -> bool:
        """Whether some of these rows have a null."""
        return bool(self.series[rows].null_count())

    def values(self, rows: slice | IntArray) -> DenseRows:
        """The numbers of these rows, with 0 in place of nulls."""
        part = self.series[rows]
        return np.asarray((part.fill_null(0) if part.null_count() else part).to_numpy())

    def missing(self, rows: slice) -> Mask:
        """Which of these rows have a null or NaN."""
        gaps = np.asarray(self.series[rows].is_null().to_numpy(), dtype=bool)
        # Not all libraries distinguish null and NaN.
        return gaps | np.isnan(self.values(rows)) if self.series.dtype.is_float() else gaps


@dataclass(frozen=True, slots=True)
class _ArrowColumn:
    """Decimals, booleans, Python objects, or vectors as lists of a fixed size, in Arrow."""

    column: pa.ChunkedArray
    """In its chunks: to put them together would copy it."""

    @classmethod
    def of(cls, whole: Any, changed: Callable[[pa.Array, int], pa.Array]) -> _ArrowColumn:
        """A column whose chunks, each with its first row, are changed to what is read."""
        chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
        chunks = chunks or [pa.array([], whole.type)]
        firsts = np.cumsum([0, *map(len, chunks)]).tolist()
        return cls(pa.chunked_array(map(changed, chunks, firsts)))

    def _part(self, rows: slice | IntArray) -> pa.Array:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self.column))
            part = self.column.slice(start, stop - start)
            return part.chunk(0) if part.num_chunks == 1 else part.combine_chunks()
        # The `take` of pyarrow would put all chunks together.
        ends = np.cumsum([len(chunk) for chunk in self.column.chunks])
        homes = np.searchsorted(ends, rows, side="right")
        parts, places = [self.column.chunk(0).slice(0, 0)], np.argsort(homes, kind="stable")
        for home in np.unique(homes).tolist():
            chunk = self.column.chunk(home)
            parts.append(chunk.take(pa.array(rows[homes == home] - ends[home] + len(chunk))))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(places)))

    def has_nulls(self, rows: slice | IntArray) -> bool:
        return has_nulls(self._part(rows))

    def values(self, rows: slice | IntArray) -> DenseRows:
        return values_in(self._part(rows))

    def missing(self, rows: slice) -> Mask:
        return missing_in(self._part(rows), nan=True)


_Column = _SeriesColumn | _ArrowColumn


@dataclass(frozen=True, slots=True)
class _GivenColumn:
    """A column of the user's table: a series, and its Python objects in Arrow, where possible."""

    series: nw.Series[Any]
    objects: pa.Array | None = None
    why: str = ""

    @classmethod
    def of(cls, series: nw.Series[Any]) -> _GivenColumn:
        """Convert Python objects to Arrow, since their type is not known to the table."""
        in_arrow = isinstance(series.to_native(), pa.Array | pa.ChunkedArray)
        if in_arrow or not isinstance(series.dtype, nw.Object | nw.Unknown):
            return cls(series)
        values = series.to_list()
        first = [value for value in values[:_LOOK] if value is not None]
        if first and all(isinstance(value, str) for value in first):
            return cls(series, pa.array([], pa.string()))
        if any(isinstance(value, complex) for value in first):
            return cls(series, why=f"complex numbers; {_IN_COLUMNS}")
        if any(isinstance(value, set | frozenset) for value in first):
            return cls(series, why="sets, whose elements have no order; pass lists of one length")
        try:
            return cls(series, pa.array(values, from_pandas=True))
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            kinds = sorted({type(value).__name__ for value in values if value is not None})
            return cls(
                series, why=f"Python objects ({', '.join(kinds[:3])}); turn them into numbers"
            )

    def field(self, name: str) -> pa.Field:
        """Name and type."""
        if self.why:
            return pa.field(name, pa.string(), metadata={WHY: self.why})
        if self.objects is not None:
            return pa.field(name, self.objects.type)
        try:
            kind = self.series.head(0).to_arrow().type
        except (pa.ArrowException, TypeError):
            why = f"{self.series.dtype}, which Arrow does not know; cast it to float64"
            return pa.field(name, pa.string(), metadata={WHY: why})
        # pandas 2 keeps text as Python objects, whose type Arrow cannot tell without rows.
        objects = pa.types.is_null(kind) and isinstance(self.series.dtype, nw.String)
        return pa.field(name, pa.string() if objects else kind)

    def whole(self) -> pa.Array | pa.ChunkedArray:
        """All values, in Arrow."""
        return self._native() if self.objects is None else self.objects

    def _native(self) -> pa.Array | pa.ChunkedArray:
        native = self.series.to_native()
        return native if isinstance(native, pa.ChunkedArray) else self.series.to_arrow()

    def first(self) -> list[Any]:
        """The first values that are not missing."""
        return self.whole().drop_null().slice(0, _LOOK).to_pylist()

    def column(self, width: int | None, name: str, *, as_days: bool = False) -> _Column:
        """The column as a feature, or as vectors of some length."""
        if as_days:
            return _ArrowColumn.of(self.whole(), lambda chunk, _: days_of(chunk))
        if width is not None:
            return _ArrowColumn.of(
                self.whole(), lambda chunk, first: as_lists(chunk, width, name, "", first)
            )
        kind = self.series.dtype
        if self.objects is None and kind.is_numeric() and not isinstance(kind, nw.Decimal):
            return _SeriesColumn(self.series)
        return _ArrowColumn.of(self.whole(), lambda chunk, _: chunk)


def as_arrow(table: Any) -> pa.Table:
    """A table with all of its columns in Arrow; those that Arrow has no type for are null."""
    frame, columns = _as_frame(table), dict[str, pa.Array]()
    for series in frame.iter_columns():
        given = _GivenColumn.of(series)
        values = pa.nulls(len(frame))
        with suppress(pa.ArrowException, TypeError):
            if given.objects is not None and not len(given.objects):
                values = pa.array(map(_text_of, series.to_list()), pa.string())
            elif not given.why:
                values = given.whole()
        columns[str(series.name)] = values
    known = getattr(getattr(table, "schema", None), "metadata", None)
    return pa.table(columns).replace_schema_metadata(known)


def _text_of(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _as_frame(table: Any) -> nw.DataFrame[Any]:
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    try:
        frame = nw.from_native(table, eager_only=True)
    except DuplicateError:
        check_unique(getattr(table, "column_names", table.columns))
        raise
    except TypeError:
        raise TypeError(
            f"data of type {type(table).__module__}.{type(table).__name__} is not a table in "
            "memory; pass a DataFrame or a Table"
        ) from None
    check_one_level(frame.columns)
    return frame

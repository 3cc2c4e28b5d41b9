"""Rows in a pandas, polars or pyarrow table (anything that narwhals supports), block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from lwcs.foundation.checks import check_choice
from lwcs.sources.base import LocalSource
from lwcs.sources.checks import check_one_level, check_unique

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.foundation.types import DenseRows, IntArray

_NUMPY: dict[type, type] = {
    nw.Boolean: np.uint8,
    nw.Int8: np.int8,
    nw.Int16: np.int16,
    nw.Int32: np.int32,
    nw.Int64: np.int64,
    nw.UInt8: np.uint8,
    nw.UInt16: np.uint16,
    nw.UInt32: np.uint32,
    nw.UInt64: np.uint64,
    nw.Float16: np.float16,
    nw.Float32: np.float32,
    nw.Float64: np.float64,
    nw.Decimal: np.float64,
}


class TableSource(LocalSource):
    """Some columns of a table; they are copied one block at a time, never as a whole."""

    feature_names: tuple[str, ...]

    def __init__(
        self, table: Any, columns: Sequence[str] | None = None, weight: str | None = None
    ) -> None:
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
        names = [str(name) for name in frame.columns]
        if columns is None:
            chosen = [name for name in names if name != weight]
        else:
            chosen = [columns] if isinstance(columns, str) else [str(name) for name in columns]
        for name in [*chosen, *([weight] if weight is not None else ())]:
            check_choice(name, "column", names)
        check_unique(names)
        if len(set(chosen)) < len(chosen):
            twice = next(name for name in chosen if chosen.count(name) > 1)
            raise ValueError(f"columns= must be unique, but {twice!r} occurs more than once")
        if not chosen:
            raise ValueError("no column is selected; select at least one with columns=[…]")
        schema = frame.schema
        native = dict(zip(names, frame.columns, strict=True))
        foreign = [n for n in chosen if type(schema[native[n]]) not in _NUMPY]
        if foreign:
            raise TypeError(
                f"column {foreign[0]!r} holds {schema[native[foreign[0]]]}, not numbers"
                + (f" (and {len(foreign) - 1} more columns)" if len(foreign) > 1 else "")
                + "; select numeric columns with lwcs.scan(data, columns=[…])"
            )
        self.frame = frame.select(*[nw.col(native[n]) for n in chosen])
        self.dtype = np.result_type(*[_NUMPY[type(schema[native[n]])] for n in chosen])
        self.feature_names = tuple(chosen)
        self.n_rows, self.n_features = self.frame.shape
        self.weight_values = None if weight is None else _numbers(frame[native[weight]], weight)

    def read(self, start: int, stop: int) -> DenseRows:
        """Copy some rows."""
        return self._as_array(self.frame[start:stop], range(start, stop))

    def take(self, rows: IntArray) -> DenseRows:
        """Copy the requested rows."""
        return self._as_array(self.frame[rows, :], rows)

    def _as_array(self, part: nw.DataFrame[Any], rows: Sequence[int] | IntArray) -> DenseRows:
        array = np.empty(part.shape, dtype=self.dtype)
        for j, series in enumerate(part.iter_columns()):
            if series.null_count():
                at = int(np.flatnonzero(series.is_null().to_numpy())[0])
                raise ValueError(
                    f"column {self.feature_names[j]!r} has a missing value in row {rows[at]}; "
                    "values must be present and finite: drop such rows, or fill the missing values"
                )
            array[:, j] = series.to_numpy()
        return array


def _numbers(series: nw.Series[Any], name: str) -> DenseRows:
    if type(series.dtype) not in _NUMPY:
        raise TypeError(f"the weight column {name!r} holds {series.dtype}, not numbers")
    if series.null_count():
        row = int(np.flatnonzero(series.is_null().to_numpy())[0])
        raise ValueError(
            f"the weight column {name!r} has a missing value in row {row}; "
            "every row needs a weight (a weight of 0 ignores the row)"
        )
    return np.asarray(series.to_numpy(), dtype=np.float64)

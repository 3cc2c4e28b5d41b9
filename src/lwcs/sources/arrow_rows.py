"""Arrow record batches as rows of numbers: their columns, and missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwcs.arrays.rows import row_numbers
from lwcs.kernels.hashes import as_rows
from lwcs.sources.column_types import numbers_of
from lwcs.sources.vectors import in_form, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lwcs.arrays.types import DenseRows, FloatArray, Mask
    from lwcs.sources.columns import Selection


def first_values(batches: Iterable[pa.RecordBatch], name: str) -> list[Any]:
    """Values of a column, from the first batch where any is present."""
    for batch in batches:
        present = batch.column(name).drop_null()
        if len(present):
            return present.slice(0, _LOOK).to_pylist()
    return []


_LOOK = 1000
"""Number of values that are enough to see whether lists have one length."""


@dataclass(slots=True)
class ArrowBatch:
    """A record batch whose columns are copied into rows."""

    batch: pa.RecordBatch
    selection: Selection
    drop: bool
    place: str
    first_row: int
    """Row number of the first row in the file or partition that `place` names."""
    beside: pa.RecordBatch | None = None

    @classmethod
    def of(
        cls,
        batch: pa.RecordBatch,
        selection: Selection,
        drop: bool,
        place: str,
        first_row: int,
        beside: pa.RecordBatch | None = None,
    ) -> ArrowBatch:
        """A batch whose vectors are lists of a fixed size; columns that do not fit are refused."""
        formed = in_form(batch, selection, place, first_row)
        return cls(formed, selection, drop, place, first_row, beside)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    @property
    def _where(self) -> str:
        return f" of {self.place}" if self.place else ""

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy columns into rows."""
        selection = self.selection
        if not any(selection.widths):
            columns = [self._numbers(name, start, stop) for name in selection.columns]
            as_rows(columns, out)
            return
        for name, width, part in selection.places():
            if width is None:
                out[:, part.start] = self._numbers(name, start, stop)
            else:
                out[:, part] = self._vectors(name, start, stop)

    def _numbers(self, name: str, start: int, stop: int) -> DenseRows:
        column = self.batch.column(name).slice(start, stop - start)
        if column.null_count:
            self._refuse(column.is_null(), name, start)
            column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
        return numbers_of(column)

    def _vectors(self, name: str, start: int, stop: int) -> DenseRows:
        """The numbers of a column of vectors, one row per vector; zeros for a missing vector."""
        column = self.batch.column(name).slice(start, stop - start)
        width, values = column.type.list_size, values_of(column)
        if column.null_count:
            self._refuse(column.is_null(), name, start)
        if values.null_count:
            gaps = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, width).any(axis=1)
            if column.null_count:
                gaps &= column.is_valid().to_numpy(zero_copy_only=False)
            if gaps.any():
                self._refuse(gaps, name, start)
            values = values.fill_null(False if pa.types.is_boolean(values.type) else 0)
        rows = numbers_of(values).reshape(-1, width)
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            rows = np.where(valid[:, None], rows, np.zeros((), dtype=rows.dtype))
        return rows

    def _refuse(self, gaps: Any, name: str, start: int) -> None:
        """Name the first row that has a missing value, unless such rows are dropped."""
        if self.drop:
            return
        at = int(np.flatnonzero(np.asarray(gaps))[0])
        for other in self.selection.columns_to_read:
            # The first row of all, not that of the first column.
            before = self._gaps(other, start, at)
            if before.any():
                name, at = other, int(np.flatnonzero(before)[0])
        raise ValueError(
            f"column {name!r} has a missing value in row {self.first_row + start + at}"
            f"{self._where}; "
            "values must be present and finite: fill the missing values, or drop such rows with "
            "lwcs.scan(…, missing='drop')"
        )

    def _gaps(self, name: str, start: int, n_rows: int) -> Mask:
        """Rows that have a null in a column, or in its vectors."""
        column = self.batch.column(name).slice(start, n_rows)
        gaps: Mask = column.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_fixed_size_list(column.type):
            inside = values_of(column).is_null().to_numpy(zero_copy_only=False)
            gaps = gaps | inside.reshape(-1, column.type.list_size).any(axis=1)
        return gaps

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """The column of weights, checked."""
        name = self.selection.weight
        if name is None:
            return None
        column = self.batch.column(name).slice(start, stop - start)
        if column.null_count:
            self._refuse(column.is_null(), name, start)
            column = column.fill_null(0)
        values = numbers_of(column).astype(np.float64)
        if self.drop:
            values = np.where(np.isnan(values), 0.0, values)
        bad = np.flatnonzero(~((values >= 0.0) & (values < np.inf)))
        if len(bad):
            raise ValueError(
                f"the weight in row {self.first_row + start + int(bad[0])}, column {name!r}"
                f"{self._where} is {values[bad[0]]}; every weight must be finite and >= 0"
            )
        return values

    def missing_sparse(self, vectors: Any) -> Mask:
        """Rows with a null or NaN among the features or the weight, for vectors in CSR format."""
        name, n_rows = self.selection.columns[0], self.n_rows
        gaps = self.batch.column(name).is_null().to_numpy(zero_copy_only=False)
        if gaps.any():
            self._refuse(gaps, name, 0)
        if not self.drop:
            return gaps
        nans = np.bincount(row_numbers(vectors), np.isnan(vectors.data), n_rows)
        gaps = gaps | (nans > 0)
        if self.selection.weight is not None:
            nulls = pc.is_null(self.batch.column(self.selection.weight), nan_is_null=True)
            gaps |= nulls.to_numpy(zero_copy_only=False)
        return gaps

    def missing(self, start: int, stop: int) -> Mask | None:
        """Rows with a null or NaN among the features or the weight, if they are dropped."""
        if not self.drop:
            return None
        bad = np.zeros(stop - start, dtype=bool)
        for name in self.selection.columns_to_read:
            column = self.batch.column(name).slice(start, stop - start)
            if pa.types.is_fixed_size_list(column.type):
                nulls = pc.is_null(values_of(column), nan_is_null=True)
                gaps = nulls.to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)
                bad |= gaps.any(axis=1)
                bad |= column.is_null().to_numpy(zero_copy_only=False)
            elif column.null_count or pa.types.is_floating(column.type):
                nulls = pc.is_null(column, nan_is_null=True)
                bad |= nulls.to_numpy(zero_copy_only=False)
        return bad if bad.any() else None

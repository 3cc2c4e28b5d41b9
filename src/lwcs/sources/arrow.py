"""Arrow record batches as rows of numbers: which columns, their type, and missing values."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lwcs.foundation.checks import check_choice
from lwcs.foundation.rows import row_numbers
from lwcs.sources.checks import check_unique

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.foundation.types import DenseRows, FloatArray, Mask


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns of a schema that are features, in order, and the column of weights."""

    columns: tuple[str, ...]
    weight: str | None
    feature_names: tuple[str, ...]
    dtype: np.dtype[Any]
    vector: bool
    """Whether there is one column, which holds a vector in every row."""
    skipped: tuple[str, ...]

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        columns: Sequence[str] | str | None = None,
        weight: str | None = None,
        leave_out: Sequence[str] = (),
    ) -> Selection:
        """Select columns by name or pattern (``"x*"``); by default all that hold numbers.

        The columns of `leave_out` are selected only by name.
        """
        names = list(schema.names)
        check_unique(names)
        if weight is not None:
            check_choice(weight, "column", names)
            numpy_type(schema.field(weight).type, weight)
        if columns is None:
            rest = [name for name in names if name != weight and name not in leave_out]
            chosen = [name for name in rest if _is_number(schema.field(name).type)]
            vectors = [name for name in rest if _is_vector(schema.field(name).type)]
            if not chosen and len(vectors) == 1:
                chosen = vectors
            skipped = tuple(name for name in rest if name not in chosen)
            if not chosen:
                raise ValueError(
                    f"no column holds numbers; the columns are {', '.join(map(repr, names))}"
                    if names
                    else "the data has no columns; at least one column of numbers is required"
                )
        else:
            chosen, skipped = expand(columns, [n for n in names if n != weight]), ()
        kinds = [schema.field(name).type for name in chosen]
        if len(chosen) == 1 and _is_vector(kinds[0]):
            width = kinds[0].list_size
            dtype = numpy_type(kinds[0].value_type, chosen[0])
            features = tuple(f"{chosen[0]}[{j}]" for j in range(width))
            return cls(tuple(chosen), weight, features, dtype, True, skipped)
        types = [numpy_type(kind, name) for kind, name in zip(kinds, chosen, strict=True)]
        return cls(tuple(chosen), weight, tuple(chosen), np.result_type(*types), False, skipped)

    @property
    def columns_to_read(self) -> list[str]:
        """The columns of features, then the column of weights if there is one."""
        return [*self.columns, *([] if self.weight is None else [self.weight])]


def expand(columns: Sequence[str] | str, names: list[str], parameter: str = "columns") -> list[str]:
    """The columns that names and patterns select, in the order given, each once."""
    chosen: dict[str, None] = {}
    for wish in [columns] if isinstance(columns, str) else map(str, columns):
        if any(sign in wish for sign in "*?[") and wish not in names:
            found = [name for name in names if fnmatchcase(name, wish)]
            if not found:
                raise ValueError(
                    f"no column matches {wish!r}; the columns are {', '.join(map(repr, names))}"
                )
            chosen |= dict.fromkeys(found)
            continue
        check_choice(wish, "column", names)
        if wish in chosen:
            raise ValueError(f"{parameter}= must be unique, but {wish!r} is given more than once")
        chosen[wish] = None
    if not chosen:
        raise ValueError(f"no column is selected; select at least one with {parameter}=[…]")
    return list(chosen)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and _is_number(kind.value_type))


def numpy_type(kind: pa.DataType, name: str) -> np.dtype[Any]:
    """The dtype of a column of numbers; any other column is refused."""
    if not _is_number(kind):
        raise TypeError(
            f"column {name!r} holds {kind}, not numbers; select numeric columns with columns=[…]"
        )
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    return np.dtype(np.uint8 if pa.types.is_boolean(kind) else kind.to_pandas_dtype())


def values_of(vectors: pa.FixedSizeListArray) -> pa.Array:
    """The numbers of all vectors, also of missing ones, which `flatten` leaves out."""
    width = vectors.type.list_size
    return vectors.values.slice(vectors.offset * width, len(vectors) * width)


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

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    @property
    def _where(self) -> str:
        return f" of {self.place}" if self.place else ""

    def write(self, start: int, stop: int, out: DenseRows) -> None:
        """Copy columns into rows."""
        columns = [self._values(name, start, stop) for name in self.selection.columns]
        if self.selection.vector:
            out[...] = columns[0]
            return
        np.stack(columns, axis=1, out=out, casting="unsafe")

    def _values(self, name: str, start: int, stop: int) -> DenseRows:
        column = self.batch.column(name).slice(start, stop - start)
        if self.selection.vector:
            return self._vectors(column, name, start)
        if column.null_count:
            self._refuse(column.is_null(), name, start)
            column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def _vectors(self, column: pa.Array, name: str, start: int) -> DenseRows:
        """The numbers of a column of vectors, one row per vector; zeros for a missing vector."""
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
        if pa.types.is_decimal(values.type):
            values = values.cast(pa.float64())
        rows = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(-1, width)
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            rows = np.where(valid[:, None], rows, np.zeros((), dtype=rows.dtype))
        return rows

    def _refuse(self, gaps: Any, name: str, start: int) -> None:
        """Name the first row that has a missing value, unless such rows are dropped."""
        if self.drop:
            return
        at = int(np.flatnonzero(np.asarray(gaps))[0])
        raise ValueError(
            f"column {name!r} has a missing value in row {self.first_row + start + at}"
            f"{self._where}; "
            "values must be present and finite: fill the missing values, or drop such rows with "
            "missing='drop'"
        )

    def weights(self, start: int, stop: int) -> FloatArray | None:
        """The column of weights, checked."""
        name = self.selection.weight
        if name is None:
            return None
        column = self.batch.column(name).slice(start, stop - start)
        if column.null_count:
            self._refuse(column.is_null(), name, start)
            column = column.fill_null(0)
        # Weights are floats: large integers are rounded, as those of an array are.
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
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
            if self.selection.vector and name == self.selection.columns[0]:
                nulls = pc.is_null(values_of(column), nan_is_null=True)
                gaps = nulls.to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)
                bad |= gaps.any(axis=1)
                bad |= column.is_null().to_numpy(zero_copy_only=False)
            elif column.null_count or pa.types.is_floating(column.type):
                nulls = pc.is_null(column, nan_is_null=True)
                bad |= nulls.to_numpy(zero_copy_only=False)
        return bad if bad.any() else None

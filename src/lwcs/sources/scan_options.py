"""The options that `lwcs.scan` opens a source with, and checks of the data that sources are given.

A source refuses options that make no sense for its data, and values, shapes and column names that
cannot be clustered.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lwcs.arrays.checks import BadValueError, translating
from lwcs.storage.locations import Access

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

Missing = Literal["error", "drop"]


class Fitted(tuple[str, ...]):
    """The features that a model was fitted on, to be found by name in another table.

    They are no patterns: v[0] is the first element of the vectors in v, not a column v0.
    """


PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4", ".br": "brotli"}
"""Endings of compressed text files, and pyarrow's names for these compressions."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How text files are written; options that are None are recognized from the first lines."""

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header: bool | None = None
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Options of `lwcs.scan`, documented there; `missing` and `batch_size` have been checked."""

    columns: Sequence[str] | str | None = None
    exclude: Sequence[str] | str | None = None
    weight: Any = None
    missing: Missing = "error"
    batch_size: int | None = None
    dialect: Dialect = field(default_factory=Dialect)
    access: Access = field(default_factory=Access)
    format: str | None = None
    memory_limit: int | None = None

    @property
    def drop(self) -> bool:
        """Whether rows with a missing value are dropped."""
        return self.missing == "drop"

    @property
    def weight_column(self) -> str | None:
        """The name of the column of weights, if they are a column."""
        return self.weight if isinstance(self.weight, str) else None

    @property
    def weight_array(self) -> Any:
        """The weights, if they are not a column."""
        return None if isinstance(self.weight, str) else self.weight

    def refuse_columns(self, data: str) -> None:
        """Refuse the names of columns, for data that has none."""
        columns = None if isinstance(self.columns, Fitted) else self.columns
        named = {"columns": columns, "exclude": self.exclude, "weight": self.weight_column}
        for name, value in named.items():
            if value is not None:
                raise TypeError(
                    f"{name}={value!r} names columns, but {data} has no column names; index the "
                    "array to select columns, and pass weights as an array"
                )

    def refuse_drop(self, data: str, remedy: str) -> None:
        """Refuse to drop rows with missing values, for data that `remedy` can be applied to."""
        if self.drop:
            raise ValueError(
                f"missing='drop' is not supported for {data}; drop these rows first: {remedy}"
            )

    def refuse_weight_array(self) -> None:
        """Refuse weights that are not a column, where nothing says which row they belong to."""
        if self.weight_array is not None:
            raise ValueError(
                "weights in an array are for rows in memory and on Dask; for other data, name the "
                "column of weights with lwcs.scan(…, weight=…)"
            )

    def refuse_dialect(self, data: str) -> None:
        """Refuse the options of text files, for other data."""
        given = [name for name in self.dialect.__slots__ if getattr(self.dialect, name) is not None]
        if given:
            raise ValueError(
                f"{given[0]}= is for text files (CSV), but data is {data}; leave it out"
            )

    def refuse_access(self, data: str) -> None:
        """Refuse the options of files, for other data."""
        given = {
            "format": self.format,
            "filesystem": self.access.filesystem,
            "storage_options": self.access.storage_options or None,
        }
        if names := [name for name, value in given.items() if value is not None]:
            raise ValueError(f"{names[0]}= is for files, but data is {data}; leave it out")


def naming(place: str) -> AbstractContextManager[None]:
    """Name in errors which of several tables they are about; bad values are named by the source."""

    def translate(error: Exception) -> Exception | None:
        if isinstance(error, BadValueError) or not isinstance(error, (TypeError, ValueError)):
            return None
        kept = TypeError if isinstance(error, TypeError) else ValueError
        return kept(f"{place}: {error}")

    return translating(translate)


def check_dtype(dtype: np.dtype[Any], of: str = "") -> None:
    """Refuse values that are not real numbers of at most 64 bits; `of` follows the dtype."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise TypeError(
            f"data of dtype {dtype}{of} cannot be clustered; pass real numbers, for example "
            "X.astype(numpy.float64)"
        )


def check_shape(shape: tuple[float, ...] | None) -> None:
    """Refuse data that is not two-dimensional; an empty dataset of HDF5 has no shape at all."""
    if shape is None or len(shape) != 2:
        raise ValueError(
            f"data has shape {shape}; pass data of shape (n_rows, n_columns)"
            + (", for one column X.reshape(-1, 1)" if shape is not None and len(shape) == 1 else "")
        )


def check_not_empty(shape: tuple[float, ...]) -> None:
    """Refuse data without rows or without columns; a number that is not known is NaN."""
    if 0 in shape:
        raise ValueError(f"data has shape {shape}; at least one row and one column are required")


def check_one_level(names: Iterable[object]) -> None:
    """Refuse column names of several levels, which pandas writes as tuples."""
    if any(isinstance(name, tuple) for name in names):
        raise ValueError(
            "the columns have several levels; flatten them first, for example with "
            "frame.columns = ['_'.join(names) for names in frame.columns]"
        )


def check_unique(names: Iterable[object], place: str = "") -> None:
    """Refuse two columns of one name, in the data that `place` names."""
    seen: set[object] = set()
    for name in names:
        if name in seen:
            raise ValueError(
                f"column names must be unique, but {name!r} occurs more than once"
                f"{place and f' in {place}'}; rename one of them"
            )
        seen.add(name)

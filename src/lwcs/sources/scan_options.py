"""The options that `lwcs.scan` opens a source with, and checks of the data that sources are given.

A source refuses options that make no sense for its data, and values, shapes and column names that
cannot be clustered.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from lwcs.arrays.checks import BadValueError, translating
from lwcs.arrays.rows import is_real
from lwcs.storage.fields import Fields
from lwcs.storage.locations import Access

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

Missing = Literal["error", "drop"]
READING = "reading"
"""Entry of `Coreset.details` and of files of models: `Source.reading`."""


class Fitted(tuple[str, ...]):
    """The features that a model was fitted on, to be found by name in another table.

    They are not patterns: v[0] is the first element of the vectors in v, not a column v0.
    """

    reading: Mapping[str, Any] = MappingProxyType({})
    """How the rows of the model were read (`Source.reading`), for what is not given otherwise."""

    @classmethod
    def of(cls, names: Iterable[object], reading: Mapping[str, Any]) -> Fitted:
        """The features of a model, and how its rows were read."""
        fitted = cls(map(str, names))
        fitted.reading = reading
        return fitted


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

    def completed(self, columns: object) -> Dialect:
        """The dialect; what is not given is as in files that a model was fitted on."""
        known = columns.reading if isinstance(columns, Fitted) else {}
        return replace(self, **{n: known[n] for n in known.keys() & self.given_as_none()})

    def given_as_none(self) -> set[str]:
        """The options that are not given."""
        return {name for name in self.__slots__ if getattr(self, name) is None}


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
    dates: Literal["days"] | None = None
    scale: Any = None
    """Factors of rows that were quantized; a `scale` that is a name belongs to the source."""

    @property
    def text(self) -> Dialect:
        """The dialect of text files, where it is not given as those of a model were read."""
        return self.dialect.completed(self.columns)

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
        if not isinstance(self.columns, Fitted):
            named["dates"] = self.dates
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

    def refuse_factors(self, data: str) -> None:
        """Refuse factors of rows that others read."""
        if self.scale is not None:
            raise ValueError(
                f"scale= as numbers is not supported for data {data}; multiply the columns there, "
                "or pass scale='standard'"
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


def read_as(dialect: Dialect, missing: str, dates: str | None) -> dict[str, Any]:
    """The options that were given of those that files of the same kind are read with again."""
    given = {name: getattr(dialect, name) for name in dialect.__slots__}
    given |= {"missing": None if missing == "error" else missing, "dates": dates}
    return {name: value for name, value in given.items() if value is not None}


def read_reading(fields: Fields) -> dict[str, Any]:
    """Options that rows were read with, off the metadata of a file."""
    known = fields.record(READING, missing=True)
    inner = Fields(known, fields.full_name(READING))
    texts = {name: ["drop"] if name == "missing" else ["days"] for name in ("missing", "dates")}
    for name in known:
        if name == "header":
            inner.boolean(name)
        elif name in texts or name in Dialect.__slots__:
            inner.text(name, texts.get(name))
        else:
            raise fields.fail(READING, f"options of lwcs.scan, without {name!r}")
    return known


def naming(place: str, unless: str | None = None) -> AbstractContextManager[None]:
    """Name in errors which of several tables or files they are about, `unless` they say so already.

    Errors about bad values are left to the source, which knows where its rows are.
    """

    def translate(error: Exception) -> Exception | None:
        if isinstance(error, BadValueError) or not isinstance(error, (TypeError, ValueError)):
            return None
        if unless is not None and unless in str(error):
            return None
        kept = TypeError if isinstance(error, TypeError) else ValueError
        return kept(f"{place}: {error}")

    return translating(translate)


def check_dtype(dtype: np.dtype[Any], of: str = "") -> None:
    """Refuse values that are not real numbers of at most 64 bits; `of` follows the dtype."""
    if not is_real(dtype):
        raise TypeError(
            f"data of dtype {dtype}{of} cannot be clustered; pass real numbers, for example "
            # As which NumPy loads bfloat16.
            f"X.{'view(ml_dtypes.bfloat16)' if dtype == 'V2' else 'astype(numpy.float64)'}"
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

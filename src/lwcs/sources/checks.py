"""Checks of the shape, the dtype and the column names of data, which several sources make."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lwcs.foundation.checks import BadValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Say in which of several tables an error is; a bad value is explained by its source."""
    try:
        yield
    except BadValueError:
        raise
    except (TypeError, ValueError) as error:
        kept = TypeError if isinstance(error, TypeError) else ValueError
        raise kept(f"{place}: {error}") from error


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

"""Results as tables: what has a `to_arrow` is a table for every library that takes Arrow data.

Results are tables *about* rows, and `lwcs.scan` must not take them for the rows: it tells them by
this class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pyarrow as pa


class Tabular(ABC):
    """A result that pyarrow, polars, pandas and DuckDB take as a table."""

    _instead_of_rows: ClassVar[str]
    """What to pass where rows of data are expected."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table of `to_arrow`, by the Arrow C stream interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def refuse_results(data: object) -> None:
    """Refuse a result of this library where rows of data are expected."""
    if isinstance(data, Tabular):
        raise TypeError(f"a {type(data).__name__} is not a table of rows; {data._instead_of_rows}")

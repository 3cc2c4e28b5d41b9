"""The options of `lwcs.scan` that a source is opened with, and how it refuses some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Missing = Literal["error", "drop"]


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Options of `lwcs.scan`, documented there; `missing` and `batch_size` have been checked."""

    columns: Sequence[str] | str | None = None
    weight: str | None = None
    missing: Missing = "error"
    batch_size: int | None = None
    sample_weight: Any = None

    @property
    def drop(self) -> bool:
        """Whether rows with a missing value are dropped."""
        return self.missing == "drop"

    def refuse_columns(self, data: str) -> None:
        """Refuse the names of columns, for data that has none."""
        if self.columns is not None or self.weight is not None:
            raise TypeError(
                f"columns= and weight= name columns, but {data} has no column names; index the "
                "array to select columns, and pass weights as sample_weight="
            )

    def refuse_drop(self, data: str, remedy: str) -> None:
        """Refuse to drop rows with missing values, for data that `remedy` can be applied to."""
        if self.drop:
            raise ValueError(
                f"missing='drop' is not supported for {data}; drop these rows first: {remedy}"
            )

    def refuse_sample_weight(self) -> None:
        """Refuse weights that are not a column, where nothing says which row they belong to."""
        if self.sample_weight is not None:
            raise ValueError(
                "sample_weight is for rows in memory and on Dask; for other data, name the column "
                "of weights with lwcs.scan(…, weight=…)"
            )

    def refuse_two_weights(self) -> None:
        """Refuse a column of weights together with an array of weights."""
        if self.weight is not None and self.sample_weight is not None:
            raise ValueError(
                f"weights are given twice, by weight={self.weight!r} and by sample_weight; pass "
                "only one of them"
            )

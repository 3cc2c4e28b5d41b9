"""How the rows of a partition on a cluster, as its engine hands them over, become blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from lwcs import kernels
from lwcs.arrays.rows import row_numbers, stack
from lwcs.sources.arrow_rows import ArrowBatch, as_csr, in_form, values_of
from lwcs.sources.blocks import Pass
from lwcs.sources.memory.local import open_local
from lwcs.sources.scan_options import Missing, ScanOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from lwcs.arrays.types import DenseRows
    from lwcs.sources.base import Block
    from lwcs.sources.blocks import Batch
    from lwcs.sources.columns import Selection


class Reading(Protocol):
    """Which columns of a partition are read, and how its rows become blocks."""

    @property
    def selection(self) -> Selection | None:
        """The columns that are used, if rows are a table."""

    @property
    def n_features(self) -> int:
        """Number of features."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features."""

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""

    @property
    def skipped(self) -> tuple[str, ...]:
        """Columns that are not used."""

    def __call__(self, rows: Any, partition: int, first_row: int = 0, /) -> Iterator[Block]:
        """Cut rows into blocks; messages about bad rows number them from `first_row` on."""


@dataclass(frozen=True, slots=True)
class ArrayReading:
    """Rows are a pair: an array, dense or sparse, and its weights or None."""

    n_features: int
    weighted: bool = False
    drop: bool = False
    selection: ClassVar[Selection | None] = None
    feature_names: ClassVar[tuple[str, ...] | None] = None
    skipped: ClassVar[tuple[str, ...]] = ()

    def __call__(self, rows: Any, partition: int, first_row: int = 0) -> Iterator[Block]:
        """Views of the array."""
        del partition, first_row
        array, weights = rows
        missing: Missing = "drop" if self.drop else "error"
        part = open_local(array, ScanOptions(weight=weights, missing=missing))
        if part.n_features != self.n_features:
            raise ValueError(
                f"an array has {part.n_features} columns where {self.n_features} are expected; all "
                "partitions must have the same columns"
            )
        return part.all_blocks()


@dataclass(frozen=True, slots=True)
class ArrowReading:
    """Rows are Arrow record batches."""

    selection: Selection
    drop: bool = False

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.selection.feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.selection.feature_names

    @property
    def weighted(self) -> bool:
        """Whether there is a column of weights."""
        return self.selection.weight is not None

    @property
    def skipped(self) -> tuple[str, ...]:
        """Columns that are not used."""
        return self.selection.skipped

    def __call__(
        self, rows: Iterable[pa.RecordBatch], partition: int, first_row: int = 0
    ) -> Iterator[Block]:
        """Copy columns into rows."""
        batches = (batch for batch in rows if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return iter(())
        second = next(batches, None)
        if second is None and (view := self._view(first)) is not None:
            return open_local(view).all_blocks()
        each = chain([first], [] if second is None else [second], batches)
        place = f"partition {partition}"
        return (self._sparse if self.selection.sparse else self._dense)(each, place, first_row)

    def _view(self, batch: pa.RecordBatch) -> DenseRows | None:
        """Vectors without missing values are rows in memory already: nothing is copied."""
        chosen = self.selection
        if not chosen.is_one_vector or self.weighted or chosen.sparse or self.drop:
            return None
        vectors = in_form(batch, self.selection).column(0)
        values = values_of(vectors)
        if vectors.null_count or values.null_count:
            return None
        rows: DenseRows = values.to_numpy(zero_copy_only=False).reshape(-1, self.n_features)
        return rows if rows.dtype == self.selection.dtype else None

    def _dense(
        self, batches: Iterable[pa.RecordBatch], place: str, first_row: int
    ) -> Iterator[Block]:
        """Blocks of the grid, numbered through."""
        checked = self._checked(batches, place, first_row)
        for pending in Pass(self.n_features, self.selection.dtype).cut(checked):
            yield replace(pending.block(), first_row=pending.first_of_all)

    def _checked(
        self, batches: Iterable[pa.RecordBatch], place: str, first_row: int
    ) -> Iterator[tuple[str, Batch]]:
        """Check that every batch has the selected columns."""
        done = first_row
        for batch in batches:
            yield "", ArrowBatch(batch, self.selection, self.drop, place, done)
            done += batch.num_rows

    def _sparse(
        self, batches: Iterable[pa.RecordBatch], place: str, first_row: int
    ) -> Iterator[Block]:
        """The whole partition as one sparse array, which is cut into blocks."""
        name, done = self.selection.columns[0], first_row
        rows, weights, gaps = [], [], []
        for batch in batches:
            chosen = ArrowBatch(batch, self.selection, self.drop, place, done)
            given = kernels.unit_weights(chosen.weights(0, batch.num_rows), batch.num_rows)
            vectors = as_csr(batch.column(name), self.n_features, name, place, done)
            missing = chosen.missing_sparse(vectors)
            vectors.data[missing[row_numbers(vectors)]] = 1.0
            rows.append(vectors)
            weights.append(np.where(missing, 0.0, given))
            gaps.append(missing)
            done += batch.num_rows
        dropped = np.concatenate(gaps)
        weighted = self.weighted or dropped.any()
        local = open_local(
            stack(rows), ScanOptions(weight=np.concatenate(weights) if weighted else None)
        )
        for block in local.all_blocks():
            own = dropped[block.first_row : block.first_row + block.points.shape[0]]
            yield replace(block, dropped=own if own.any() else None)

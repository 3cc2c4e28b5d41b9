"""Rows in several tables in memory, each of which is a partition, as on a cluster.

Like an engine, the source has partitions of any size, makes two rounds, and fetches no row by
number. The results of engines are tested against it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lwcs.arrays.checks import BadValueError, check_choice
from lwcs.arrays.device import own_stream
from lwcs.runtime.parallel import ordered_map
from lwcs.sources.base import ALL_DROPPED, ScaleName, Source, Task
from lwcs.sources.kinds import is_chunked
from lwcs.sources.memory.local import LocalSource, open_local
from lwcs.sources.scan_options import Fitted, ScanOptions, naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lwcs.arrays.types import DenseRows
    from lwcs.sources.base import Block


_DEFAULT = ScanOptions()
_DENSE = {"ArraySource", "ChunkedSource"}
"""Sources of one kind of rows, in memory and in a file."""


def open_parts(parts: Sequence[Any], options: ScanOptions = _DEFAULT) -> list[LocalSource]:
    """Open every table, with the columns of the first one in the others."""
    sources, alike = list[LocalSource](), options
    for i, part in enumerate(parts):
        with naming(f"partition {i}"):
            sources.append(open_local(part, options if isinstance(part, LocalSource) else alike))
        if sources[0].feature_names is not None:
            alike = replace(options, columns=Fitted(sources[0].feature_names), exclude=None)
    return sources


def open_partitions(data: Sequence[Any], options: ScanOptions) -> PartitionedSource:
    """Open a list of arrays or tables as the data of `lwcs.scan`."""
    options.refuse_weight_array()
    if any(map(is_chunked, data)):
        from lwcs.sources.files.chunked import open_chunked

        data = [open_chunked(part) if is_chunked(part) else part for part in data]
    source = PartitionedSource(open_parts(data, options))
    if source.dropped == source.n_rows:
        raise ValueError(ALL_DROPPED)
    return source


class PartitionedSource(Source):
    """Several tables in memory as the partitions of one data set.

    Parameters
    ----------
    parts : sequence
        Arrays, sparse arrays or tables in memory, or what `lwcs.scan` returns for these; all with
        the same columns, and either all weighted or none. Tensors may be on several devices: each
        is worked on where it is.
    scale : {"standard"} or None
        As in `lwcs.scan`.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> source = lwcs.PartitionedSource([np.eye(3), np.ones((2, 3))])
    >>> source
    PartitionedSource(5 × 3, 2 partitions)
    >>> lwcs.build(source, size=4, random_state=0).n_samples
    5
    """

    def __init__(self, parts: Sequence[Any], *, scale: ScaleName | None = None) -> None:
        sources = open_parts(parts)
        if not sources:
            raise ValueError("there are no partitions; pass at least one table of rows")
        if not any(source.n_rows for source in sources) or not sources[0].n_features:
            raise ValueError(
                "the partitions have no rows or no columns; at least one row and one column are "
                "required"
            )
        weighted = any(source.weighted for source in sources)
        if scale is not None:
            check_choice(scale, "scale", ("standard",))
        for i, source in enumerate(sources):
            if source.n_features != sources[0].n_features:
                raise ValueError(
                    f"partition {i} has {source.n_features} columns but partition 0 has "
                    f"{sources[0].n_features}; all partitions must have the same columns"
                )
            if source.feature_names != sources[0].feature_names:
                raise ValueError(
                    f"partition {i} has the columns {source.feature_names} but partition 0 has "
                    f"{sources[0].feature_names}; all partitions must have the same columns"
                )
            kinds = [type(getattr(each, "whole", each)).__name__ for each in (source, sources[0])]
            if kinds[0] != kinds[1] and set(kinds) != _DENSE:
                raise ValueError(
                    f"partition {i} is a {kinds[0]} but partition 0 is a {kinds[1]}; all "
                    "partitions must be of one type"
                )
            if source.scale is not None:
                raise ValueError(
                    f"partition {i} has a scale of its own, but all partitions must share one: use "
                    "PartitionedSource(…, scale='standard')"
                )
            if source.n_rows and source.weighted != weighted:
                raise ValueError(
                    f"partition {i} {'has' if source.weighted else 'has no'} weights, unlike other "
                    "partitions; pass weights for all partitions or for none"
                )
        self.parts = sources
        self.n_features = sources[0].n_features
        self.feature_names = sources[0].feature_names
        self.n_rows = sum(part.n_rows for part in self.parts)
        self.weighted = weighted
        self.dropped = sum(part.dropped for part in self.parts)
        self.scale, self.like = scale, sources[0].like

    @property
    def known_partitions(self) -> int:
        """One partition per table."""
        return len(self.parts)

    def row_bytes(self) -> float:
        """Average number of bytes per row of all tables."""
        rows = sum(part.n_rows for part in self.parts)
        return sum(part.n_rows * part.row_bytes() for part in self.parts) / rows

    def gather(
        self, task: Task[Any], items: Sequence[Any] | None = None, *, n_jobs: int | None = None
    ) -> Iterator[Any]:
        """Run a task over every table, on threads."""
        partitions = range(len(self.parts))
        items_or_numbers = partitions if items is None else items

        def run(i: int) -> Any:
            with own_stream(getattr(self.parts[i], "array", None)):
                return task(self._blocks(i), items_or_numbers[i])

        return ordered_map(run, partitions, n_jobs)

    def _blocks(self, partition: int) -> Iterator[Block]:
        with naming(f"partition {partition}"):
            yield from self.parts[partition].blocks_of_part()

    def on_host(self) -> PartitionedSource:
        """The source, with every table where NumPy can read it."""
        parts = [part.on_host() for part in self.parts]
        if parts == self.parts:
            return self
        own = PartitionedSource(parts, scale=self.scale)
        own.like = self.like
        return own

    def map_rows(
        self, task: Callable[[Block], DenseRows], *, n_jobs: int | None = None
    ) -> list[DenseRows]:
        """Compute one value per row, as one array per table."""
        values = []
        for i, part in enumerate(self.parts):
            with BadValueError.in_partition(i), naming(f"partition {i}"):
                values.append(part.map_rows(task, n_jobs=n_jobs))
        return values

    def locate(self, partition: int) -> tuple[int, str]:
        """Rows are numbered within each table."""
        return 0, f" of partition {partition}"

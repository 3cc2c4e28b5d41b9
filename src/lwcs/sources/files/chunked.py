"""Rows of arrays that stay in their files, read block by block, and several files as one.

Memory does not grow with the arrays: blocks are read when they are asked for, and files that are
read together are never put together as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import container, stack
from lwcs.runtime.parallel import as_threads
from lwcs.sources.base import ROWS_CHANGED
from lwcs.sources.blocks import Budget, RowOrigins
from lwcs.sources.memory.local import LocalSource
from lwcs.sources.scan_options import check_dtype, check_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.checks import BadValueError
    from lwcs.arrays.types import DenseRows, IntArray, Rows

Unchanged = Callable[[], AbstractContextManager[None]]

# Bytes of chunks that HDF5 caches: blocks of rows need not end where chunks do.
_CACHE = 2**25
# A process may have about a thousand files open.
_OPEN_FILES = 16
# Rows within this distance are read together where there are no chunks.
_NEAR = 64


class BlockReader(LocalSource):
    """Rows that threads read block by block, with no more threads than there is memory for."""

    dtype: np.dtype[Any]
    memory_limit: int | None = None

    def limit_memory(self, limit: int) -> None:
        """Limit the memory of blocks that are read."""
        self.memory_limit = limit

    def _block_bytes(self) -> int:
        return min(self.block_rows, self.n_rows) * self.n_features * self.dtype.itemsize

    def _jobs(self, n_jobs: int | None) -> int | None:
        """Number of threads whose blocks fit in memory: one read and one waiting for each."""
        if self.memory_limit is None:
            return n_jobs
        flight = Budget(self.memory_limit).flight(self._block_bytes(), as_threads(n_jobs))
        return 1 if flight is None else max(1, flight.at_once // 2)


class ChunkedSource(BlockReader):
    """A two-dimensional array in a file, of which slices of rows are read.

    Every read is within `unchanged`, which raises an error if the file has changed.
    """

    feature_names = None

    def __init__(self, array: Any, unchanged: Unchanged = nullcontext) -> None:
        check_dtype(array.dtype, f" (type {type(array).__name__})")
        check_shape(array.shape)
        self._array, self._unchanged = array, unchanged
        self.dtype = (
            np.dtype(np.uint8) if array.dtype.kind == "b" else array.dtype.newbyteorder("=")
        )
        self.n_rows, self.n_features = array.shape
        chunks = getattr(array, "chunks", None)
        self._step = min(self.block_rows, max(_NEAR, chunks[0] if chunks else 0))

    def read(self, start: int, stop: int) -> DenseRows:
        """Read consecutive rows."""
        with self._unchanged():
            return np.asarray(self._array[start:stop]).astype(self.dtype, copy=False)

    def take(self, rows: IntArray) -> DenseRows:
        """Read the requested rows, each chunk of the file once."""
        taken = np.empty((len(rows), self.n_features), dtype=self.dtype)
        order = np.argsort(rows, kind="stable")
        if hasattr(self._array, "oindex"):
            # zarr reads each of its chunks once by itself.
            with self._unchanged():
                taken[order] = self._array.oindex[rows[order]]
            return taken
        # h5py would read the rows one by one.
        for places in np.split(order, np.flatnonzero(np.diff(rows[order] // self._step)) + 1):
            if len(places):
                first, last = int(rows[places[0]]), int(rows[places[-1]])
                taken[places] = self.read(first, last + 1)[rows[places] - first]
        return taken


class StackedSource(BlockReader):
    """Several files as one sequence of rows, cut as if they were one array.

    Files are opened when their rows are needed, and only a few stay open.
    """

    feature_names = None

    def __init__(self, paths: Sequence[str], open_file: Callable[[str], LocalSource]) -> None:
        self._paths, self._open = list(paths), lru_cache(_OPEN_FILES)(open_file)
        self._origins, starts, samples = RowOrigins(), [0], list[Any]()
        for path in paths:
            part = open_file(path)
            samples.append(part.read(0, 0))
            sample, first = samples[-1], samples[0]
            if sample.shape != first.shape or container(sample) != container(first):
                raise ValueError(
                    f"{path!r} holds {container(sample)} rows of {sample.shape[1]} columns, but "
                    f"{paths[0]!r} holds {container(first)} rows of {first.shape[1]}; files that "
                    "are read together must have the same columns"
                )
            self._origins.enter(path, starts[-1])
            starts.append(starts[-1] + part.n_rows)
            self._block_rows = part.block_rows
        self._starts = np.array(starts)
        self.dtype = np.result_type(*[sample.dtype for sample in samples])
        self.n_rows, self.n_features = starts[-1], samples[0].shape[1]

    @property
    def block_rows(self) -> int:
        """Number of rows per block, as in every file."""
        return self._block_rows

    def _part(self, number: int) -> LocalSource:
        part = self._open(self._paths[number])
        expected = int(self._starts[number + 1] - self._starts[number])
        if (part.n_rows, part.n_features) != (expected, self.n_features):
            raise ValueError(f"{ROWS_CHANGED}: {self._paths[number]!r} has another shape now")
        return part

    def read(self, start: int, stop: int) -> Rows:
        """Read consecutive rows; a view if they are in one file."""
        first, last = np.searchsorted(self._starts, [start, stop - 1], side="right") - 1
        parts = []
        for number in range(int(first), int(last) + 1):
            begin, end = (int(at) for at in self._starts[number : number + 2])
            if begin < end:
                rows = self._part(number).read(max(start, begin) - begin, min(stop, end) - begin)
                parts.append(rows.astype(self.dtype, copy=False))
        return parts[0] if len(parts) == 1 else stack(parts)

    def take(self, rows: IntArray) -> Rows:
        """Copy the requested rows, file by file."""
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        parts = [
            self._part(number).take(rows[order[begin:end]] - self._starts[number])
            for number, (begin, end) in enumerate(pairwise(cuts))
            if begin < end
        ]
        taken = stack([part.astype(self.dtype, copy=False) for part in parts])
        return taken[np.argsort(order)]

    def explain(self, bad: BadValueError) -> ValueError:
        """Name the file, and the row in it."""
        return self._in_file(bad, self.locate(bad.partition)[0])

    def explain_row(self, bad: BadValueError) -> ValueError:
        """Name the file and the row in it, for a row counted through all partitions."""
        return self._in_file(bad, 0)

    def _in_file(self, bad: BadValueError, first: int) -> ValueError:
        start, where = self._origins.find(first + bad.row)
        return bad.explained(first - start, where, None)


def open_chunked(data: Any) -> ChunkedSource:
    """Open a dataset of h5py or an array of zarr, or the only one in a file or group."""
    if hasattr(data, "id") and not data:
        raise ValueError(
            "data belongs to an HDF5 file that is closed; keep it open while it is read"
        )
    return ChunkedSource(data if _is_array(data) else _only_array(data, "the group"))


def open_hdf5(path: str, unchanged: Unchanged) -> ChunkedSource:
    """Open the only dataset of an HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path!r} requires h5py; pip install 'lwcs[hdf5]'") from error
    try:
        file = h5py.File(path, "r", rdcc_nbytes=_CACHE)
    except OSError as error:
        raise ValueError(f"{path!r} cannot be read as HDF5: {error}") from error
    try:
        return ChunkedSource(_only_array(file, repr(path), f"h5py.File({path!r})"), unchanged)
    except Exception:
        file.close()
        raise


def open_zarr(path: str, store: Any = None) -> ChunkedSource:
    """Open a zarr array, or the only one of a group; in a store of zarr, or on this machine."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f"{path!r} requires zarr; pip install 'lwcs[zarr]'") from error
    try:
        found = zarr.open(path if store is None else store, mode="r")
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"{path!r} cannot be read as zarr: {error}") from error
    if not _is_array(found):
        found = _only_array(found, repr(path), f"zarr.open({path!r})")
    return ChunkedSource(found)


def _is_array(data: Any) -> bool:
    return hasattr(data, "shape") and hasattr(data, "dtype")


def _only_array(group: Any, name: str, opened: str = "group") -> Any:
    """The only array of a group, at any depth."""
    found: dict[str, Any] = {}
    _collect(group, "", found, {getattr(group, "id", "")})
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise ValueError(
            f"{name} holds no arrays; one array of shape (n_rows, n_columns) is needed"
        )
    listed = ", ".join(f"{key!r} {each.shape}" for key, each in list(found.items())[:10])
    more = ", …" if len(found) > 10 else ""
    raise ValueError(
        f"{name} holds several arrays: {listed}{more}; pass one of them, for example "
        f"lwcs.scan({opened}[{next(iter(found))!r}])"
    )


def _collect(group: Any, prefix: str, found: dict[str, Any], seen: set[Any]) -> None:
    for key in sorted(group.keys()):
        # Links of HDF5 may be dangling, circular, or lead to an array with two names.
        each = group.get(key)
        own = getattr(each, "id", prefix + key)
        if each is None or own in seen:
            continue
        seen.add(own)
        if _is_array(each):
            found[prefix + key] = each
        elif hasattr(each, "keys"):
            _collect(each, f"{prefix}{key}/", found, seen)

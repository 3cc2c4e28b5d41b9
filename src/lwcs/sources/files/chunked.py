"""Rows in HDF5 datasets and zarr arrays, read block by block, so that memory does not grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.sources.base import check_dtype, check_shape
from lwcs.sources.memory.in_process import LocalSource

if TYPE_CHECKING:
    from lwcs.arrays.types import DenseRows, IntArray

_LIBRARIES = ("h5py", "zarr")
# Bytes of chunks that HDF5 keeps: blocks of rows need not end where chunks do.
_CACHE = 2**25
# Rows that are this close are read together where there are no chunks.
_NEAR = 64


def is_chunked(data: object) -> bool:
    """Whether data is of h5py or zarr; told by its type, so that neither is imported."""
    return any(base.__module__.split(".")[0] in _LIBRARIES for base in type(data).__mro__)


class ChunkedSource(LocalSource):
    """A two-dimensional array that lies in a file, of which slices of rows are read."""

    feature_names = None

    def __init__(self, array: Any) -> None:
        check_dtype(array.dtype, f" (type {type(array).__name__})")
        check_shape(array.shape)
        self._array = array
        self.dtype = (
            np.dtype(np.uint8) if array.dtype.kind == "b" else array.dtype.newbyteorder("=")
        )
        self.n_rows, self.n_features = array.shape
        chunks = getattr(array, "chunks", None)
        self._step = min(self.block_rows, max(_NEAR, chunks[0] if chunks else 0))

    def read(self, start: int, stop: int) -> DenseRows:
        """Read consecutive rows."""
        return np.asarray(self._array[start:stop]).astype(self.dtype, copy=False)

    def take(self, rows: IntArray) -> DenseRows:
        """Read the requested rows, each chunk of the file once."""
        taken = np.empty((len(rows), self.n_features), dtype=self.dtype)
        order = np.argsort(rows, kind="stable")
        if hasattr(self._array, "oindex"):
            # zarr goes through its chunks by itself.
            taken[order] = self._array.oindex[rows[order]]
            return taken
        # h5py would go through the rows one by one.
        for places in np.split(order, np.flatnonzero(np.diff(rows[order] // self._step)) + 1):
            if len(places):
                first, last = int(rows[places[0]]), int(rows[places[-1]])
                taken[places] = self.read(first, last + 1)[rows[places] - first]
        return taken


def open_chunked(data: Any) -> ChunkedSource:
    """Open a dataset of h5py or an array of zarr, or the only one in a file or group."""
    if hasattr(data, "id") and not data:
        raise ValueError(
            "data belongs to an HDF5 file that is closed; keep it open while it is read"
        )
    return ChunkedSource(data if _is_array(data) else _only_array(data, "the group"))


def open_hdf5(path: str) -> ChunkedSource:
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
        return ChunkedSource(_only_array(file, repr(path), f"h5py.File({path!r})"))
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
        # Links of HDF5 may lead nowhere, in a circle, or to what was seen under another name.
        each = group.get(key)
        own = getattr(each, "id", prefix + key)
        if each is None or own in seen:
            continue
        seen.add(own)
        if _is_array(each):
            found[prefix + key] = each
        elif hasattr(each, "keys"):
            _collect(each, f"{prefix}{key}/", found, seen)

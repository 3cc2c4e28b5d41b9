"""Rows in files of arrays: .npy and .npz, read block by block where that is possible, HDF5, zarr.

On a store, .npy is read in ranges of bytes, and zarr reads its chunks through fsspec. The header of
an array is checked against the size of its file before memory is allocated. Arrays are not
memory-mapped: if a mapped file is truncated while it is read, the operating system ends the process
(SIGBUS), where a read that comes back short is an error like any other.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.device import bfloat16
from lwcs.sources.files.change_detection import Stamps, stamps_of
from lwcs.sources.files.chunked import ChunkedSource, StackedSource, open_hdf5, open_zarr
from lwcs.sources.memory.local import open_local
from lwcs.sources.remote.prefetch import Store
from lwcs.sources.remote.remote_arrays import RemoteSource, RemoteStack, Windows
from lwcs.sources.scan_options import check_dtype, naming
from lwcs.storage.stores import fsspec_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import FileIO

    from lwcs.arrays.types import DenseRows, IntArray, Rows
    from lwcs.sources.memory.local import LocalSource
    from lwcs.sources.remote.paths import Found

KINDS = ("npy", "npz", "hdf5", "zarr")
"""The kinds of files that hold arrays."""
# Rows within this many bytes are read at once, which takes no longer than a second call; at most
# this many bytes at a time, which stay in the cache of the processor until the rows are picked.
_NEAR = 2**15
_LONGEST = 2**21


def open_array_files(found: Found) -> LocalSource:
    """Open files of arrays; several are one sequence of rows, in order."""
    open_file: Callable[[str], LocalSource]
    open_stack: Callable[..., LocalSource] = StackedSource
    if found.is_local:
        stamps = Stamps(found.filesystem, stamps_of(found), None)
        open_file = partial(_open_file, kind=found.kind, stamps=stamps)
    elif found.kind == "npy":
        known = stamps_of(found)
        store = Store(found.filesystem, known)
        windows = Windows.of(store, Stamps(found.filesystem, known, store, found.listings))
        open_file, open_stack = partial(RemoteSource, windows), partial(RemoteStack, windows)
    else:
        open_file = partial(_open_remote, found=found)

    def open_named(path: str) -> LocalSource:
        with naming(f"{path!r} cannot be read", unless=path):
            return open_file(path)

    if len(found.paths) == 1:
        return open_named(found.paths[0])
    return open_stack(found.paths, open_named)


def _open_remote(path: str, found: Found) -> LocalSource:
    known = fsspec_files(found.filesystem)
    if found.kind == "zarr" and known is not None:
        from zarr.storage import FsspecStore

        return open_zarr(path, FsspecStore(known.asynchronous(), read_only=True, path=path))
    advice = (
        "name its file system with storage_options=… or one of fsspec as filesystem=…"
        if found.kind == "zarr"
        else "copy it to this machine, or save its array as .npy"
    )
    raise ValueError(
        f"{path!r} is not on this machine, and {found.kind} is not read from there; {advice}"
    )


def _open_file(path: str, kind: str, stamps: Stamps) -> LocalSource:
    unchanged = partial(stamps.unchanged, path)
    if kind == "hdf5":
        return open_hdf5(path, unchanged)
    if kind == "zarr":
        return open_zarr(path)
    rows = open_array_file(path, kind)
    return ChunkedSource(rows, unchanged) if isinstance(rows, StoredArray) else open_local(rows)


_CHUNK = 2**20
_PLACES = ("indptr", "indices", "row", "col", "coords", "offsets", "shape")


def open_array_file(path: str, kind: str) -> Rows | StoredArray:
    """Open .npy and .npz: sparse and compressed arrays in memory, others where they are."""
    try:
        if kind == "npy":
            with open(path, "rb") as file:
                return _stored(path, file, os.fstat(file.fileno()).st_size)
        return _open_npz(path)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:
        # Readers of headers and archives raise exceptions of any type for damaged bytes.
        raise ValueError(
            f"{path!r} cannot be read as an array of numbers: {str(error) or type(error).__name__}"
        ) from error


def _open_npz(path: str) -> Rows | StoredArray:
    with zipfile.ZipFile(path) as packed:
        members = {each.filename.removesuffix(".npy"): each for each in packed.infolist()}
        if {"format", "shape"} <= set(members):
            return _open_sparse(path, packed, members)
        if not members:
            raise ValueError("it holds no array")
        if len(members) > 1:
            raise ValueError(
                f"it holds the arrays {', '.join(members)}; pass one of them, for example "
                f"np.load({path!r})[{next(iter(members))!r}]"
            )
        ((name, member),) = members.items()
        stored = member.compress_type == zipfile.ZIP_STORED
        dtype = _check_member(packed, member, to_the_end=stored)
        check_dtype(dtype)
    if not stored:
        with np.load(path, allow_pickle=False) as archive:
            return archive[name].view(dtype)
    with open(path, "rb") as file:
        file.seek(member.header_offset + 26)
        lengths = np.frombuffer(file.read(4), dtype="<u2")
        start = file.seek(member.header_offset + 30 + int(lengths.sum()))
        return _stored(path, file, start + member.file_size)


def _open_sparse(path: str, packed: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Rows:
    """Load a sparse array after a check of its parts."""
    import scipy.sparse as sp

    from lwcs.sources.memory.sparse import as_csr

    for name, member in members.items():
        dtype = _check_member(packed, member)
        if name == "data":
            check_dtype(dtype)
        elif name in _PLACES and dtype.kind not in "iu":
            # scipy would take the integers next to them.
            raise ValueError(f"its array {name!r} holds {dtype}, must be integers")
    return as_csr(sp.load_npz(path))


def _check_member(
    packed: zipfile.ZipFile, member: zipfile.ZipInfo, *, to_the_end: bool = False
) -> np.dtype[Any]:
    """Check the header of an array in an archive, before memory is allocated for the array.

    With `to_the_end`, the array is read once, in order, so that its CRC is compared, which reading
    its rows does not do. That takes about half a second per gigabyte, and leaves the file in the
    cache of the operating system for the pass that follows.
    """
    with packed.open(member) as file:
        _, _, dtype = header(file, member.file_size)
        while to_the_end and file.read(_CHUNK):
            pass
    return dtype


def _stored(path: str, file: IO[bytes], end: int) -> Rows | StoredArray:
    """The array whose header is at the position of a file, and which goes to `end`."""
    shape, fortran, dtype = header(file, end)
    check_dtype(dtype)
    if not prod(shape):
        return np.empty(shape, dtype, "F" if fortran else "C")
    return StoredArray(path, shape, dtype, file.tell(), fortran and len(shape) == 2)


def header(file: IO[bytes], end: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype of the array at the position of a file, if it fits before `end`."""
    begin, version = file.tell(), np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its header has version {version}, which is not known")
    # Version 3 differs from version 2 in the names of fields alone, which no array here has.
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(file)
    if dtype == "V2":
        # NumPy loses the name of bfloat16, but writes its own types of two bytes as |V2.
        size = file.tell() - begin
        file.seek(begin)
        dtype = bfloat16() if b"'<V2'" in file.read(size) else dtype
    needed, there = prod(shape) * dtype.itemsize, end - file.tell()
    if min(shape, default=0) < 0 or needed > there:
        raise ValueError(
            f"its header says shape {shape} of {dtype}, {needed:,} bytes, but {max(there, 0):,} "
            "bytes follow; it is truncated or damaged"
        )
    return shape, fortran, dtype


@dataclass(frozen=True, slots=True)
class StoredArray:
    """A dense array in a file, with the interface that `ChunkedSource` needs.

    The file is opened for every read, so that threads share no position in it.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    first: int
    """Where the values begin in the file."""
    by_column: bool
    """Whether a column is in one place (Fortran order), not a row."""

    @property
    def oindex(self) -> StoredArray:
        """Rows by number, as zarr calls it."""
        return self

    @property
    def _width(self) -> int:
        """Bytes of a row, or of a value of a column."""
        return self.dtype.itemsize * (1 if self.by_column else prod(self.shape[1:]))

    def __getitem__(self, rows: slice | IntArray) -> DenseRows:
        """Consecutive rows, or rows by number in ascending order."""
        with open(self.path, "rb", buffering=0) as file:
            if not isinstance(rows, slice):
                return self._take(file, rows)
            start, stop, _ = rows.indices(self.shape[0])
            return self._read(file, start, max(start, stop))

    def _read(self, file: FileIO, start: int, stop: int) -> DenseRows:
        n, width = stop - start, self._width
        if not self.by_column:
            values = np.empty((n, *self.shape[1:]), self.dtype)
            self._fill(file, _bytes_of(values), start * width)
            return values
        columns = np.empty((self.shape[1], n), self.dtype)
        memory = _bytes_of(columns)
        for j in range(len(columns)):
            own = memory[j * n * width : (j + 1) * n * width]
            self._fill(file, own, (j * self.shape[0] + start) * width)
        return columns.T

    def _fill(self, file: FileIO, memory: memoryview, at: int) -> None:
        """Read bytes that follow each other, from byte `at` of the array on."""
        while memory:
            if not (read := _read_at(file, memory, self.first + at)):
                raise ValueError(f"{self.path!r} is truncated: {len(memory):,} bytes are missing")
            memory, at = memory[read:], at + read

    def _take(self, file: FileIO, rows: IntArray) -> DenseRows:
        """Read rows that are near each other together."""
        taken, width = np.empty((len(rows), *self.shape[1:]), self.dtype), self._width
        if not len(rows):
            return taken
        steps = np.diff(rows)
        # Long runs are cut as well.
        cut = np.diff(rows // max(1, _LONGEST // width)) > 0
        ends = np.append(np.flatnonzero((steps * width > _NEAR) | cut) + 1, len(rows))
        begins = np.append(0, ends[:-1])
        jumps = np.append(0, np.cumsum(steps != 1))
        whole = (jumps[ends - 1] == jumps[begins]) & (not self.by_column)
        memory = _bytes_of(taken)
        runs = (begins, ends, rows[begins], rows[ends - 1] + 1, whole)
        for begin, end, start, stop, direct in zip(*(each.tolist() for each in runs), strict=True):
            if direct:
                self._fill(file, memory[begin * width : end * width], start * width)
            else:
                near, wanted = self._read(file, start, stop), rows[begin:end] - start
                near.take(wanted, axis=0, out=taken[begin:end], mode="clip")
        return taken


def _bytes_of(values: DenseRows) -> memoryview:
    return values.reshape(-1).view(np.uint8).data


def _read_at(file: FileIO, memory: memoryview, at: int) -> int:
    """Read bytes from a position of a file on; returns their number, 0 at its end."""
    if hasattr(os, "preadv"):
        return os.preadv(file.fileno(), (memory,), at)
    file.seek(at)
    return file.readinto(memory) or 0

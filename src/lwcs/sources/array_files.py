"""Rows in files of arrays: .npy and .npz, memory-mapped where that is possible, HDF5 and zarr."""

from __future__ import annotations

import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.sources.chunked import open_hdf5, open_zarr
from lwcs.sources.local import open_local
from lwcs.sources.stacked import StackedSource

if TYPE_CHECKING:
    from lwcs.foundation.types import Rows
    from lwcs.sources.base import LocalSource
    from lwcs.sources.paths import Found

KINDS = ("npy", "npz", "hdf5", "zarr")
"""The kinds of files that hold arrays."""


def open_array_files(found: Found) -> LocalSource:
    """Open files of arrays; several are one sequence of rows, in order."""
    if not found.is_local:
        raise ValueError(
            f"{found.paths[0]!r} is not on this machine, and files of arrays are read from local "
            "disks only; copy it, or pass an array that you opened"
        )
    if len(found.paths) == 1:
        return _open_file(found.paths[0], found.kind)
    return StackedSource(found.paths, partial(_open_file, kind=found.kind))


def _open_file(path: str, kind: str) -> LocalSource:
    try:
        if kind == "hdf5":
            return open_hdf5(path)
        if kind == "zarr":
            return open_zarr(path)
        return open_local(open_array_file(path))
    except (TypeError, ValueError) as error:
        if path in str(error):
            raise
        kept = TypeError if isinstance(error, TypeError) else ValueError
        raise kept(f"{path!r} cannot be read: {error}") from error


def open_array_file(path: str) -> Rows:
    """Open .npy and .npz: dense arrays memory-mapped where possible, sparse ones in memory."""
    try:
        if path.lower().endswith(".npy"):
            return np.load(path, mmap_mode="r", allow_pickle=False)
        return _open_npz(path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path!r} cannot be read as an array of numbers: {error}") from error


def _open_npz(path: str) -> Rows:
    with np.load(path, allow_pickle=False) as archive:
        if {"format", "shape"} <= set(archive.files):
            return _open_sparse(path)
        if len(archive.files) != 1:
            raise ValueError(
                f"it holds the arrays {', '.join(archive.files)}; pass one of them, for example "
                f"np.load({path!r})[{archive.files[0]!r}]"
            )
        (name,) = archive.files
        with zipfile.ZipFile(path) as packed:
            member = packed.getinfo(f"{name}.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            return archive[name]
    return _mapped_member(path, member.header_offset)


def _open_sparse(path: str) -> Rows:
    """Open what `scipy.sparse.save_npz` wrote, in any format."""
    import scipy.sparse as sp

    rows = sp.load_npz(path)
    if hasattr(rows, "check_format"):
        # Converted unchecked, damaged indices would lead outside of the arrays.
        rows.check_format(full_check=True)
    return rows.tocsr()


def _mapped_member(path: str, header_offset: int) -> Rows:
    """Memory-map an array that is stored in an archive without compression."""
    with open(path, "rb") as file:
        file.seek(header_offset + 26)
        lengths = np.frombuffer(file.read(4), dtype="<u2")
        file.seek(header_offset + 30 + int(lengths.sum()))
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(file)
        offset = file.tell()
    order: Any = "F" if fortran else "C"
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)

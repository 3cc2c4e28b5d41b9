"""Rows in .npy and .npz files, memory-mapped where that is possible."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lwcs.foundation.types import Rows


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
        if "indptr" in archive.files:
            import scipy.sparse as sp

            return sp.load_npz(path).tocsr()
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

"""Array files and sparse arrays that are damaged or made to harm: an error, never a crash."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.sources.arrow_rows import as_csr


def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 3))


def npy(header: str) -> bytes:
    """An .npy file with a header of our own, and 960 bytes after it."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(960)


def header(shape: str = "(40, 3)", dtype: str = "'<f8'", fortran: str = "False") -> str:
    return f"{{'descr': {dtype}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


def test_the_headers_of_these_tests_can_be_read(tmp_path):
    (tmp_path / "x.npy").write_bytes(npy(header()))
    assert lwcs.scan(tmp_path / "x.npy").n_rows == 40
    (tmp_path / "x.npy").write_bytes(npy(header("(3, 40)", fortran="True")))
    assert lwcs.scan(tmp_path / "x.npy").n_features == 40


HEADERS = [
    header("(10**18, 3)"),
    header("(1000000000000000000, 3)"),
    header("(1000000000000000000000000000000000, 3)"),
    header("(-40, 3)"),
    header("(-40, -3)"),
    header("(41, 3)"),
    header("(40, 3.0)"),
    header("'x'"),
    header(dtype="'|O'"),
    header(dtype="'<c16'"),
    header(dtype="'<U9'"),
    header(dtype="'<M8[s]'"),
    header(dtype="[('a', '<f8'), ('b', '<f8')]"),
    header(dtype="'x'"),
    header(fortran="'no'"),
    "{",
    "[" * 100,
    "",
    "{'descr': '<f8'}",
]


@pytest.mark.parametrize("wrong", HEADERS)
@pytest.mark.parametrize("how", ["npy", "stored", "compressed"])
def test_an_absurd_header_is_refused_by_the_name_of_the_file(wrong, how, tmp_path):
    path = tmp_path / ("x.npy" if how == "npy" else "x.npz")
    if how == "npy":
        path.write_bytes(npy(wrong))
    else:
        kind = zipfile.ZIP_STORED if how == "stored" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", kind) as packed:
            packed.writestr("x.npy", npy(wrong))
    with pytest.raises(ValueError, match=r"x\.np[yz]' cannot be read as an array of numbers: \S"):
        lwcs.build(path, 5)


@pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed])
def test_a_truncated_array_file_is_refused(save, tmp_path):
    whole = io.BytesIO()
    save(whole, X())
    path = tmp_path / ("x.npy" if save is np.save else "x.npz")
    for keep in (0, 1, 6, 8, 10, 60, 127, 500, len(whole.getvalue()) - 1):
        path.write_bytes(whole.getvalue()[:keep])
        with pytest.raises(ValueError, match=r"x\.np[yz]' cannot be read as an array of numbers"):
            lwcs.build(path, 5)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_byte_of_an_archive_is_noticed_by_its_crc(save, tmp_path):
    path = tmp_path / "x.npz"
    save(path, X())
    whole, expected = path.read_bytes(), lwcs.build(X(), 5, random_state=0)
    with zipfile.ZipFile(path) as packed:
        size = packed.infolist()[0].compress_size
    first = 30 + 40
    for at in range(first, first + size - 40, 37):
        damaged = bytearray(whole)
        damaged[at] ^= 16
        path.write_bytes(damaged)
        try:
            found = lwcs.build(path, 5, random_state=0)
        except ValueError as error:
            said = str(error)
        else:
            said = f"x.npz' cannot be read: {found == expected}"
        assert "x.npz' cannot be read" in said
    path.write_bytes(whole)
    assert lwcs.build(path, 5, random_state=0) == expected


def saved(path: Path, **parts: Any) -> Path:
    """A sparse .npz of our own making, as scipy lays it out."""
    own = sp.csr_array(np.where(X() > 0, X(), 0.0))
    arrays = {"data": own.data, "indices": own.indices, "indptr": own.indptr, "format": b"csr",
              "shape": own.shape, "_is_array": True} | parts  # fmt: skip
    np.savez(path, **arrays)
    return path


def damages() -> dict[str, dict[str, Any]]:
    own = sp.csr_array(np.where(X() > 0, X(), 0.0))

    def put(values: np.ndarray, at: int, value: int) -> np.ndarray:
        new = values.copy()
        new[at] = value
        return new

    n = own.nnz
    return {
        "indptr in the middle": {"indptr": put(own.indptr, 20, 2_000_000_000)},
        "negative indptr": {"indptr": put(own.indptr, 20, -5)},
        "indptr that decreases": {"indptr": put(own.indptr, 20, 0)},
        "indptr at the start": {"indptr": put(own.indptr, 0, 3)},
        "indptr at the end": {"indptr": put(own.indptr, -1, n + 1)},
        "indptr too short": {"indptr": own.indptr[:-1]},
        "indptr of floats": {"indptr": own.indptr.astype(float)},
        "a column too far": {"indices": put(own.indices, 9, 3)},
        "a column far away": {"indices": put(own.indices, 9, 2_000_000_000)},
        "a negative column": {"indices": put(own.indices, 9, -1)},
        "columns as text": {"indices": own.indices.astype(str)},
        "columns as floats": {"indices": own.indices + 0.5},
        "columns too short": {"indices": own.indices[:-1]},
        "values too short": {"data": own.data[:-1]},
        "values as text": {"data": own.data.astype(str)},
        "a shape of more rows": {"shape": (10**18, 3)},
        "a shape that overflows": {"shape": (2**62, 2**62)},
        "a negative shape": {"shape": (-40, 3)},
        "a shape of three": {"shape": (40, 3, 1)},
        "a shape of text": {"shape": "40 3"},
        "an unknown format": {"format": b"xyz"},
        "csc instead": {"format": b"csc"},
        "bsr of wrong blocks": {"format": b"bsr"},
    }


@pytest.mark.parametrize("name", damages())
def test_a_damaged_sparse_archive_is_refused_by_the_name_of_the_file(name, tmp_path):
    path = saved(tmp_path / "s.npz", **damages()[name])
    with pytest.raises(ValueError, match=r"s\.npz' cannot be read as an array of numbers: \S"):
        lwcs.build(path, 5)


def test_the_sparse_archive_of_these_tests_can_be_read(tmp_path):
    own = sp.csr_array(np.where(X() > 0, X(), 0.0))
    expected = lwcs.build(own, 5, random_state=0)
    assert lwcs.build(saved(tmp_path / "s.npz"), 5, random_state=0) == expected


PLACES = [2_000_000_000, -1, "cut", "floats"]
DAMAGES = [
    *((form, name, value) for form in ("csr", "csc", "bsr", "coo")
      for name in ("indices", "indptr") for value in PLACES),
    *((form, "indices", 3) for form in ("csr", "csc", "bsr", "coo")),
    *((form, "data", "cut") for form in ("csr", "csc", "bsr", "coo")),
]  # fmt: skip


@pytest.mark.parametrize(("form", "attribute", "value"), DAMAGES)
def test_a_damaged_sparse_array_in_memory_is_refused(form, attribute, value):
    own = sp.csr_array(np.where(X()[:3] > 0, X()[:3], 0.0)).asformat(form)
    row, column = (place.copy() for place in own.tocoo().coords)
    given = {"indices": column, "indptr": row} if form == "coo" else {}
    places = given[attribute] if attribute in given else getattr(own, attribute)
    new = places[:-1] if value == "cut" else places.astype(float if value == "floats" else None)
    if isinstance(value, int):
        new = places.copy()
        new[-2] = value
    if attribute in given:
        own.coords = (row, new) if attribute == "indices" else (new, column)
    else:
        setattr(own, attribute, new)
    for use in (lambda: lwcs.build(own, 5), lambda: lwcs.CoresetKMeans(2).fit(own)):
        with pytest.raises(ValueError, match="structure of the sparse data is damaged"):
            use()


def vectors(size: int, indices: list[int | None], values: list[float]) -> pa.Array:
    lists = [("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
    kind = pa.struct([("type", pa.int8()), ("size", pa.int32()), *lists])
    whole = {"type": 0, "size": 4, "indices": [1], "values": [2.0]}
    return pa.array([whole, {"type": 0, "size": size, "indices": indices, "values": values}], kind)


def test_vectors_of_spark_are_checked():
    assert as_csr(vectors(4, [0, 3], [1.0, 5.0]), 4, "f").toarray()[1].tolist() == [1, 0, 0, 5]
    for indices in ([0, 4], [0, -1], [0, 2_000_000_000]):
        with pytest.raises(ValueError, match="'f' holds a sparse vector with indices from"):
            as_csr(vectors(4, indices, [1.0, 5.0]), 4, "f")
    for wrong in ([0], [0, 1, 2], [0, None]):
        with pytest.raises(ValueError, match="more values than indices"):
            as_csr(vectors(4, wrong, [1.0, 5.0]), 4, "f")

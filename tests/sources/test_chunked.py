"""HDF5 and zarr: the coreset of the same array in memory, read block by block."""

from __future__ import annotations

import builtins
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

import lwcs
from lwcs.sources.files.chunked import ChunkedSource
from tests.sources.parts import points


def write(kind: str, path, X: np.ndarray, **options: object) -> str:
    if kind == "zarr":
        name = str(path / "x.zarr")
        zarr.create_array(name, data=X, chunks=options.get("chunks", "auto"))
        return name
    name = str(path / "x.h5")
    with h5py.File(name, "w") as file:
        file.create_dataset("deep/X", data=X, **options)
    return name


def opened(path: str) -> object:
    return zarr.open(path) if path.endswith("zarr") else h5py.File(path)["deep/X"]


LAYOUTS = [
    ("hdf5", {}),
    ("hdf5", {"chunks": (33, 4), "compression": "gzip"}),
    ("hdf5", {"chunks": (1000, 1)}),
    ("zarr", {"chunks": (33, 2)}),
    ("zarr", {}),
]


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("method", ["lightweight", "uniform", "refined"])
@pytest.mark.parametrize(("kind", "options"), LAYOUTS)
def test_the_coreset_is_that_of_the_array_in_memory(kind, options, method, tmp_path):
    X = points()
    path = write(kind, tmp_path, X, **options)
    drawing = {"method": method, "n_clusters": 3, "random_state": 3}
    expected = lwcs.build(X, 60, **drawing)
    for data in (path, opened(path), lwcs.scan(path)):
        for jobs in (1, 3):
            assert lwcs.build(data, 60, n_jobs=jobs, **drawing) == expected


@pytest.mark.parametrize("dtype", [">f8", "float16", "int8", "uint64", "bool"])
@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_numbers_of_every_type(kind, dtype, tmp_path):
    X = np.abs(10 * points("float64")).astype(dtype)
    path = write(kind, tmp_path, X)
    assert lwcs.build(path, 60, random_state=3) == lwcs.build(X, 60, random_state=3)


@pytest.mark.parametrize(("kind", "options"), LAYOUTS)
def test_rows_are_fetched_in_any_order(kind, options, tmp_path):
    X = points()
    source = lwcs.scan(write(kind, tmp_path, X, **options))
    rows = np.array([999, 0, 1, 33, 32, 0, 500, 501, 998])
    np.testing.assert_array_equal(source.take(rows), X[rows])
    assert source.take(np.array([], dtype=np.int64)).shape == (0, 4)


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_no_more_than_a_block_is_read_at_once(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.base.block_rows", lambda _: 64)
    X = points("float64", 5_000)
    array = opened(write(kind, tmp_path, X, chunks=(50, 4)))
    read = []

    class Counting:
        shape, dtype, chunks = array.shape, array.dtype, array.chunks

        def __getitem__(self, rows):
            found = array[rows]
            read.append(len(found))
            return found

        def __array__(self, *_, **__):
            raise AssertionError("the whole array is read")

    source = ChunkedSource(Counting())
    assert lwcs.build(source, 60, random_state=3) == lwcs.build(X, 60, random_state=3)
    assert max(read) <= 64
    model = lwcs.CoresetKMeans(3, random_state=0).fit(source)
    assert len(model.predict(source)) == 5_000
    assert max(read) <= 64


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_the_estimator_does_not_read_the_whole_array(kind, tmp_path, monkeypatch):
    X = points("float64")
    array = opened(write(kind, tmp_path, X))

    def refuse(*_, **__):
        raise AssertionError("the whole array is read")

    monkeypatch.setattr(type(array), "__array__", refuse)
    model = lwcs.CoresetKMeans(3, random_state=0).fit(array, sample_weight=np.ones(len(X)))
    same = lwcs.CoresetKMeans(3, random_state=0).fit(X, sample_weight=np.ones(len(X)))
    np.testing.assert_array_equal(model.cluster_centers_, same.cluster_centers_)
    np.testing.assert_array_equal(model.predict(array), same.predict(X))


def test_memory_does_not_grow_with_the_file(tmp_path):
    code = """
import resource, sys, lwcs
lwcs.build(lwcs.scan(sys.argv[1]), 100, random_state=0, n_jobs=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
lwcs.build(lwcs.scan(sys.argv[2]), 100, random_state=0, n_jobs=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    rows = 2**20
    for name, times in (("small", 1), ("large", 4)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            made = file.create_dataset("X", (times * rows, 8), "float32", chunks=(2**14, 8))
            for i in range(times):
                made[i * rows : (i + 1) * rows] = points("float32", rows // 2**7).repeat(2**7, 0)[
                    :, [0, 1, 2, 3, 0, 1, 2, 3]
                ]
    paths = [str(tmp_path / f"{name}.h5") for name in ("small", "large")]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    # The file is larger by 96 MiB.
    assert int(done.stdout) < 32 * 2**10


def test_several_files_are_one_array(tmp_path):
    X = points()
    for i, (a, b) in enumerate([(0, 300), (300, 1000)]):
        with h5py.File(tmp_path / f"{i}.hdf5", "w") as file:
            file["X"] = X[a:b]
    assert lwcs.build(tmp_path, 60, random_state=3) == lwcs.build(X, 60, random_state=3)
    for i, (a, b) in enumerate([(0, 300), (300, 1000)]):
        zarr.create_array(str(tmp_path / "z" / f"{i}.zarr"), data=X[a:b])
    assert lwcs.build(tmp_path / "z", 60, random_state=3) == lwcs.build(X, 60, random_state=3)
    with h5py.File(tmp_path / "0.hdf5") as one, h5py.File(tmp_path / "1.hdf5") as two:
        assert lwcs.scan([one["X"], two["X"]]).known_partitions == 2


def test_a_file_of_several_arrays_lists_them(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["g/b"] = np.eye(3), np.ones((5, 2))
    message = (
        r"x\.h5' holds several arrays: 'a' \(3, 3\), 'g/b' \(5, 2\); .*h5py\.File\(.*\)\['a'\]"
    )
    with pytest.raises(ValueError, match=message):
        lwcs.scan(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5") as file:
        assert lwcs.scan(file["g/b"]).n_rows == 5
        assert lwcs.scan(file["g"]).n_rows == 5
        with pytest.raises(ValueError, match="the group holds several arrays"):
            lwcs.scan(file)
    with pytest.raises(ValueError, match="HDF5 file that is closed"):
        lwcs.scan(file)
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    with pytest.raises(ValueError, match=r"x\.zarr' holds no arrays"):
        lwcs.scan(tmp_path / "x.zarr")
    group.create_array("a", data=np.eye(3))
    assert lwcs.scan(tmp_path / "x.zarr").n_rows == 3
    group.create_array("b", data=np.eye(3))
    with pytest.raises(ValueError, match=r"x\.zarr' holds several arrays: .*zarr\.open\("):
        lwcs.scan(tmp_path / "x.zarr")


def test_what_cannot_be_clustered_is_refused_by_name(tmp_path):
    (tmp_path / "x.h5").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"x\.h5' cannot be read as HDF5"):
        lwcs.scan(tmp_path / "x.h5")
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(ValueError, match=r"x\.zarr' cannot be read as zarr"):
        lwcs.scan(tmp_path / "x.zarr")
    for i, bad in enumerate((np.zeros(3), np.zeros((2, 2, 2)), np.array([[b"a"]]), np.eye(2) * 1j)):
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            file["X"] = bad
        with pytest.raises((ValueError, TypeError), match=rf"{i}\.h5' cannot be read: data"):
            lwcs.scan(tmp_path / f"{i}.h5")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = np.array([[1.0, 2.0], [3.0, np.nan]])
    with pytest.raises(ValueError, match="row 1, column 1"):
        lwcs.build(tmp_path / "x.h5", 5)
    with pytest.raises(TypeError, match="columns="):
        lwcs.scan(tmp_path / "x.h5", columns=["a"])


@pytest.mark.parametrize("library", ["h5py", "zarr"])
def test_a_missing_library_is_named(library, tmp_path, monkeypatch):
    path = write("zarr" if library == "zarr" else "hdf5", tmp_path, np.eye(3))
    real = builtins.__import__

    def refuse(name, *rest):
        if name == library:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    extra = "zarr" if library == "zarr" else "hdf5"
    with pytest.raises(ImportError, match=rf"pip install 'lwcs\[{extra}\]'"):
        lwcs.scan(path)

"""Arrays in files that are read block by block: the same rows as a map has, and no SIGBUS."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

import lwcs
from lwcs.sources.files import array_files


def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5_000, 6))


def saved(folder, kind: str) -> str:
    path = str(folder / ("x.npz" if kind == "npz" else "x.npy"))
    if kind == "npz":
        np.savez(path, X())
    else:
        np.save(path, np.asfortranarray(X()) if kind == "Fortran" else X())
    return path


KINDS = ["npy", "npz", "Fortran"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("near", "longest"), [(2**16, 2**21), (48, 480), (0, 1)])
def test_rows_by_number_are_those_of_the_array(kind, near, longest, tmp_path, monkeypatch):
    monkeypatch.setattr(array_files, "_NEAR", near)
    monkeypatch.setattr(array_files, "_LONGEST", longest)
    source = lwcs.scan(saved(tmp_path, kind))
    rng = np.random.default_rng(1)
    for rows in ([], [4_999], [7, 7, 7, 3], rng.permutation(5_000), rng.integers(0, 5_000, 300)):
        numbers = np.array(rows, dtype=np.int64)
        np.testing.assert_array_equal(source.take(numbers), X()[numbers])
    np.testing.assert_array_equal(source.read(1_234, 4_321), X()[1_234:4_321])
    assert source.read(9, 9).shape == (0, 6)


def test_rows_are_read_where_a_system_has_no_preadv(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "preadv", raising=False)
    source = lwcs.scan(saved(tmp_path, "npy"))
    np.testing.assert_array_equal(source.take(np.array([5, 4_000])), X()[[5, 4_000]])


@pytest.mark.parametrize("kind", [*KINDS, "hdf5"])
def test_a_file_that_is_truncated_while_it_is_read_is_an_error(kind, tmp_path):
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        path = str(tmp_path / "x.h5")
        with h5py.File(path, "w") as file:
            file["x"] = X()
    else:
        path = saved(tmp_path, kind)
    source = lwcs.scan(path)
    os.truncate(path, 4_096)
    for reads in (
        lambda: source.read(4_000, 5_000),
        lambda: source.take(np.array([10, 4_900])),
        lambda: lwcs.build(source, 20),
    ):
        with pytest.raises(ValueError, match=r"'.*x\.\w+' changed while it was being read; wait"):
            reads()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_written_anew_between_passes_is_noticed(kind, tmp_path):
    path = saved(tmp_path, kind)
    source = lwcs.scan(path)
    first = lwcs.build(source, 20, random_state=0)
    assert lwcs.build(source, 20, random_state=0) == first
    os.utime(path, (1_000, 1_000))
    with pytest.raises(ValueError, match=r"changed while it was being read"):
        lwcs.build(source, 20)


def test_a_file_that_vanishes_is_named(tmp_path):
    path = saved(tmp_path, "npy")
    source = lwcs.scan(path)
    os.remove(path)
    with pytest.raises(FileNotFoundError, match=r"x\.npy' vanished before all rows were read"):
        lwcs.build(source, 20)


def test_a_memory_limit_limits_the_blocks_of_threads(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((300_000, 4)))
    source = lwcs.scan(tmp_path / "x.npy", memory_limit="26MB")
    lock, now, most = threading.Lock(), [0], [0]

    def task(blocks, _):
        with lock:
            now[0] += 1
            most[0] = max(now[0], most[0])
        time.sleep(0.01)
        list(blocks)
        with lock:
            now[0] -= 1

    list(source.gather(task, n_jobs=8))
    assert most == [1]
    assert lwcs.build(source, 20, random_state=0).n_samples == 300_000


def test_a_file_and_an_array_are_partitions_of_one_source(tmp_path):
    path = saved(tmp_path, "npy")
    mixed = lwcs.PartitionedSource([lwcs.scan(path), X()])
    alike = lwcs.PartitionedSource([X(), X()])
    assert lwcs.build(mixed, 50, random_state=0) == lwcs.build(alike, 50, random_state=0)


def test_a_memory_map_that_is_passed_stays_one(tmp_path):
    path = saved(tmp_path, "npy")
    rows = np.load(path, mmap_mode="r")
    assert lwcs.scan(rows).array.base is rows

"""The native kernels on all instruction sets of this processor: the same coresets, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import lwcs
from lwcs.kernels import Pivot, choose, native
from lwcs.kernels.native.library import INSTRUCTION_SETS

SETS = list(INSTRUCTION_SETS.values())
HERE = SETS[: SETS.index(native.INSTRUCTION_SET) + 1]

BUILD = """
import hashlib, sys
import numpy as np, scipy.sparse as sp, lwcs
from lwcs.kernels import native
rng = np.random.default_rng(0)
X = rng.standard_t(3, size=(30_000, 11))
w = rng.random(30_000)
whole = hashlib.sha256()
def add(coreset):
    for part in (coreset.indices, coreset.weights, 0.0 if coreset.mean is None else coreset.mean):
        whole.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
for dtype in (np.float64, np.float32, np.float16, np.int8):
    rows = (20 * X).clip(-127, 127).astype(dtype)
    for options in ({}, {"sample_weight": w}, {"passes": 2}, {"method": "uniform"}):
        add(lwcs.build(rows, 2_000, random_state=0, **options))
for columns in (3, 90):
    add(lwcs.build(np.tile(X, (1, 9))[:, :columns], 2_000, random_state=0))
for dtype in (np.int8, np.uint8):
    bytes_of = (20 * np.tile(X, (1, 9))).clip(-127, 127).astype(np.int8).view(dtype)
    add(lwcs.build(bytes_of, 2_000, random_state=0))
add(lwcs.build(sp.csr_array(np.where(abs(X) > 1, X, 0.0)), 2_000, random_state=0))
add(lwcs.build(lwcs.scan(X, scale="standard"), 2_000, random_state=0))
print(native.INSTRUCTION_SET, whole.hexdigest())
"""


def built_with(instruction_set: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", BUILD], env=os.environ | {"LWCS_ISA": instruction_set},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


@pytest.mark.skipif(len(HERE) == 1, reason="this processor has one instruction set")
def test_the_same_coresets_on_every_instruction_set():
    used, hashes = zip(*map(built_with, HERE), strict=True)
    assert list(used) == HERE
    assert len(set(hashes)) == 1, dict(zip(used, hashes, strict=True))


def test_a_mistyped_instruction_set_is_named():
    with pytest.raises(AssertionError, match="did you mean 'avx2'"):
        built_with("avx")


NARROW = [np.float16, np.int8, np.uint8]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("columns", [3, 8, 40])
def test_narrow_rows_give_the_results_of_the_same_rows_in_float32(dtype, columns, kernel):
    rng = np.random.default_rng(0)
    means = rng.integers(20, 100, size=(6, columns))
    X = (means[rng.integers(0, 6, 5_000)] + rng.normal(size=(5_000, columns))).astype(dtype)
    rows, wide = np.ascontiguousarray(X), X.astype(np.float32)
    one, other = (lwcs.build(each, 600, random_state=0) for each in (rows, wide))
    np.testing.assert_array_equal(one.indices, other.indices)
    # Sums of bytes are whole numbers, which do not round.
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)
    assert one.points.dtype == dtype
    models = [lwcs.CoresetKMeans(6, random_state=0).fit(each) for each in (rows, wide)]
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    np.testing.assert_allclose(models[0].inertia_, models[1].inertia_, rtol=1e-6)
    np.testing.assert_array_equal(models[1].predict(rows), models[1].labels_)


@pytest.mark.skipif(choose() != "native", reason="no native kernels")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("columns", [31, 32, 33, 40, 64, 100, 1000])
@pytest.mark.parametrize("cell", [1, 4, 32])
def test_scans_of_bytes_are_those_of_the_same_numbers(dtype, columns, cell):
    rng, ends = np.random.default_rng(0), np.iinfo(dtype)
    X = rng.integers(ends.min, ends.max + 1, (517, columns)).astype(dtype)
    X[3], X[4] = ends.min, ends.max
    for pivot in (X.mean(axis=0), np.full(columns, ends.min - 300.25), np.full(columns, 99.5)):
        found = []
        for rows in (X, X.astype(np.float64)):
            cells = np.empty(-(-len(X) // cell))
            found.append((*native.scan_cells(rows, None, Pivot(pivot), 256, cells, cell), cells))
        for one, other, off in zip(*found, (1e-9 * 256 * 500, 0.0, 0.0), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=off)
    equal, cells = np.full((100, columns), 7, dtype), np.empty(100)
    native.scan_cells(equal, None, Pivot(np.full(columns, 7.0)), 64, cells, 1)
    assert not cells.any()


def test_every_half_is_read_as_numpy_reads_it():
    bits = np.arange(2**16, dtype=np.uint16)
    halves = bits.view(np.float16)[np.isfinite(bits.view(np.float16))].reshape(-1, 16)
    out = np.empty(len(halves))
    native.scan(halves, None, Pivot(np.zeros(16)), out)
    np.testing.assert_allclose(out, (halves.astype(np.float64) ** 2).sum(axis=1), rtol=1e-13)
    shift, _ = native.scan(halves, None, Pivot(np.zeros(16)), out)
    np.testing.assert_allclose(shift, halves.astype(np.float64).sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("label", [3, -4])
def test_labels_beyond_the_centers_are_refused_also_without_asserts(label):
    program = f"""
import numpy as np
from lwcs.kernels import native
native.own_distances(np.ones((5, 2)), np.ones((3, 2)), np.full(5, {label}), None)
"""
    ended = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("AssertionError: ")


@pytest.mark.skipif(choose() != "native", reason="no native kernels")
@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_rows_are_not_copied(dtype):
    import tracemalloc

    X = np.ones((400_000, 16), dtype)
    X[::2] = 2
    lwcs.build(X[:1_000], 10, random_state=0)
    tracemalloc.start()
    lwcs.build(X, 100, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One number per cell of 32 rows and some blocks of sums.
    assert peak < X.nbytes / 4 + 2**20


def test_a_library_of_another_version_is_refused(monkeypatch):
    from lwcs.kernels.native import library

    monkeypatch.setattr(library, "_INTERFACE", -1)
    with pytest.raises(RuntimeError, match="built for another version of lwcs; install lwcs again"):
        library.load.__wrapped__()

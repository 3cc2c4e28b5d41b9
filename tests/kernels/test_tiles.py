"""Products and comparisons in tiles: what the scores say, whatever the cuts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lwcs.geometry import Geometry
from lwcs.geometry.products import Best, Moved, Watch
from lwcs.kernels.native import tiles as native

ROWS = (1, 255, 256, 257, 1000)
CENTERS = (1, 2, 127, 128, 129, 300)


def scored(rows: int, centers: int, dtype: type, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 7)).astype(dtype)
    X[:, -1] = 1.0
    matrix = rng.standard_normal((centers, 7)).astype(dtype)
    return X, matrix, X.astype(np.float64) @ matrix.astype(np.float64).T


def assign(X: np.ndarray, matrix: np.ndarray, found: Best, at: np.ndarray | None = None) -> Watch:
    """Compare rows with all centers, or with those that moved."""
    n, k = len(X), len(matrix)
    at = np.arange(k) if at is None else at
    place = np.full(k, -1)
    place[at] = np.arange(len(at))
    heights, least = np.full(n, 1e9, X.dtype), np.zeros(n, X.dtype)
    memory = np.empty(n, dtype=np.int64), np.empty(k, dtype=bool), np.empty(n, dtype=np.int64)
    watch = Watch(heights, least, *memory)
    rows = np.ascontiguousarray(X[:, :-1])
    tiles = native.Tiles(rows, X.dtype, np.zeros(rows.shape[1], X.dtype), None)
    assert tiles.assign(matrix, Moved(at, place, None), found, watch) == 0
    return watch


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("centers", CENTERS)
@pytest.mark.parametrize("rows", ROWS)
def test_the_best_score_is_found(rows, centers, dtype):
    X, matrix, scores = scored(rows, centers, dtype)
    found, each = Best.unknown(rows, dtype), np.arange(rows)
    assign(X, matrix, found)
    own = scores[each, found.labels]
    np.testing.assert_allclose(own, scores.max(axis=1), rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.scores, own, rtol=0, atol=1e-5)
    scores[each, found.labels] = -np.inf
    np.testing.assert_allclose(found.others, scores.max(axis=1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("moved", [1, 5, 130, 300])
def test_centers_that_move_again_and_again_leave_the_best(moved, seed):
    rows, k = 700, 300
    X, matrix, _ = scored(rows, k, np.float64, seed)
    found = Best.unknown(rows, np.float64)
    assign(X, matrix, found)
    rng = np.random.default_rng(seed)
    for step in (0.3, 0.1, 1.0, 0.01, 0.3):
        at = np.sort(rng.choice(k, moved, replace=False))
        matrix[at] += step * rng.standard_normal((moved, 7))
        before = found.labels.copy()
        watch = assign(X, matrix, found, at)
        fresh = Best.unknown(rows, np.float64)
        assign(X, matrix, fresh)
        np.testing.assert_array_equal(found.labels, fresh.labels)
        np.testing.assert_allclose(found.scores, fresh.scores, rtol=1e-13)
        assert (found.others >= fresh.others - 1e-12).all()
        differ = before != found.labels
        concerned = np.unique([before[differ], found.labels[differ]])
        np.testing.assert_array_equal(np.flatnonzero(watch.changed), concerned)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cuts_at_tiles_change_no_bit(dtype):
    X, matrix, _ = scored(5 * native.TILE + 3, 150, dtype)
    whole, parts = (Best.unknown(len(X), dtype) for _ in range(2))
    assign(X, matrix, whole)
    for part in (slice(0, native.TILE), slice(native.TILE, None)):
        assign(X[part], matrix, parts.of_rows(part))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_portable_way_finds_the_same(sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 6))
    X[rng.random(X.shape) < 0.3] = 0.0
    results = []
    for kernel in ("numpy", "native"):
        geometry = Geometry(kernel=kernel)
        rows, centers = geometry.measured(sp.csr_array(X) if sparse else X), X[:40] + 0.1
        products = rows.products()
        found = Best.unknown(900, np.float64)
        product, heights, _ = products.ready(rows, map)
        memory = np.empty(900, dtype=np.int64), np.empty(40, dtype=bool), np.empty(900, np.int64)
        watch = Watch(heights, np.full(900, 1e-9), *memory)
        for step in range(5):
            at = np.arange(40) if step == 0 else np.arange(3 * step, 3 * step + 3)
            centers = centers.copy()
            centers[at] -= 0.3
            now = geometry.centers(centers)
            prepared = products.center_matrix(now)
            moved = Moved.of(at, products, prepared)
            assert products.assign(product, prepared, moved, found, watch) == 0
            np.testing.assert_array_equal(found.labels, rows.labels(now))
        results.append((found, np.flatnonzero(watch.changed)))
    (one, changed), (other, also) = results
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(changed, also)


@pytest.mark.parametrize("scale", [None, np.array([1.0, 10.0, 0.1, 3.0])])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_labels_and_distances_are_those_of_differences(dtype, scale):
    rng = np.random.default_rng(0)
    X = (50.0 * rng.standard_normal((1_500, 4)) + 1e3).astype(dtype)
    geometry = Geometry(kernel="native", scale=scale)
    centers = geometry.centers(X[:150].astype(np.float64))
    labels, distances = geometry.measured(X).nearest(centers)
    unit = np.ones(4) if scale is None else scale
    every = (((X[:, None, :].astype(float) - centers.points) / unit) ** 2).sum(axis=2)
    np.testing.assert_array_equal(labels, every.argmin(axis=1))
    np.testing.assert_allclose(distances, every.min(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(geometry.measured(X).labels(centers), labels)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_not_finite_are_never_certain(dtype, bad):
    X = np.random.default_rng(0).standard_normal((600, 3)).astype(dtype)
    geometry = Geometry(kernel="native")
    centers = geometry.centers(X[:5].astype(np.float64))
    X[300, 1] = bad
    rows = geometry.measured(X)
    labels = np.empty(600, dtype=np.int32)
    at = rows.products().search(rows, centers, labels, None)
    assert 300 in at
    with pytest.raises(ValueError, match="row 300"):
        raise geometry_error(rows, centers)


def geometry_error(rows, centers) -> Exception:
    from lwcs.arrays.checks import BadValueError

    with pytest.raises(BadValueError) as found:
        rows.nearest(centers)
    return found.value.explained(0, "", None)

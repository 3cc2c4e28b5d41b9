"""What holds for any data, found or refuted by hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lwcs
from lwcs.samplers import Moments

VALUES = {
    "float32": st.floats(-1e6, 1e6, width=32),
    "float64": st.floats(-1e12, 1e12).map(lambda x: 0.0 if abs(x) < 1e-12 else x),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint8": st.integers(0, 255),
}


@st.composite
def tables(draw, least_rows=1):
    dtype = draw(st.sampled_from(sorted(VALUES)))
    shape = draw(st.tuples(st.integers(least_rows, 40), st.integers(1, 6)))
    X = draw(hnp.arrays(dtype, shape, elements=VALUES[dtype]))
    weights = draw(
        st.none()
        | hnp.arrays(np.float64, shape[0], elements=st.floats(0, 1e3).map(lambda w: round(w, 3)))
    )
    if weights is not None and not weights.any():
        weights[0] = 1.0
    return X, weights


def naive(X, w):
    X = X.astype(np.float64)
    mean = (w[:, None] * X).sum(axis=0) / w.sum()
    return mean, float((w[:, None] * (X - mean) ** 2).sum())


@given(tables(), st.integers(1, 60), st.sampled_from([1, 2]), st.booleans(), st.integers(0, 99))
def test_every_coreset_is_sound(table, size, passes, sparse, seed):
    X, w = table
    data = sp.csr_array(X) if sparse else X
    coreset = lwcs.build(data, size, sample_weight=w, passes=passes, random_state=seed, n_jobs=1)
    points = coreset.points.toarray() if sparse else coreset.points
    omega = np.ones(len(X)) if w is None else w
    mean, cost = naive(X, omega)
    magnitude = np.abs(X.astype(np.float64)).max() + 1e-300
    np.testing.assert_array_equal(points, X[coreset.indices])
    assert coreset.size == size
    assert (coreset.weights > 0).all()
    assert (omega[coreset.indices] > 0).all()
    assert coreset.total_weight == pytest.approx(omega.sum())
    np.testing.assert_allclose(coreset.mean, mean, rtol=1e-9, atol=1e-12 * magnitude)
    assert coreset.total_cost == pytest.approx(
        cost, rel=1e-9, abs=1e-22 * omega.sum() * magnitude**2
    )
    if coreset.total_cost > 1e-12 * omega.sum() * magnitude**2:
        at_mean = coreset.cost(coreset.mean[None, :]) / coreset.total_cost
        assert coreset.weights.sum() / coreset.total_weight + at_mean == pytest.approx(2, rel=1e-6)


@given(tables(), st.integers(1, 30), st.integers(0, 99))
def test_what_is_saved_is_loaded(tmp_path_factory, table, size, seed):
    X, w = table
    coreset = lwcs.build(X, size, sample_weight=w, random_state=seed, n_jobs=1)
    path = tmp_path_factory.mktemp("c") / "c.parquet"
    coreset.save(path)
    assert lwcs.load(path) == coreset


@given(tables(least_rows=3), st.data())
def test_moments_of_the_parts_merge_to_those_of_the_whole(table, data):
    from lwcs.kernels import named

    X, w = table
    w = np.ones(len(X)) if w is None else w
    cut = data.draw(st.integers(0, len(X)))
    parts = [
        Moments(len(rows), *named("numpy").moments(rows, omega))
        for rows, omega in ((X[:cut], w[:cut]), (X[cut:], w[cut:]))
    ]
    merged, (mean, cost) = parts[0] + parts[1], naive(X, w)
    magnitude = np.abs(X.astype(np.float64)).max() + 1e-300
    assert merged.rows == len(X)
    np.testing.assert_allclose(merged.mean, mean, rtol=1e-9, atol=1e-12 * magnitude)
    assert merged.scatter.sum() == pytest.approx(cost, rel=1e-9, abs=1e-22 * magnitude**2 * w.sum())


@given(tables(least_rows=2), st.integers(1, 40), st.integers(0, 99))
def test_reduced_coresets_keep_draws_of_the_whole(table, size, seed):
    X, w = table
    coreset = lwcs.build(X, 40, sample_weight=w, random_state=seed, n_jobs=1)
    reduced = coreset.reduce(size, random_state=seed)
    assert reduced.size == size
    before = dict(
        zip(coreset.indices, zip(coreset.counts, coreset.weights, strict=True), strict=True)
    )
    for i, count, weight in zip(reduced.indices, reduced.counts, reduced.weights, strict=True):
        assert count <= before[i][0]
        assert weight / count == pytest.approx(before[i][1] / before[i][0] * 40 / size)

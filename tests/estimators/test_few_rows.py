"""Few plain rows are labelled without a pass: the same labels and errors, by present centers."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import lwcs
from lwcs import CoresetKMeans
from lwcs.estimators import kmeans_predict
from lwcs.sources import LocalSource, Source

NAMES = list("abcd")


def made(n=2_000, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def fitted(X, k=5, **parameters):
    return CoresetKMeans(k, random_state=0, compute_labels=False, **parameters).fit(X)


def outcome(model, X):
    """Labels with their type, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            labels = model.predict(X)
            found = type(labels), labels.dtype, labels.tolist()
        except Exception as error:
            found = type(error), str(error)
    return found, [str(each.message) for each in caught]


@pytest.fixture
def by_a_pass(monkeypatch):
    """`outcome`, with every row labelled by a pass."""

    def found(model, X):
        with monkeypatch.context() as patch:
            patch.setattr(kmeans_predict, "_labels_of_few", lambda *_: None)
            return outcome(model, X)

    return found


@pytest.fixture
def without_passes(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a source was opened")

    monkeypatch.setattr(kmeans_predict, "scan_rows", refuse)


def test_a_few_rows_of_an_array_need_no_pass(without_passes):
    X = made()
    model = fitted(X)
    for rows in (X[:1], X[:100], X[:512], X[:3].astype(np.float32), np.zeros((2, 4), dtype=int)):
        assert model.predict(rows).dtype == np.int32
    with pytest.raises(AssertionError, match="a source was opened"):
        model.predict(X[:513])


def test_a_few_rows_of_a_frame_need_no_pass(without_passes):
    frame = pd.DataFrame(made(), columns=NAMES)
    model = fitted(frame)
    expected = model.predict(frame[:100])
    assert np.array_equal(model.predict(frame[:1]), expected[:1])
    mixed = frame[:100].astype({"a": np.float32})
    assert np.array_equal(model.predict(mixed), expected)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e9, -1e15])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("k", "d"), [(1, 3), (2, 1), (7, 4), (40, 30)])
def test_labels_are_those_of_a_pass(by_a_pass, k, d, dtype, offset):
    X = (made(3_000, d) + offset).astype(dtype)
    # The data may have fewer distinct rows than that at a large offset.
    model = CoresetKMeans(k, random_state=0).fit(made(3_000, d).astype(dtype))
    model.cluster_centers_ = X[:k].copy()
    for n in (1, 2, 100, 512):
        assert outcome(model, X[-n:]) == by_a_pass(model, X[-n:])


def test_equally_near_centers_get_the_label_of_a_pass(by_a_pass):
    grid = np.array([(x, y) for x in range(12) for y in range(12)], dtype=float)
    model = fitted(grid, 4)
    model.cluster_centers_ = np.array([[2.0, 2.0], [8.0, 2.0], [2.0, 2.0], [5.0, 9.0]])
    assert outcome(model, grid) == by_a_pass(model, grid)
    for row in grid:
        assert outcome(model, row[None]) == by_a_pass(model, row[None])


def test_a_center_far_away_or_not_finite_gives_the_labels_of_a_pass(by_a_pass):
    X = made()
    for value in (1e9, 1e160, 1e300, np.inf, np.nan):
        model = fitted(X)
        model.cluster_centers_[2, 1] = value
        assert outcome(model, X[:50]) == by_a_pass(model, X[:50])


@pytest.mark.parametrize("factor", [1e-300, 1e-170, 1e-20, 1e20, 1e150, 1e160, 1e300])
def test_rows_of_any_size_get_the_labels_of_a_pass(by_a_pass, factor):
    X = made()
    model = fitted(X)
    model.cluster_centers_ = X[:5] * factor
    assert outcome(model, X[:50] * factor) == by_a_pass(model, X[:50] * factor)
    assert outcome(model, X[:50]) == by_a_pass(model, X[:50])


def test_standardized_rows_get_the_labels_of_a_pass(by_a_pass, without_passes, monkeypatch):
    X = made() * [1.0, 1e3, 1e-3, 1.0]
    model = fitted(lwcs.scan(X, scale="standard"))
    found = outcome(model, X[:200])
    assert found[0][0] is np.ndarray
    monkeypatch.undo()
    assert found == by_a_pass(model, X[:200])


BAD = {
    "nan": np.array([[0.0, 1.0, np.nan, 3.0]]),
    "infinite": np.array([[0.0, 1.0, 2.0, 3.0], [0.0, -np.inf, 1.0, 1.0]]),
    "too large": np.full((1, 4), 1e308),
    "one dimension": np.zeros(4),
    "three dimensions": np.zeros((1, 4, 1)),
    "no rows": np.zeros((0, 4)),
    "columns missing": np.zeros((2, 3)),
    "columns added": np.zeros((2, 5)),
    "text": np.array([["a", "b", "c", "d"]]),
    "objects": np.array([[0.0, 1.0, 2.0, None]], dtype=object),
    "numbers as objects": np.array([[0.0, 1, 2.0, 3]], dtype=object),
    "booleans": np.ones((2, 4), dtype=bool),
    "complex": np.zeros((1, 4), dtype=complex),
    "long": np.zeros((1, 4), dtype=np.longdouble),
    "masked": np.ma.array(np.zeros((1, 4)), mask=True),
    "list": [[0.0, 1.0, 2.0, 3.0]],
    "big-endian": np.ones((2, 4), dtype=">f8"),
    "half": np.ones((2, 4), dtype=np.float16),
    "64 bits": np.full((1, 4), 2**63 + 1, dtype=np.uint64),
}


@pytest.mark.parametrize("case", BAD)
def test_arrays_are_taken_and_refused_as_by_a_pass(by_a_pass, case):
    model = fitted(made())
    assert outcome(model, BAD[case]) == by_a_pass(model, BAD[case])


def frames():
    frame = pd.DataFrame(made(10), columns=NAMES)
    yield "plain", frame
    yield "other order", frame[list("dcba")]
    yield "one more", frame.assign(id=range(10))
    yield "one less", frame[list("abc")]
    yield "renamed", frame.rename(columns={"a": "z"})
    yield "numbers as names", frame.set_axis(range(4), axis=1)
    yield "twice the same", frame.set_axis(list("abca"), axis=1)
    yield "missing", frame.mask(frame > 1.0)
    yield "integers", frame.astype(int)
    yield "mixed", frame.astype({"a": np.float32, "b": np.int64})
    yield "nullable", frame.astype("Float64")
    yield "one nullable", frame.astype({"c": "Float64"})
    yield "Arrow", frame.astype("float64[pyarrow]")
    yield "booleans", frame > 0
    yield "one boolean", frame.assign(a=True)
    yield "text", frame.assign(a="x")
    yield "objects", frame.astype(object)
    yield "categories", frame.astype({"a": "category"})
    yield "only categories", frame.astype("category")
    yield "dates", frame.assign(a=pd.Timestamp("2026-01-01"))
    yield "no rows", frame[:0]
    yield "array", frame.to_numpy()


@pytest.mark.parametrize(("case", "frame"), list(frames()), ids=[name for name, _ in frames()])
def test_frames_are_taken_and_refused_as_by_a_pass(by_a_pass, case, frame):
    for model in (fitted(pd.DataFrame(made(), columns=NAMES)), fitted(made())):
        assert outcome(model, frame) == by_a_pass(model, frame), case


def nearest(X, centers):
    return np.argmin(((X[:, None] - centers) ** 2).sum(axis=2), axis=1)


def test_centers_that_are_changed_in_any_way_are_used():
    X = made()
    model = fitted(X)
    rows, rng = X[:100], np.random.default_rng(1)

    def check():
        assert np.array_equal(model.predict(rows), nearest(rows, model.cluster_centers_))

    check()
    model.cluster_centers_ = rng.standard_normal((5, 4))
    check()
    model.cluster_centers_[3] = rows[7]
    check()
    model.cluster_centers_[:] = model.cluster_centers_[::-1].copy()
    check()
    view = model.cluster_centers_.view()
    model.cluster_centers_ = view
    check()
    view.base[0] = rows[0]
    check()
    model.cluster_centers_ = rng.standard_normal((9, 4)).astype(np.float32)
    check()
    model.cluster_centers_ = np.array([[0, 0, 0, 0], [1, 1, 1, 1]])
    check()
    model.fit(X[:300])
    check()
    model.partial_fit(X[300:900])
    check()
    model.partial_fit(X[900:] + 3.0)
    check()


def test_a_changed_scale_or_geometry_is_used(by_a_pass):
    X = made() * [1.0, 1e3, 1e3, 1e3]
    model = fitted(lwcs.scan(X, scale="standard"))
    before = model.predict(X[:100])
    model.geometry_ = fitted(X).geometry_
    assert not np.array_equal(model.predict(X[:100]), before)
    assert outcome(model, X[:100]) == by_a_pass(model, X[:100])


def test_parameters_that_change_are_considered(by_a_pass):
    X = made()
    model = fitted(X)
    model.predict(X[:1])
    for name, value in (("n_jobs", 0), ("n_jobs", 2), ("device", "nowhere"), ("device", None)):
        model.set_params(**{name: value})
        assert outcome(model, X[:1]) == by_a_pass(model, X[:1])
    with config_context(array_api_dispatch=False):
        assert outcome(model, X[:1]) == by_a_pass(model, X[:1])
    unfitted = CoresetKMeans(3)
    assert outcome(unfitted, X[:1]) == by_a_pass(unfitted, X[:1])


@pytest.mark.parametrize("divergence", ["cosine", "kl", "itakura_saito"])
def test_other_divergences_get_the_labels_of_a_pass(by_a_pass, divergence):
    X = np.abs(made()) + 0.1
    model = fitted(X, divergence=divergence)
    assert outcome(model, X[:100]) == by_a_pass(model, X[:100])
    assert outcome(model, -X[:1]) == by_a_pass(model, -X[:1])


def test_nothing_is_kept_in_the_model_nor_after_it():
    X = made()
    model = fitted(X)
    before, size = dict(vars(model)), len(pickle.dumps(model))
    model.predict(X[:1])
    assert vars(model) == before
    assert len(pickle.dumps(model)) == size
    for copied in (deepcopy(model), pickle.loads(pickle.dumps(model))):
        copied.cluster_centers_[:] = copied.cluster_centers_[::-1].copy()
        assert np.array_equal(copied.predict(X[:50]), 4 - model.predict(X[:50]))
    gone = weakref.ref(model.cluster_centers_)
    del model, before
    gc.collect()
    assert gone() is None


def test_a_source_that_is_registered_for_arrays_opens_them():
    X = made()
    model = fitted(X)
    expected = model.predict(X[:3])

    class Twice(LocalSource):
        feature_names = None

        def __init__(self, rows):
            self.rows = np.concatenate([rows, rows])
            self.n_rows, self.n_features = self.rows.shape

        @classmethod
        def accepts(cls, data):
            return type(data) is np.ndarray

        @classmethod
        def open(cls, data, _):
            return cls(data)

        def read(self, start, stop):
            return self.rows[start:stop]

        def take(self, rows):
            return self.rows[rows]

    try:
        assert np.array_equal(model.predict(X[:3]), np.tile(expected, 2))
    finally:
        Source.registered.remove(Twice)

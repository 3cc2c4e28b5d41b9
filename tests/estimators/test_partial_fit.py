"""partial_fit: an answer after every batch, that of all rows so far; attributes do not compute."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import lwcs
from lwcs import CoresetKMeans
from lwcs.solvers.seeding import start as start_from

ANSWERS = ("cluster_centers_", "inertia_", "n_iter_", "coreset_", "geometry_", "labels_")


def rows(n: int, center: float = 0.0, seed: int = 0) -> np.ndarray:
    return center + np.random.default_rng(seed).normal(size=(n, 3))


def state_of(model: CoresetKMeans) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in vars(model).items()}


def test_asking_for_an_attribute_does_not_compute(monkeypatch):
    model = CoresetKMeans(4, random_state=0).partial_fit(rows(3))
    full = CoresetKMeans(4, random_state=0).partial_fit(rows(300))
    monkeypatch.setattr("lwcs.sizing.solution.cluster", None)
    monkeypatch.setattr("lwcs.StreamingCoreset.coreset", None)
    for each in (model, full):
        before = state_of(each)
        there = {name: hasattr(each, name) for name in (*ANSWERS, "scale_", "nonsense_")}
        assert state_of(each) == before
        assert there["cluster_centers_"] == there["coreset_"] == there["inertia_"] == (each is full)
        assert not there["labels_"]
        assert not there["nonsense_"]


def test_fewer_rows_than_clusters_are_waited_for():
    model = CoresetKMeans(5, random_state=0).partial_fit(rows(3))
    assert not hasattr(model, "cluster_centers_")
    words = r"n_samples=3 should be >= n_clusters=5; call partial_fit with at least 2 more rows"
    for method in (model.predict, model.transform, model.score):
        with pytest.raises(NotFittedError, match=words):
            method(rows(3))
    for method in (model.to_arrow, model.to_sklearn):
        with pytest.raises(NotFittedError, match=words):
            method()
    with pytest.raises(AttributeError, match=words):
        _ = model.cluster_centers_
    model.partial_fit(rows(2, 9.0))
    assert model.cluster_centers_.shape == (5, 3)
    assert model.predict(rows(3)).shape == (3,)


def test_rows_without_weight_and_coresets_without_room_are_waited_for():
    model = CoresetKMeans(2, random_state=0).partial_fit(rows(50), sample_weight=np.zeros(50))
    with pytest.raises(NotFittedError, match=r"coreset of the 50 rows so far .* weights > 0"):
        model.predict(rows(3))
    assert model.partial_fit(rows(50)).coreset_.n_samples == 100
    outlier = np.vstack([rows(1000), np.full((1, 3), 1e6)])  # about half of all draws
    tight = CoresetKMeans(5, coreset_size=5, random_state=0).partial_fit(outlier)
    with pytest.raises(NotFittedError, match=r"fewer than n_clusters=5 .* larger coreset_size"):
        tight.predict(rows(3))


def test_after_every_batch_the_answer_is_that_of_the_coreset_so_far():
    model = CoresetKMeans(4, coreset_size=60, n_init=2, random_state=7)
    stream = lwcs.StreamingCoreset(60, random_state=7)
    for seed in range(6):
        batch = rows(50, 5.0 * seed, seed)
        model.partial_fit(batch)
        stream.update(batch)
        assert model.coreset_ == stream.coreset()
        expected = clone(model).fit(stream.coreset())
        np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
        assert model.inertia_ == expected.inertia_


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_fit_is_continued(make):
    X, Y = make(rows(500)), make(rows(400, 50.0, 1))
    model = CoresetKMeans(2, coreset_size=100, random_state=0).fit(X).partial_fit(Y)
    assert model.coreset_.n_samples == 900
    assert sorted(model.cluster_centers_.mean(axis=1).round()) == [0.0, 50.0]
    assert not hasattr(model, "labels_")
    stream = lwcs.StreamingCoreset(100, random_state=model._stream.seed)
    stream.update(CoresetKMeans(2, coreset_size=100, random_state=0).fit(X).coreset_)
    stream.update(Y)
    assert model.coreset_ == stream.coreset()
    assert model.fit(X).coreset_.n_samples == 500, "fit starts again"


def test_a_continued_fit_uses_other_random_numbers_than_the_fit():
    """Rows that are read once are drawn by reservoirs, as those of a stream are."""
    X = rows(1000)
    model = CoresetKMeans(2, coreset_size=40, random_state=0).fit(iter([X]))
    drawn = set(model.coreset_.indices)
    model.partial_fit(X)
    assert set(model._stream._coreset_of_rows().indices) != drawn


def test_small_data_is_continued_without_loss():
    X = rows(30)
    model = CoresetKMeans(3, random_state=0).fit(X[:10])
    for row in X[10:]:
        model.partial_fit(row[None, :])
    assert model.coreset_.n_samples == 30
    assert model.coreset_.total_weight == 30


def test_features_are_those_of_fit():
    frame = pd.DataFrame(rows(200), columns=["a", "b", "c"])
    model = CoresetKMeans(2, coreset_size=50, random_state=0).fit(frame)
    before = state_of(model)
    with pytest.raises(ValueError, match="X has 2 features, but CoresetKMeans is expecting 3"):
        CoresetKMeans(2).fit(rows(10)).partial_fit(rows(10)[:, :2])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"a": "z"}))
    assert state_of(model) == before
    assert model.partial_fit(frame).coreset_.feature_names == ("a", "b", "c")
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.partial_fit(rows(10))
    assert model.coreset_.n_samples == 410
    named = CoresetKMeans(2, random_state=0).partial_fit(frame).partial_fit(frame)
    assert named.coreset_.feature_names == ("a", "b", "c")


def test_what_cannot_be_continued_is_refused_with_words(tmp_path):
    X = rows(300)
    with pytest.raises(ValueError, match="is sparse, but the stream has 3 columns and is dense"):
        CoresetKMeans(2, random_state=0).fit(X).partial_fit(sp.csr_array(X))
    CoresetKMeans(2, random_state=0).fit(X).save(tmp_path / "m.parquet")
    loaded = lwcs.load(tmp_path / "m.parquet")
    before = state_of(loaded)
    with pytest.raises(ValueError, match=r"was loaded from a file.*coreset_\.save.*partial_fit\(X"):
        loaded.partial_fit(X)
    assert state_of(loaded) == before
    scaled = CoresetKMeans(2, random_state=0).fit(lwcs.scan(X, scale="standard"))
    with pytest.raises(ValueError, match=r"scale='standard'.*scale the data beforehand"):
        scaled.partial_fit(X)
    with pytest.raises(ValueError, match="method='refined' is not supported by partial_fit"):
        CoresetKMeans(2, method="refined", random_state=0).fit(X).partial_fit(X)
    coarse = CoresetKMeans(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="measured by SquaredEuclidean"):
        coarse.set_params(divergence="kl").partial_fit(np.abs(X))


def test_a_saved_coreset_is_continued_as_the_error_says(tmp_path):
    CoresetKMeans(2, random_state=0).fit(rows(300)).coreset_.save(tmp_path / "c.parquet")
    model = CoresetKMeans(2, random_state=0).fit(lwcs.load(tmp_path / "c.parquet"))
    assert model.partial_fit(rows(50, 9.0)).coreset_.n_samples == 350


def unpickled(model: CoresetKMeans) -> CoresetKMeans:
    return pickle.loads(pickle.dumps(model))


def through_skops(model: CoresetKMeans) -> CoresetKMeans:
    data = skops.io.dumps(model)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, unpickled, through_skops])
def test_copies_go_their_own_way(way):
    model = CoresetKMeans(3, random_state=0).partial_fit(rows(100))
    other = way(model)
    expected = unpickled(model)
    other.partial_fit(rows(70, 9.0, 1), sample_weight=np.full(70, 3.0))
    for each in (model, expected):
        each.partial_fit(rows(80, -9.0, 2))
    other.partial_fit(rows(5, 2.0, 3))
    assert model.coreset_ == expected.coreset_
    assert (model.coreset_.n_samples, other.coreset_.n_samples) == (180, 175)
    assert other.coreset_.total_weight == 100 + 3 * 70 + 5
    again = CoresetKMeans(3, random_state=0)
    again.partial_fit(rows(100)).partial_fit(rows(70, 9.0, 1), sample_weight=np.full(70, 3.0))
    assert again.partial_fit(rows(5, 2.0, 3)).coreset_ == other.coreset_
    assert "_stream" not in vars(clone(model))
    assert len(pickle.dumps(model)) < 30_000, "room for rows to come is not saved"


def test_an_error_in_the_clustering_leaves_the_batch_out(monkeypatch):
    model = CoresetKMeans(3, random_state=0).partial_fit(rows(100))
    before, expected = state_of(model), copy.deepcopy(model).partial_fit(rows(40, 9.0))
    with monkeypatch.context() as broken:
        broken.setattr("lwcs.sizing.solution.cluster", lambda *_, **__: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                model.partial_fit(rows(60, 3.0), sample_weight=np.full(60, 5.0))
    assert state_of(model) == before
    assert model.partial_fit(rows(40, 9.0)).coreset_ == expected.coreset_


def test_float64_after_float32_is_not_narrowed():
    fine = 1.0 + 1e-9 * np.arange(6.0)[:, None]
    model = CoresetKMeans(3, random_state=0)
    model.partial_fit(np.arange(4, dtype=np.float32)[:, None])
    assert model.cluster_centers_.dtype == np.float32
    model.partial_fit(fine)
    assert set(model.coreset_.points.ravel()) == {0.0, 1.0, 2.0, 3.0, *fine.ravel()}
    assert model.cluster_centers_.dtype == np.float64


def test_one_restart_is_made_of_given_centers_and_a_warning(monkeypatch):
    X, start, runs = rows(300), rows(3), []
    monkeypatch.setattr("lwcs.sizing.levels.start", lambda *a: runs.append(1) or start_from(*a))
    with pytest.warns(
        RuntimeWarning, match="one restart is performed instead of n_init=4"
    ) as caught:
        model = CoresetKMeans(3, init=start, n_init=4).fit(X)
    assert caught[0].filename == __file__
    assert len(runs) == 1
    expected = CoresetKMeans(3, init=start.tolist(), n_init=1).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CoresetKMeans(3, init=start).fit(X)
        CoresetKMeans(3, init=lambda X, k, **_: X[:k], n_init=2).fit(X)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"divergence": "kl"}, r"divergence was SquaredEuclidean\(\) .* is KL\(.* now; set it"),
        (
            {"method": "uniform"},
            "method was 'lightweight' for .*, but is 'uniform' now",
        ),
        ({"coreset_size": 50}, "coreset_size was 200 for the batches so far, but is 50 now"),
    ],
)
def test_parameters_of_the_stream_do_not_change_between_batches(changed, words):
    model = CoresetKMeans(2, random_state=0).partial_fit(np.abs(rows(300)))
    model.set_params(**changed)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(np.abs(rows(300)))


def test_the_number_of_clusters_may_change_between_batches():
    model = CoresetKMeans(2, random_state=0).partial_fit(rows(300)).set_params(n_clusters=5)
    assert model.partial_fit(rows(300, seed=1)).cluster_centers_.shape == (5, 3)


def test_rows_that_are_not_in_memory_are_refused_with_advice():
    with pytest.raises(TypeError, match=r"not a BatchesSource; call it with one array.*call fit"):
        CoresetKMeans(2).partial_fit(part for part in [rows(300)])

"""Everything follows X: an array of torch or of another library in, the same library out."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import clone

import lwcs
from lwcs import CoresetKMeans, CoresetMixture

torch = pytest.importorskip("torch", reason="needs torch: make test-gpu")
strict = pytest.importorskip("array_api_strict")

rng = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 5.0], [0.0, 9.0, -5.0]])
N = 24_000
ROWS = (CENTERS[np.arange(N) % 3] + rng.standard_normal((N, 3))).astype(np.float32)
WEIGHTS = rng.gamma(2.0, size=N)
X = torch.from_numpy(ROWS)


@pytest.fixture(params=["host", "device"])
def mode(request, monkeypatch):
    """Tensors in host memory, treated like NumPy arrays, and like tensors on a GPU."""
    if request.param == "device":
        monkeypatch.setenv("LWCS_KERNEL", "device")
    return request.param


def kmeans(**options):
    return CoresetKMeans(3, coreset_size=2_000, random_state=0, **options)


def same(found, expected):
    """A tensor with the values and the dtype of a NumPy array."""
    assert isinstance(found, torch.Tensor)
    assert str(found.dtype) == f"torch.{expected.dtype}"
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_what_a_fit_finds_follows_X(mode):
    expected = kmeans().fit(ROWS, sample_weight=WEIGHTS)
    model = kmeans().fit(X, sample_weight=torch.from_numpy(WEIGHTS))
    same(model.cluster_centers_, expected.cluster_centers_)
    same(model.labels_, expected.labels_)
    same(model.coreset_.points, expected.coreset_.points)
    same(model.coreset_.weights, expected.coreset_.weights)
    assert model.inertia_ == pytest.approx(expected.inertia_, rel=1e-5)
    assert type(model.inertia_) is float


def test_answers_follow_the_rows_that_are_asked_about(mode):
    numpy, tensors = kmeans().fit(ROWS), kmeans().fit(X)
    for name in ("predict", "transform"):
        expected = getattr(numpy, name)(ROWS)
        same(getattr(numpy, name)(X), expected)
        same(getattr(tensors, name)(X), expected)
        found = getattr(tensors, name)(ROWS)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert tensors.transform(X).dtype == torch.float32
    assert tensors.score(ROWS) == pytest.approx(numpy.score(X), rel=1e-5)
    assert type(tensors.score(X)) is float


def test_fit_and_answer_at_once(mode):
    expected = kmeans().fit(ROWS)
    same(kmeans().fit_predict(X), expected.labels_)
    same(kmeans(compute_labels=False).fit_predict(X), expected.labels_)
    same(kmeans().fit_transform(X), expected.transform(ROWS))


def test_partitions_of_tensors_give_a_list_of_tensors(mode):
    parts = [X[:10_000], X[10_000:]]
    model = kmeans().fit(lwcs.PartitionedSource(parts))
    assert isinstance(model.cluster_centers_, torch.Tensor)
    expected = kmeans().fit(lwcs.PartitionedSource([ROWS[:10_000], ROWS[10_000:]]))
    same(model.cluster_centers_, expected.cluster_centers_)
    found = model.predict(parts)
    assert [len(part) for part in found] == [10_000, 14_000]
    same(torch.cat(found), np.concatenate(expected.predict([ROWS[:10_000], ROWS[10_000:]])))


def test_a_coreset_of_tensors_is_followed(mode):
    coreset = lwcs.build(X, 2_000, random_state=0)
    model = kmeans().fit(coreset)
    same(
        model.cluster_centers_,
        kmeans().fit(lwcs.build(ROWS, 2_000, random_state=0)).cluster_centers_,
    )
    assert isinstance(kmeans().fit_predict(coreset), torch.Tensor)


def test_centers_that_a_user_sets_are_used(mode):
    model = kmeans().fit(X)
    before = model.predict(X)
    model.cluster_centers_ = model.cluster_centers_.flip(0)
    same(model.predict(X), 2 - before.numpy())
    model.cluster_centers_ = np.asarray(model.cluster_centers_)[::-1]
    same(model.predict(X), before.numpy())


@pytest.mark.parametrize("init", [torch.from_numpy(CENTERS), torch.from_numpy(CENTERS).float()])
def test_centers_to_start_from_may_be_a_tensor(mode, init):
    given = kmeans(init=init).fit(X)
    found = given.predict(torch.from_numpy(CENTERS).float())
    assert found.tolist() == [0, 1, 2]


def test_a_function_that_starts_is_given_numpy_arrays(mode):
    kinds = []

    def start(rows, k, random_state):
        kinds.append(type(rows))
        return np.asarray(rows)[:k]

    kmeans(init=start, n_init=1).fit(X)
    assert kinds == [np.ndarray]


def test_batches_of_tensors(mode):
    model = kmeans()
    for batch in X.split(8_000):
        model.partial_fit(batch, sample_weight=torch.ones(len(batch)))
        assert isinstance(model.cluster_centers_, torch.Tensor)
    expected = kmeans().partial_fit(ROWS)
    same(model.cluster_centers_, expected.cluster_centers_)
    model.partial_fit(ROWS[:10])
    assert isinstance(model.cluster_centers_, np.ndarray)
    assert isinstance(model.coreset_.weights, np.ndarray)


def test_a_stream_is_given_back_where_its_last_batch_was(mode):
    stream, plain = (lwcs.StreamingCoreset(500, random_state=0) for _ in range(2))
    for batch in X.split(6_000):
        stream.update(batch)
        plain.update(batch.numpy())
    same(stream.coreset().points, plain.coreset().points)
    stream.update(lwcs.build(ROWS, 100, random_state=0))
    assert isinstance(stream.coreset().points, np.ndarray)
    stream.update(X[:5])
    assert isinstance(stream.coreset().points, torch.Tensor)
    assert isinstance(stream.coreset().weights, torch.Tensor)


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), deepcopy])
def test_models_are_copied(mode, copied):
    model = copied(kmeans().fit(X).partial_fit(X[:100]))
    same(model.cluster_centers_, kmeans().fit(X).partial_fit(X[:100]).cluster_centers_.numpy())
    model.partial_fit(X[:100])


def test_models_are_saved_and_loaded(mode, tmp_path):
    model = kmeans(precision="tf32").fit(X)
    model.save(tmp_path / "model.parquet")
    loaded = lwcs.load(tmp_path / "model.parquet")
    assert isinstance(loaded.cluster_centers_, np.ndarray)
    assert loaded.get_params()["precision"] == "tf32"
    same(loaded.predict(X), model.labels_.numpy())
    assert loaded.to_arrow() == model.to_arrow()
    other = model.to_sklearn()
    assert isinstance(other.labels_, np.ndarray)
    np.testing.assert_array_equal(other.predict(ROWS), model.labels_.numpy())
    assert clone(model).set_params(n_clusters=2).fit(X).cluster_centers_.shape == (2, 3)


def test_what_is_asked_after_a_fit(mode):
    model, expected = kmeans().fit(X), kmeans().fit(ROWS)
    found = model.stability(n_bootstrap=2, random_state=0)
    np.testing.assert_allclose(
        found.score, expected.stability(n_bootstrap=2, random_state=0).score, rtol=0.05
    )
    assert model.stability(X, n_bootstrap=2).score.shape == (3,)
    drawn = lwcs.build(X, 1_000, random_state=5)
    for centers in (model, model.cluster_centers_):
        certificate = lwcs.certify(drawn, centers)
        assert certificate.low <= expected.inertia_ <= certificate.high
    assert not lwcs.drift(model, X[:12_000], random_state=0).drifted
    assert drawn.cost(model.cluster_centers_) == pytest.approx(
        drawn.cost(expected.cluster_centers_)
    )


def test_choose_k_gives_models_that_follow_X(mode):
    choice = lwcs.choose_k(X, range(2, 5), n_bootstrap=0, random_state=0)
    assert choice.k == 3
    assert isinstance(choice.model().cluster_centers_, torch.Tensor)


def mixture(**options):
    return CoresetMixture(3, coreset_size=2_000, random_state=0, **options)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_mixtures_follow_X(mode, kind):
    expected, model = (mixture(covariance_type=kind).fit(rows) for rows in (ROWS, X))
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        same(getattr(model, name), getattr(expected, name))
    for name in ("predict", "predict_proba", "score_samples"):
        same(getattr(model, name)(X), getattr(expected, name)(ROWS))
        same(getattr(expected, name)(X), getattr(expected, name)(ROWS))
        assert isinstance(getattr(model, name)(ROWS), np.ndarray)
    assert model.bic(X) == pytest.approx(expected.bic(ROWS))
    same(model.sample(5)[0], expected.sample(5)[0])
    same(mixture(covariance_type=kind).fit_predict(X), expected.predict(ROWS))


def test_mixtures_of_tensors_are_saved_started_and_certified(mode, tmp_path):
    model = mixture().fit(X, sample_weight=torch.ones(N))
    model.save(tmp_path / "model.parquet")
    same(lwcs.load(tmp_path / "model.parquet").predict(X), model.predict(ROWS))
    same(pickle.loads(pickle.dumps(model)).means_, model.means_.numpy())
    assert isinstance(model.to_sklearn().means_, np.ndarray)
    again = mixture(means_init=model.means_, weights_init=model.weights_).fit(X)
    same(again.means_, model.means_.numpy())
    certificate = lwcs.certify(lwcs.build(X, 1_000, random_state=5), model)
    assert certificate.low < certificate.estimate < certificate.high


def test_other_divergences_follow_X(mode):
    rows = np.abs(ROWS) + 1
    expected = kmeans(divergence="kl").fit(rows)
    model = kmeans(divergence="kl").fit(torch.from_numpy(rows))
    # The order of the clusters is that of random numbers and roundings.
    order = [centers[:, 1].argsort() for centers in (model.cluster_centers_.numpy(),
                                                     expected.cluster_centers_)]  # fmt: skip
    same(model.cluster_centers_[order[0]], expected.cluster_centers_[order[1]])
    assert isinstance(model.labels_, torch.Tensor)
    same(model.predict(torch.from_numpy(rows)), model.labels_.numpy())
    assert model.inertia_ == pytest.approx(expected.inertia_, rel=1e-6)


@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1"])
def test_arrays_of_the_array_api_follow_X_without_dispatch(device):
    rows = strict.asarray(ROWS, device=strict.Device(device))
    model = kmeans().fit(rows)
    for found in (model.cluster_centers_, model.labels_, model.predict(rows)):
        assert isinstance(found, type(rows))
        assert found.device == rows.device
    assert isinstance(model.predict(ROWS), np.ndarray)
    same(model.predict(X), kmeans().fit(ROWS).labels_)
    assert pickle.loads(pickle.dumps(model.coreset_)).points.device == rows.device

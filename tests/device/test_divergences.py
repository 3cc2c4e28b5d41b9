"""Divergences of rows on a device are those of the NumPy path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import lwcs
from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray
from lwcs.divergences import (
    KL,
    Cosine,
    Exponential,
    ItakuraSaito,
    Logistic,
    Mahalanobis,
    SimplexKL,
    SquaredEuclidean,
)
from lwcs.geometry import Centers, Geometry
from lwcs.geometry.dense_rows import DenseRows
from lwcs.geometry.device_divergences import BregmanRows, TransformedRows
from lwcs.geometry.device_rows import DeviceRows

torch = pytest.importorskip("torch", reason="needs torch: make test-gpu")

pytestmark = pytest.mark.filterwarnings("ignore:.*non-writable.*:UserWarning")

WHERE = "cuda" if torch.cuda.is_available() else "cpu"
_D = 4
TRANSFORMED = [Cosine(), Mahalanobis(np.eye(_D) + 0.3)]
OTHERS = [
    KL(),
    KL(smoothing=0.0),
    SimplexKL(),
    ItakuraSaito(),
    ItakuraSaito(floor=0.3),
    Exponential(),
    Logistic(),
    Logistic(smoothing=0.0),
]
ALL = pytest.mark.parametrize("divergence", [*TRANSFORMED, *OTHERS], ids=repr)
BREGMAN = pytest.mark.parametrize("divergence", OTHERS, ids=repr)
DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def back(values):
    return torch.as_tensor(values).cpu().numpy()


class Case(NamedTuple):
    """The same rows on the host and on a device, and centers among them."""

    X: np.ndarray
    host: DenseRows
    device: DeviceRows
    centers: Centers


def there(array):
    """An array on a GPU or, without one, a tensor in host memory."""
    return DeviceArray(torch.from_numpy(np.array(array)).to(WHERE))


def table(divergence, n=600, seed=0, *, close=False):
    """Rows that a divergence allows; `close` rows differ by a millionth of their size."""
    rng = np.random.default_rng(seed)
    if isinstance(divergence, Logistic):
        X = rng.beta(0.5, 0.5, (n, _D))
    else:
        X = rng.gamma(1.0, size=(n, _D)) + rng.integers(0, 3, (n, 1)) + 0.01
    return 0.5 + 1e-6 * X if close else X


def case(divergence, dtype=np.float64, *, close=False, k=9, **options):
    X = table(divergence, close=close, **options).astype(dtype)
    mean = Geometry(divergence).measured(X).moments(None).mean
    geometry = Geometry(divergence, mean=mean)
    host, device = geometry.measured(X), geometry.measured(there(X))
    some = np.random.default_rng(1).choice(len(X), (k, 3))
    means = np.array([host.full(rows).mean(axis=0) for rows in some])
    return Case(X, host, device, Centers(divergence.constrain(means), geometry))


def weights_of(rows):
    return np.random.default_rng(2).gamma(1.0, size=len(rows))


@ALL
@DTYPE
def test_rows_are_transformed_and_smoothed_there(divergence, dtype):
    own = case(divergence, dtype)
    assert type(own.device) is (TransformedRows if divergence.squared else BregmanRows)
    assert own.device.tensor.dtype == torch.float64
    np.testing.assert_allclose(own.device.full(slice(None)), own.host.full(slice(None)), 1e-13)
    np.testing.assert_allclose(own.device.extent(), own.host.extent(), 1e-13)


@ALL
@DTYPE
@pytest.mark.parametrize("close", [False, True], ids=["apart", "close"])
def test_labels_and_distances(divergence, dtype, close):
    own = case(divergence, dtype, close=close)
    labels, distances = own.host.nearest(own.centers)
    found, apart = own.device.nearest(own.centers)
    assert found.dtype == np.int32
    assert np.array_equal(found, labels)
    assert np.array_equal(own.device.labels(own.centers), labels)
    # Transformed values round by 1e-16: 1e-10 of how far close rows are apart.
    np.testing.assert_allclose(apart, distances, 1e-8 if close else 1e-11, 1e-25)
    cost = own.host.cost(own.centers, None)
    assert own.device.cost(own.centers, None) == pytest.approx(cost, rel=1e-10 if close else 1e-12)


@ALL
@DTYPE
def test_all_distances(divergence, dtype):
    own = case(divergence, dtype)
    want, found = own.host.all_distances(own.centers), own.device.all_distances(own.centers)
    np.testing.assert_allclose(found, want, 1e-9)
    block = own.device.distance_block(own.centers)
    assert isinstance(block, DeviceArray)
    assert block.dtype == dtype
    np.testing.assert_allclose(np.asarray(block), want, 1e-6)


@BREGMAN
def test_all_distances_of_close_rows(divergence):
    own = case(divergence, close=True)
    want, found = own.host.all_distances(own.centers), own.device.all_distances(own.centers)
    np.testing.assert_allclose(found, want, 1e-6, 1e-24)


@ALL
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_a_pass(divergence, weighted):
    own = case(divergence)
    weights = weights_of(own.X) if weighted else None
    moved = None if weights is None else there(weights)
    for ask in ("cluster_step", "weigh"):
        want = getattr(own.host, ask)(own.centers, weights)
        for each, one in zip(getattr(own.device, ask)(own.centers, moved), want, strict=True):
            np.testing.assert_allclose(each, one, 1e-11, 1e-11)
    found, want = own.device.moments(weights), own.host.moments(weights)
    assert found.weight == pytest.approx(want.weight, rel=1e-13)
    np.testing.assert_allclose(found.mean, want.mean, 1e-12)
    np.testing.assert_allclose(found.scatter, want.scatter, 1e-11)


@ALL
@pytest.mark.parametrize("on_device", [False, True])
def test_what_is_written_where_it_is_told(divergence, on_device):
    own, n = case(divergence), 600
    labels, distances = np.zeros(n + 5, dtype=np.int32), np.zeros(n + 5)
    dropped = np.arange(n) == 3
    want = own.host.nearest(own.centers)
    targets = (there(labels), there(distances)) if on_device else (labels, distances)
    cost = own.device.assign_into(own.centers, None, *targets, slice(5, None), dropped)
    written = tuple(np.asarray(each)[5:] for each in targets)
    assert cost == pytest.approx(want[1].sum(), rel=1e-12)
    assert written[0][3] == -1
    assert np.array_equal(written[0][~dropped], want[0][~dropped])
    np.testing.assert_allclose(written[1], want[1], 1e-11)


@ALL
@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_more_center(divergence, on_device, weighted):
    own = case(divergence)
    weights = weights_of(own.X) if weighted else None
    closest, labels = own.host.distances_to(own.centers[:1]), np.zeros(len(own.X), dtype=np.int32)
    mine = (closest.copy(), labels.copy())
    mine = tuple(map(there, mine)) if on_device else mine
    want, _ = own.host.add_center(weights, own.centers[1:2], 4, None, closest, labels)
    moved = there(weights) if on_device and weighted else weights
    found, spared = own.device.add_center(moved, own.centers[1:2], 4, None, *mine)
    assert found == pytest.approx(want, rel=1e-12)
    assert spared == 0
    assert 0 < (labels == 4).sum() < len(labels)
    assert np.array_equal(np.asarray(mine[1]), labels)
    np.testing.assert_allclose(np.asarray(mine[0]), closest, 1e-10)


@pytest.mark.parametrize("divergence", [KL(smoothing=0.0), SimplexKL(smoothing=0.0)], ids=repr)
def test_centers_at_an_end_of_the_domain(divergence):
    """A zero of a center is infinitely far from rows that are not zero there."""
    rng = np.random.default_rng(3)
    X = rng.gamma(1.0, size=(500, _D)) + 0.1
    X[::2, 0], X[::5, 1] = 0.0, 0.0
    geometry = Geometry(divergence)
    host, device = geometry.measured(X), geometry.measured(there(X))
    centers = host.as_centers(np.array([0, 2, 4, 5, 1, 7]))
    assert centers.edges is not None
    labels, distances = host.nearest(centers)
    assert not np.isfinite(host.distances(centers, np.zeros(500, dtype=np.int64))).all()
    found, apart = device.nearest(centers)
    assert np.array_equal(found, labels)
    assert np.array_equal(device.labels(centers), labels)
    np.testing.assert_allclose(apart, distances, 1e-11)
    np.testing.assert_allclose(device.all_distances(centers), host.all_distances(centers), 1e-9)
    for rows in (host, device):
        with pytest.raises(BadValueError) as refused:
            rows.nearest(centers[:3])
        assert refused.value.row == 1
        assert "infinitely far from every center" in refused.value.wants
        with pytest.raises(BadValueError):
            rows.labels(centers[:2])


@pytest.mark.parametrize("divergence", [KL(), Logistic()], ids=repr)
def test_a_column_at_an_end_of_the_domain(divergence):
    """Where all rows were zero, others do not count."""
    X = table(divergence)
    X[:, 2] = 0.0
    mean = Geometry(divergence).measured(X).moments(None).mean
    geometry, other = Geometry(divergence, mean=mean), X.copy()
    other[:, 2] = 0.5
    host, device = geometry.measured(other), geometry.measured(there(other))
    assert not device.full(slice(None))[:, 2].any()
    np.testing.assert_allclose(device.full(slice(None)), host.full(slice(None)), 1e-14)
    assert device.extent() == pytest.approx(host.extent(), rel=1e-14)


@BREGMAN
def test_of_equal_centers_the_first(divergence):
    own = case(divergence)
    twice = Centers(np.repeat(own.centers.points, 3, axis=0), own.centers.geometry)
    assert np.array_equal(own.device.labels(twice), 3 * own.host.labels(own.centers))


@BREGMAN
def test_centers_that_products_cannot_tell_apart(divergence):
    """Centers differ by 1e-10 of their size, rows by 1e-6: a score has no digits for that."""
    rng, X = np.random.default_rng(0), table(divergence)
    X[:300] = 0.4 * (1.0 + 1e-6 * rng.standard_normal((300, _D)))
    device = Geometry(divergence).measured(there(X))
    points = device.full(slice(None))[0] * (1.0 + 1e-10 * rng.standard_normal((7, _D)))
    found, apart = device.nearest(Centers(points, device.geometry))
    rows = device.full(slice(300))
    exact = np.array([divergence.between(rows, c).sum(axis=1) for c in points])
    assert np.array_equal(found[:300], exact.argmin(axis=0))
    np.testing.assert_allclose(apart[:300], exact.min(axis=0), 1e-11)


def test_lengths_and_sums_that_overflow():
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(50, _D)) * 10.0 ** rng.integers(-300, 300, (50, 1))
    for divergence in (Cosine(), SimplexKL()):
        geometry = Geometry(divergence)
        host, device = geometry.measured(X), geometry.measured(there(X))
        np.testing.assert_allclose(device.full(slice(None)), host.full(slice(None)), 1e-13)


BAD = [
    (KL(), -1.0),
    (KL(), np.nan),
    (SimplexKL(), -1.0),
    (ItakuraSaito(), 0.0),
    (ItakuraSaito(), 1e-305),
    (ItakuraSaito(floor=0.1), np.inf),
    (ItakuraSaito(floor=0.1), np.nan),
    (Logistic(), 1.5),
]


@pytest.mark.parametrize(("divergence", "value"), BAD, ids=str)
def test_rows_outside_of_the_domain(divergence, value):
    X = table(divergence)
    X[321, 2], X[400, 1] = value, value
    messages = []
    for rows in (X, there(X)):
        with pytest.raises(BadValueError) as refused:
            Geometry(divergence).measured(rows, 1_000)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]
    assert "1321" in messages[0]


@pytest.mark.parametrize("divergence", [Cosine(), SimplexKL()], ids=repr)
def test_rows_of_zeros(divergence):
    X = table(divergence)
    X[[44, 55]] = 0.0
    for rows in (X, there(X)):
        with pytest.raises(BadValueError, match=r"1044.*all its values|1044.*sum to zero"):
            Geometry(divergence).measured(rows, 1_000)
        with pytest.raises(BadValueError):
            divergence.check(rows, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("divergence", [*TRANSFORMED, Exponential()], ids=repr)
@pytest.mark.parametrize("ask", ["nearest", "label_block", "all_distances"])
def test_the_value_of_the_data_is_named(divergence, bad, ask):
    X = table(divergence)
    X[77, 3] = bad
    geometry = Geometry(divergence)
    centers = geometry.centers(table(divergence)[:5])
    rows = geometry.measured(there(X), 500)
    with pytest.raises(BadValueError) as refused:
        getattr(rows, ask)(centers)
    assert (refused.value.row, refused.value.column) == (577, 3)
    with pytest.raises(BadValueError) as refused:
        rows.refuse(np.empty(0, dtype=np.int64))
    assert (refused.value.row, refused.value.column) == (577, 3)


def test_a_divergence_says_for_itself_whether_it_takes_tensors():
    class Own(KL):
        name = "own_kl"

    class Declared(KL):
        name = "declared_kl"
        runs_on_device = True

    X = there(table(KL()))
    try:
        assert isinstance(Geometry(Own()).measured(X), DenseRows)
        assert isinstance(Geometry(Declared()).measured(X), BregmanRows)
    finally:
        for name in ("own_kl", "declared_kl"):
            del KL._known[name]
    assert not Own.runs_on_device
    assert SquaredEuclidean.runs_on_device


@ALL
def test_host_rows_go_to_the_device_of_the_geometry(divergence):
    X = table(divergence)
    host, rows = (Geometry(divergence, device=where).measured(X) for where in (None, WHERE))
    assert isinstance(rows, TransformedRows)
    np.testing.assert_allclose(rows.full(slice(None)), host.full(slice(None)), 1e-13)


@ALL
def test_no_rows_at_all(divergence):
    own = case(divergence)
    none = own.centers.geometry.measured(there(own.X[:0]))
    assert len(none.labels(own.centers)) == 0
    assert none.cost(own.centers, None) == 0.0
    assert none.all_distances(own.centers).shape == (0, 9)
    assert none.moments(None).weight == 0.0


METHODS = [
    "lightweight",
    "uniform",
    "refined",
    "sensitivity",
    lwcs.Lightweight(draws="stratified"),
    lwcs.Lightweight(distance="sqeuclidean"),
]
WHOLE = [*TRANSFORMED, KL(), SimplexKL(), ItakuraSaito(floor=0.3), Exponential(), Logistic()]


@pytest.mark.parametrize("divergence", WHOLE, ids=repr)
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_same_rows_are_drawn(monkeypatch, divergence, method, weighted):
    X = table(divergence, n=70_001)
    weights = weights_of(X) if weighted else None
    how = {"method": method, "divergence": divergence, "n_clusters": 5, "random_state": 3}
    host = lwcs.build(X, 1_000, sample_weight=weights, **how)
    monkeypatch.setenv("LWCS_KERNEL", "device")
    given = None if weights is None else there(weights).tensor
    found = lwcs.build(there(X).tensor, 1_000, sample_weight=given, **how)
    assert isinstance(found.points, torch.Tensor)
    assert np.array_equal(found.indices, host.indices)
    assert np.array_equal(found.counts, host.counts)
    assert np.array_equal(back(found.points), X[host.indices])
    np.testing.assert_allclose(found.host_weights, host.weights, 1e-11)
    if host.total_cost is not None:
        assert found.total_cost == pytest.approx(host.total_cost, rel=1e-12)
    if host.mean is not None:
        np.testing.assert_allclose(found.mean, host.mean, 1e-12)
    centers = X[::10_000]
    assert found.cost(centers) == pytest.approx(host.cost(centers), rel=1e-11)


@pytest.mark.parametrize("divergence", WHOLE, ids=repr)
def test_a_model_of_tensors(monkeypatch, divergence):
    X = table(divergence, n=20_000)

    def fitted(data):
        how = {"divergence": divergence, "coreset_size": 1_000, "random_state": 0}
        return lwcs.CoresetKMeans(5, polish=1, **how).fit(data)

    host = fitted(X)
    want = host.predict(X), host.transform(X), host.score(X)
    monkeypatch.setenv("LWCS_KERNEL", "device")
    T = there(X).tensor
    found = fitted(T)
    np.testing.assert_allclose(back(found.cluster_centers_), host.cluster_centers_, 1e-9)
    assert found.inertia_ == pytest.approx(host.inertia_, rel=1e-11)
    assert np.array_equal(back(found.predict(T)), want[0])
    np.testing.assert_allclose(back(found.transform(T)), want[1], 1e-6, 1e-9)
    assert found.score(T) == pytest.approx(want[2], rel=1e-11)

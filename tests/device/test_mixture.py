"""Mixtures of rows on a device are those of NumPy; tensors in host memory stand in for a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import lwcs
from lwcs import CoresetMixture
from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray
from lwcs.divergences import SquaredEuclidean
from lwcs.solvers import device_em as families
from lwcs.solvers import device_em as mixture_on_device
from lwcs.solvers.em import (
    fit_mixture,
    log_joint,
    log_likelihoods,
    loops,
    maximize,
    mixing_weights,
    prepared,
    responsibilities,
)
from lwcs.solvers.families import Family, Gaussian, Poisson, new_family
from lwcs.sources.memory.tensors import DeviceSource

torch = pytest.importorskip("torch", reason="torch is not installed")

GAUSSIANS = [("gaussian", kind) for kind in ("full", "tied", "diag", "spherical")]
OTHERS = [
    (name, "full") for name in ("poisson", "multinomial", "bernoulli", "exponential", "gamma")
]
FAMILY = pytest.mark.parametrize(("name", "kind"), GAUSSIANS + OTHERS)
K = 3


def data(name, n=900, d=4, seed=0):
    rng = np.random.default_rng(seed)
    level = np.repeat([1.0, 4.0, 9.0], n // K)[:, None] * (1.0 + np.arange(d))
    rows = {
        "gaussian": lambda: rng.normal(level, 1.0),
        "poisson": lambda: rng.poisson(level).astype(float),
        "multinomial": lambda: rng.poisson(level[:, rng.permutation(d)] + 1.0).astype(float),
        "bernoulli": lambda: rng.binomial(1, level / 40.0).astype(float),
        "exponential": lambda: rng.exponential(level),
        "gamma": lambda: rng.gamma(3.0, level),
    }[name]()
    return rng.permutation(rows)


def on_cpu(array):
    return DeviceArray(torch.tensor(array))


def both(X):
    return X, on_cpu(X)


def fresh(name, kind="full"):
    return new_family(name, {"covariance_type": kind, "reg_covar": 1e-6})


def started(name, kind, X, weights, shared):
    family = fresh(name, kind)
    return family, maximize(X, weights, family, shared)


@pytest.fixture(params=["one piece", "many pieces", "nothing kept"])
def cut(request, monkeypatch):
    """How rows are cut, and whether responsibilities are computed again for the second sweep."""
    if request.param != "one piece":
        monkeypatch.setattr(families, "_PIECE_VALUES", 1_000)
    if request.param == "nothing kept":
        monkeypatch.setattr(mixture_on_device, "_KEPT_VALUES", 0)


def same(one, other, rtol=1e-8):
    for name, value in one.attributes().items():
        np.testing.assert_allclose(getattr(other, name), value, rtol=rtol, atol=1e-10, err_msg=name)


@pytest.mark.usefixtures("cut")
@FAMILY
def test_em_is_that_of_numpy(name, kind):
    X = data(name)
    rng = np.random.default_rng(1)
    weights, shared = rng.random(len(X)), rng.dirichlet(np.ones(K), len(X))
    found = []
    for rows in both(X):
        family, mixing = started(name, kind, rows, weights, shared)
        found.append(fit_mixture(rows, weights, family, mixing, max_iter=15, tol=0.0))
    host, device = found
    assert device.n_iter == host.n_iter == 15
    np.testing.assert_allclose(device.bounds, host.bounds, rtol=1e-10)
    np.testing.assert_allclose(device.weights, host.weights, rtol=1e-8)
    assert isinstance(device.family.means, np.ndarray)
    same(host.family, device.family)


@pytest.mark.usefixtures("cut")
@FAMILY
def test_densities_and_responsibilities_are_those_of_numpy(name, kind):
    X = data(name)
    weights, labels = np.ones(len(X)), np.arange(len(X)) % K
    family, _ = started(name, kind, X, weights, loops(X).labelled(labels, K, X))
    mixing = np.array([0.2, 0.8, 0.0])
    rows = on_cpu(X)
    for ask in (log_joint, log_likelihoods, responsibilities):
        given = ask(family, mixing, rows)
        assert isinstance(given, np.ndarray)
        np.testing.assert_allclose(given, ask(family, mixing, X), rtol=1e-10, atol=1e-12)
    for what in ("labels", "log-likelihood", "responsibilities"):
        values, first_lost = mixture_on_device.evaluate_and_check(family, mixing, rows, what)
        assert first_lost is None
        assert isinstance(values, DeviceArray)
        if what == "labels":
            expected_labels = log_joint(family, mixing, X).argmax(axis=1)
            np.testing.assert_array_equal(values, expected_labels)


@pytest.mark.usefixtures("cut")
@FAMILY
def test_every_kind_of_responsibilities_gives_the_same_m_step(name, kind):
    X = data(name)
    weights, labels = np.random.default_rng(2).random(len(X)), np.arange(len(X)) % K
    before, mixing = started(name, kind, X, weights, loops(X).labelled(labels, K, X))
    kinds = (
        lambda rows: loops(rows).labelled(labels, K, rows),
        lambda rows: loops(rows).even(K, rows),
        lambda rows: loops(rows).expected(before, mixing, rows),
    )
    for kind_of in kinds:
        host, own = started(name, kind, X, weights, kind_of(X))
        device, found = started(name, kind, on_cpu(X), weights, kind_of(on_cpu(X)))
        same(host, device)
        np.testing.assert_allclose(found, own, rtol=1e-12)
        there = mixing_weights(on_cpu(X), weights, device, kind_of(on_cpu(X)))
        np.testing.assert_allclose(there, mixing_weights(X, weights, host, kind_of(X)), rtol=1e-12)


@pytest.mark.usefixtures("cut")
@FAMILY
def test_a_component_without_rows_stays_finite_as_on_the_host(name, kind):
    X = data(name)
    weights, labels = np.ones(len(X)), np.arange(len(X)) % (K - 1)
    host, own = started(name, kind, X, weights, loops(X).labelled(labels, K, X))
    device, found = started(
        name, kind, on_cpu(X), weights, loops(on_cpu(X)).labelled(labels, K, on_cpu(X))
    )
    same(host, device)
    np.testing.assert_allclose(found, own, rtol=1e-10)
    assert found[-1] > 0.0
    mixing = mixing_weights(
        on_cpu(X), weights, device, loops(on_cpu(X)).labelled(labels, K, on_cpu(X))
    )
    np.testing.assert_allclose(mixing, own, rtol=1e-10)


@pytest.mark.parametrize("kind", [kind for _, kind in GAUSSIANS])
def test_an_offset_costs_no_more_than_on_the_host(kind):
    X = data("gaussian") + 1e6
    weights, labels = np.ones(len(X)), np.arange(len(X)) % K
    host, _ = started("gaussian", kind, X, weights, loops(X).labelled(labels, K, X))
    device, _ = started(
        "gaussian", kind, on_cpu(X), weights, loops(on_cpu(X)).labelled(labels, K, on_cpu(X))
    )
    np.testing.assert_allclose(device.covariances, host.covariances, rtol=1e-9, atol=1e-8)


def fitted(X, monkeypatch, **parameters):
    """The same fit on the device and on the host."""
    options = {"random_state": 0, "max_iter": 30, **parameters}
    monkeypatch.setenv("LWCS_KERNEL", "device")
    device = CoresetMixture(K, **options).fit(torch.tensor(X))
    assert isinstance(device.coreset_.host_points, DeviceArray)
    monkeypatch.delenv("LWCS_KERNEL")
    return CoresetMixture(K, **options).fit(X), device


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("init", ["k-means", "random"])
@pytest.mark.parametrize("size", ["auto", 400])
@FAMILY
def test_a_fit_is_that_of_numpy(name, kind, size, init, monkeypatch):
    X = data(name, 12_000 if size == "auto" else 900)
    options = {"family": name, "covariance_type": kind, "coreset_size": size, "init": init}
    # Of starts that end in the same optimum, rounding may choose another.
    options["n_init"] = 1
    host, device = fitted(X, monkeypatch, **options)
    np.testing.assert_allclose(device.lower_bounds_, host.lower_bounds_, rtol=1e-10)
    same(host.mixture_.family, device.mixture_.family, rtol=1e-7)
    error = pytest.approx(host.sampling_error_, rel=1e-6, abs=1e-9, nan_ok=True)
    assert device.sampling_error_ == error


@FAMILY
def test_answers_stay_on_the_device(name, kind, monkeypatch):
    X = data(name)
    host, device = fitted(X, monkeypatch, family=name, covariance_type=kind, tol=0.1)
    monkeypatch.setenv("LWCS_KERNEL", "device")
    there, weights = torch.tensor(X), np.random.default_rng(3).random(len(X))
    for method in ("predict", "predict_proba", "score_samples"):
        found, known = getattr(device, method)(there), getattr(host, method)(X)
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.numpy(), known, rtol=1e-8, atol=1e-10)
        assert str(found.dtype).removeprefix("torch.") == known.dtype.name
    known = pytest.approx(host.score(X, sample_weight=weights), rel=1e-10)
    assert device.score(there, sample_weight=torch.tensor(weights)) == known
    assert device.score(there, sample_weight=weights) == known
    assert device.bic(there) == pytest.approx(host.bic(X), rel=1e-10)


def test_float32_rows_are_computed_with_in_float64(monkeypatch):
    X = data("gaussian").astype(np.float32)
    host, device = fitted(X, monkeypatch, max_iter=100)
    np.testing.assert_allclose(device.lower_bounds_, host.lower_bounds_, rtol=1e-10)
    monkeypatch.setenv("LWCS_KERNEL", "device")
    found = device.score_samples(torch.tensor(X))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), host.score_samples(X), rtol=1e-10)


@pytest.mark.parametrize("given", [("means",), ("means", "precisions")], ids=repr)
def test_given_starts_are_those_of_numpy(given, monkeypatch):
    X = data("gaussian")
    start = {"means": X[:K], "precisions": np.broadcast_to(np.eye(4), (K, 4, 4))}
    options = {f"{name}_init": start[name] for name in given}
    host, device = fitted(X, monkeypatch, max_iter=100, **options)
    np.testing.assert_allclose(device.lower_bounds_, host.lower_bounds_, rtol=1e-10)


def test_warm_start_goes_on_from_the_last_mixture(monkeypatch):
    X = torch.tensor(data("gaussian"))
    monkeypatch.setenv("LWCS_KERNEL", "device")
    model = CoresetMixture(K, warm_start=True, tol=1e-6, random_state=0).fit(X)
    first = model.lower_bound_
    assert model.fit(X).n_iter_ <= 2
    assert model.lower_bound_ >= first - 1e-9


def message(call, *args):
    with pytest.raises(ValueError, match=r"row|covariance") as caught:
        call(*args)
    return str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("method", ["predict", "score_samples", "score", "fit"])
def test_bad_rows_are_named_as_on_the_host(bad, method, monkeypatch):
    X = data("gaussian")
    host, device = fitted(X, monkeypatch, max_iter=100)
    X[[700, 800], 2] = bad, bad
    X[10, 0] = 50.0
    known = message(getattr(host, method), X)
    monkeypatch.setenv("LWCS_KERNEL", "device")
    own = known.replace(lwcs.Source.dropping, DeviceSource.dropping)
    assert message(getattr(device, method), torch.tensor(X)) == own
    assert "row 700" in known


@pytest.mark.parametrize(("name", "bad"), [("poisson", -1.0), ("bernoulli", 1.5), ("gamma", 0.0)])
def test_rows_outside_of_the_domain_are_named_as_on_the_host(name, bad):
    X = data(name)
    X[[500, 600], 1] = bad
    families = [(prepared, rows, fresh(name), 7) for rows in both(X)]
    errors = []
    for call, *given in families:
        with pytest.raises(BadValueError) as caught:
            call(*given)
        errors.append(caught.value.args)
    assert errors[0] == errors[1]
    assert errors[0][1:3] == (507, 1)


def test_a_row_too_far_for_em_is_named_as_on_the_host():
    X = data("gaussian")
    weights, shared = np.ones(len(X)), loops(X).labelled(np.arange(len(X)) % K, K, X)
    family, mixing = started("gaussian", "full", X, weights, shared)
    X[[400, 500]] = 1e200
    errors = []
    for rows in both(X):
        with pytest.raises(BadValueError, match="likelihood is 0") as caught:
            fit_mixture(rows, weights, family, mixing, max_iter=2, tol=0.0)
        errors.append(caught.value.args)
    assert errors[0] == errors[1]
    assert errors[0][1] == 400


def test_a_singular_covariance_is_refused_in_the_same_words():
    X = np.ones((30, 2))
    words = []
    for rows in both(X):
        family = Gaussian("full", 0.0)
        shared = loops(rows).labelled(np.arange(30) % 2, 2, rows)
        words.append(message(maximize, rows, np.ones(30), family, shared))
    assert words[0] == words[1]


class _HostOnly(Family):
    """Unit Gaussians, which remember what they were given."""

    name, divergence = "host_only", SquaredEuclidean()
    seen: tuple[type, ...] = ()

    def fit(self, rows, weights):
        type(self).seen += (type(rows),)
        self.means = weights.T @ rows / weights.sum(axis=0)[:, None]

    def log_density(self, rows):
        type(self).seen += (type(rows),)
        return -0.5 * ((rows[:, None] - self.means) ** 2).sum(axis=2)

    def sample(self, component, n, rng):
        return self.means[component] + rng.normal(size=(n, self.means.shape[1]))

    def n_parameters(self):
        return self.means.size


def test_a_family_of_ones_own_gets_numpy_rows(monkeypatch):
    X = data("gaussian")
    host, device = fitted(X, monkeypatch, family="host_only")
    monkeypatch.setenv("LWCS_KERNEL", "device")
    found = device.predict_proba(torch.tensor(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), host.predict_proba(X), rtol=1e-8, atol=1e-12)
    assert device.score(torch.tensor(X)) == pytest.approx(host.score(X), rel=1e-10)
    assert set(_HostOnly.seen) == {np.ndarray}


def test_a_subclass_of_a_built_in_family_is_computed_on_the_host():
    class Shifted(Poisson):
        def log_density(self, rows):
            return super().log_density(rows) - 1.0

    assert Poisson.on_device
    assert not Shifted.on_device
    assert isinstance(prepared(on_cpu(data("poisson")), Shifted()), np.ndarray)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@FAMILY
def test_a_gpu_gives_the_mixture_of_the_host(name, kind):
    X = data(name, 30_000)
    weights, labels = np.ones(len(X)), np.arange(len(X)) % K
    found = []
    for rows in (X, DeviceArray(torch.tensor(X, device="cuda"))):
        family, mixing = started(name, kind, rows, weights, loops(rows).labelled(labels, K, rows))
        found.append(fit_mixture(rows, weights, family, mixing, max_iter=10, tol=0.0))
    np.testing.assert_allclose(found[1].bounds, found[0].bounds, rtol=1e-10)
    same(found[0].family, found[1].family)

"""Tensors that are not plain float tables behave, or are refused with words."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import lwcs
from lwcs import CoresetKMeans

torch = pytest.importorskip("torch", reason="needs torch: make test-gpu")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

ROWS = np.random.default_rng(0).integers(0, 100, (12_000, 4)).astype(np.float64)


@pytest.fixture(params=["host", "device"], autouse=True)
def mode(request, monkeypatch):
    if request.param == "device":
        monkeypatch.setenv("LWCS_KERNEL", "device")
    return request.param


def fit(X, **options):
    return CoresetKMeans(3, coreset_size=500, random_state=0).fit(X, **options)


@pytest.mark.parametrize("place", [(0, 0), (11_999, 3), (7_000, 2)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bad_value_is_named(place, value):
    X = torch.from_numpy(ROWS.copy())
    X[place] = value
    words = rf"row {place[0]}, column {place[1]}( of this batch)? is {value}"
    for run in (fit, lambda rows: lwcs.build(rows, 100)):
        with pytest.raises(ValueError, match=words):
            run(X)
    model = fit(torch.from_numpy(ROWS))
    for answer in (model.predict, model.transform, model.score, model.partial_fit):
        with pytest.raises(ValueError, match=words):
            answer(X)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_bad_weight_is_named(value):
    weights = torch.ones(len(ROWS))
    weights[77] = value
    with pytest.raises(ValueError, match=r"sample_weight\[77\]"):
        fit(torch.from_numpy(ROWS), sample_weight=weights)


def test_too_few_weights_are_refused():
    with pytest.raises(ValueError, match=r"shape \(5,\)"):
        fit(torch.from_numpy(ROWS), sample_weight=torch.ones(5))


def test_a_tensor_that_requires_gradients_is_refused():
    X = torch.from_numpy(ROWS).requires_grad_()
    with pytest.raises(ValueError, match=r"pass X\.detach\(\)"):
        fit(X)
    fit(X.detach())
    weights = torch.ones(len(ROWS), requires_grad=True)
    with pytest.raises(ValueError, match=r"pass sample_weight\.detach\(\)"):
        fit(X.detach(), sample_weight=weights)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("to", ["to_sparse", "to_sparse_csr"])
def test_a_sparse_tensor_is_refused(to):
    with pytest.raises(TypeError, match="sparse tensor of torch; pass a scipy sparse array"):
        fit(getattr(torch.from_numpy(ROWS), to)())


def test_complex_numbers_are_refused():
    with pytest.raises(TypeError, match=r"complex128; pass real numbers"):
        fit(torch.from_numpy(ROWS).to(torch.complex128))


def test_a_tensor_without_memory_is_refused():
    with pytest.raises(ValueError, match="on the device 'meta'"):
        fit(torch.empty(100, 4, device="meta"))


@pytest.mark.parametrize("shape", [(12_000,), (10, 10, 10), ()])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="shape"):
        fit(torch.zeros(shape))


@pytest.mark.parametrize("shape", [(0, 4), (100, 0)])
def test_no_rows_or_columns_are_refused(shape):
    with pytest.raises(ValueError, match="at least one"):
        fit(torch.zeros(shape))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "int8"])
def test_real_numbers_are_as_in_numpy(dtype):
    X = torch.from_numpy(ROWS).to(getattr(torch, dtype))
    model, expected = fit(X), fit(X.numpy())
    assert str(model.cluster_centers_.dtype) == f"torch.{expected.cluster_centers_.dtype}"
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, rtol=1e-5)
    np.testing.assert_array_equal(model.predict(X), expected.labels_)


def test_flags_are_zeros_and_ones():
    X = torch.from_numpy(ROWS) > 50
    model, expected = fit(X), fit(X.numpy())
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_)
    assert model.labels_.tolist() == expected.labels_.tolist()


NARROW = pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "bool"])


def narrow(dtype, rows=ROWS):
    return torch.from_numpy(rows > 50 if dtype == "bool" else rows).to(getattr(torch, dtype))


@NARROW
def test_narrow_rows_give_the_results_of_the_same_rows_in_float32(dtype):
    X = narrow(dtype)
    model, expected = fit(X), fit(X.to(torch.float32))
    assert model.cluster_centers_.dtype == torch.float32
    assert torch.equal(model.cluster_centers_, expected.cluster_centers_)
    assert torch.equal(model.predict(X), expected.labels_)
    assert torch.equal(model.transform(X), expected.transform(X.to(torch.float32)))
    for options in ({}, {"method": "sensitivity", "n_clusters": 3}, {"passes": 2}):
        one, other = (lwcs.build(rows, 300, random_state=0, **options) for rows in (X, X.float()))
        assert torch.equal(one.points.float(), other.points)
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)


def test_bfloat16_needs_no_package_beside_torch(monkeypatch):
    X = narrow("bfloat16")
    expected = fit(X.float())
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    model = fit(X)
    torch.testing.assert_close(model.cluster_centers_, expected.cluster_centers_)
    assert (model.labels_ == expected.labels_).double().mean() > 0.999


class Largest(TorchDispatchMode):
    """Notes the most bytes of a tensor that an operation of torch has made."""

    found = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        known = {each.untyped_storage().data_ptr() for each in args if torch.is_tensor(each)}
        for each in result if isinstance(result, tuple | list) else [result]:
            if torch.is_tensor(each) and each.untyped_storage().data_ptr() not in known:
                self.found = max(self.found, each.numel() * each.element_size())
        return result


@NARROW
def test_narrow_rows_are_not_copied(dtype):
    X = narrow(dtype, np.tile(ROWS, (3, 64)))
    model = fit(X[:500])
    for ask in (lambda: lwcs.build(X, 300, random_state=0), lambda: model.predict(X)):
        with Largest() as largest:
            ask()
        # Pieces of 2**17 values in float64.
        assert largest.found <= 2**21 < X.numel() / 4


@NARROW
def test_quantized_tensors_are_those_times_their_scale(dtype):
    X, scale = narrow(dtype), np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32)
    model, expected = fit(lwcs.scan(X, scale=scale)), fit(X.float() * torch.from_numpy(scale))
    assert torch.equal(model.cluster_centers_, expected.cluster_centers_)
    assert torch.equal(model.labels_, expected.labels_)


@pytest.mark.parametrize(
    "part",
    [
        lambda X: X[::2],
        lambda X: X[:, ::2],
        lambda X: X.T.contiguous().T,
        lambda X: X[:1].expand(600, 4) + torch.arange(600)[:, None],
        lambda X: X.flip(0),
    ],
)
def test_memory_in_any_order(part):
    X = part(torch.from_numpy(ROWS))
    model, expected = fit(X), fit(X.contiguous().numpy())
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, rtol=1e-6)
    assert model.predict(X).tolist() == expected.labels_.tolist()


def test_tensors_are_not_changed():
    X, weights = torch.from_numpy(ROWS.copy()), torch.ones(len(ROWS))
    fit(X, sample_weight=weights).predict(X)
    assert torch.equal(X, torch.from_numpy(ROWS))
    assert torch.equal(weights, torch.ones(len(ROWS)))


def test_subclasses_of_tensors_are_tensors():
    class Own(torch.Tensor):
        pass

    X = torch.from_numpy(ROWS).as_subclass(Own)
    assert isinstance(fit(X).cluster_centers_, torch.Tensor)

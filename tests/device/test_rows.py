"""Rows on a device are measured as NumPy rows are; tensors in host memory stand in for a GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from lwcs.arrays.checks import BadValueError
from lwcs.arrays.device import DeviceArray
from lwcs.geometry import Centers, Geometry, Measured
from lwcs.geometry.measured import weigh_clusters

torch = pytest.importorskip("torch", reason="torch is not installed")

from lwcs.geometry.device_rows import DeviceRows  # noqa: E402

DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64])
OFFSET = pytest.mark.parametrize("offset", [0.0, 1e6])
SCALED = pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])


class Case(NamedTuple):
    host: Measured
    device: Measured
    weights: np.ndarray
    centers: Centers


def on_cpu(array):
    return DeviceArray(torch.tensor(array))


def case(dtype=np.float64, offset=0.0, scaled=False, n=500, d=5, k=7, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_t(4, size=(n, d)) + offset).astype(dtype)
    geometry = Geometry(scale=rng.random(d) + 0.5 if scaled else None)
    centers = geometry.centers(X[:k].astype(np.float64) + 1e-3 * rng.normal(size=(k, d)))
    return Case(geometry.measured(X), geometry.measured(on_cpu(X)), rng.random(n), centers)


def test_a_tensor_becomes_device_rows_without_a_copy():
    array = on_cpu(np.ones((3, 2)))
    rows = Geometry().measured(array)
    assert isinstance(rows, DeviceRows)
    assert rows.values is array


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_host_rows_go_to_the_device_of_the_geometry(dtype):
    X = np.arange(12, dtype=dtype).reshape(4, 3)
    X.flags.writeable = False
    rows = Geometry(device="cpu").measured(X)
    assert isinstance(rows, DeviceRows)
    assert rows.values.dtype == (np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_array_equal(rows.full(slice(None)), X)


def test_sparse_rows_stay_on_the_host():
    import scipy.sparse as sp

    rows = Geometry(device="cpu").measured(sp.csr_array(np.eye(3)))
    assert not isinstance(rows, DeviceRows)


@DTYPE
@OFFSET
@SCALED
def test_labels_distances_and_cost_are_those_of_numpy(dtype, offset, scaled):
    host, device, weights, centers = case(dtype, offset, scaled)
    labels, distances = host.nearest(centers)
    found = device.nearest(centers)
    assert found[0].dtype == np.int32
    np.testing.assert_array_equal(found[0], labels)
    np.testing.assert_array_equal(device.labels(centers), labels)
    block = device.label_block(centers)
    assert isinstance(block, DeviceArray)
    np.testing.assert_array_equal(block, labels)
    np.testing.assert_allclose(found[1], distances, rtol=1e-5 if dtype == np.float32 else 1e-12)
    for given in (None, weights, on_cpu(weights)):
        own = None if given is None else weights
        assert device.cost(centers, given) == pytest.approx(host.cost(centers, own), rel=1e-6)


@DTYPE
@OFFSET
@SCALED
def test_all_distances_are_those_of_numpy(dtype, offset, scaled):
    host, device, _, centers = case(dtype, offset, scaled)
    expected = host.all_distances(centers)
    np.testing.assert_allclose(device.all_distances(centers), expected, rtol=1e-9, atol=1e-12)
    block = device.distance_block(centers)
    assert isinstance(block, DeviceArray)
    assert block.dtype == host.distance_block(centers).dtype == dtype
    np.testing.assert_allclose(block, expected, rtol=1e-6, atol=1e-12)


@DTYPE
@OFFSET
@SCALED
def test_moments_and_scans_are_those_of_numpy(dtype, offset, scaled):
    host, device, weights, centers = case(dtype, offset, scaled)
    for own in (None, weights):
        for one, other in zip(device.moments(own), host.moments(own), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8)
        pivot = host.pivot(centers.points[0])
        out, expected = np.empty(len(host)), np.empty(len(host))
        sums, known = (
            device.kernels.scan(device.values, own, pivot, out),
            host.kernels.scan(host.values, own, pivot, expected),
        )
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(device.distances_to_pivot(pivot), expected, rtol=1e-5)
        np.testing.assert_allclose(sums.shift, known.shift, rtol=1e-6, atol=1e-6)
        assert sums.cost == pytest.approx(known.cost, rel=1e-6)
    assert device.extent() == host.extent()
    np.testing.assert_array_equal(device.sample(), host.sample())


@DTYPE
@pytest.mark.parametrize("on_device", [False, True])
def test_cells_of_several_blocks_are_those_of_numpy(dtype, on_device):
    host, device, weights, centers = case(dtype)
    pivot, cells = host.pivot(centers.points[0]), np.empty(-(-len(host) // 4))
    own = on_cpu(np.empty_like(cells)) if on_device else np.empty_like(cells)
    known = host.kernels.scan_cells(host.values, weights, pivot, 128, cells, 4)
    found = device.kernels.scan_cells(device.values, weights, pivot, 128, own, 4)
    np.testing.assert_allclose(own, cells, rtol=1e-5)
    np.testing.assert_allclose(found.costs, known.costs, rtol=1e-6)
    np.testing.assert_allclose(found.shifts, known.shifts, rtol=1e-6, atol=1e-6)


@DTYPE
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("first", [0, 3], ids=["cells", "other places"])
def test_hits_are_those_of_numpy(dtype, weighted, first):
    host, device, weights, centers = case(dtype, n=498)
    weights[::3] = 0.0
    own = weights if weighted else None
    pivot, mean = host.pivot(centers.points[0]), host.pivot(centers.points[1])
    rng = np.random.default_rng(1)
    starts = 4 * rng.integers(0, 124, size=200) + first
    stops = np.minimum(starts + 4, 498)
    distances = host.distances_to_pivot(pivot)
    masses = (2.0 * distances + 0.5) * (1.0 if own is None else own)
    totals = np.array([masses[a:b].sum() for a, b in zip(starts, stops, strict=True)])
    runs = (starts, stops, rng.random(200) * totals)
    known = host.kernels.hit_rows(host.values, own, pivot, mean, 2.0, 0.5, runs)
    found = device.kernels.hit_rows(device.values, own, pivot, mean, 2.0, 0.5, runs)
    np.testing.assert_array_equal(found.rows, known.rows)
    np.testing.assert_allclose(found.bounds, known.bounds, rtol=1e-9)
    np.testing.assert_allclose(found.distances, known.distances, rtol=1e-9)


@DTYPE
@OFFSET
def test_cluster_steps_are_those_of_numpy(dtype, offset):
    host, device, weights, centers = case(dtype, offset)
    labels = host.labels(centers)
    wanted = np.arange(7) % 2 == 0
    known = host.cluster_sums(weights, labels, wanted, centers)
    found = device.cluster_sums(weights, labels, wanted, centers)
    for one, other in zip(found, known, strict=True):
        assert not one[~wanted].any()
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    for given in (None, weights, on_cpu(weights)):
        own = None if given is None else weights
        known = host.cluster_step(centers, own)
        for one, other in zip(device.cluster_step(centers, given), known, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@DTYPE
def test_clusters_are_weighed_as_by_numpy(dtype):
    host, device, weights, centers = case(dtype)
    known = host.weigh(centers, weights)
    kept = map(on_cpu, host.nearest(centers))
    for found in (device.weigh(centers, weights), weigh_clusters(*kept, weights, len(centers))):
        for one, other in zip(found, known, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("on_device", [False, True])
def test_assigning_writes_where_it_is_told(on_device):
    host, device, weights, centers = case(n=20)
    make = on_cpu if on_device else np.array
    labels, distances = make(np.full(30, 9, dtype=np.int32)), make(np.zeros(30))
    dropped = np.arange(20) == 3
    cost = device.assign_into(centers, weights, labels, distances, slice(5, 25), dropped)
    expected, apart = host.nearest(centers)
    expected[3] = -1
    np.testing.assert_array_equal(np.asarray(labels)[5:25], expected)
    np.testing.assert_allclose(np.asarray(distances)[5:25], apart, rtol=1e-12)
    assert (np.delete(np.asarray(labels), slice(5, 25)) == 9).all()
    assert cost == pytest.approx(weights @ apart)


@pytest.mark.parametrize("on_device", [False, True])
def test_one_more_center_lowers_the_distances(on_device):
    host, device, weights, centers = case()
    make = on_cpu if on_device else np.array
    closest, labels = make(np.full(500, np.inf)), make(np.zeros(500, dtype=np.int32))
    known, marks = np.full(500, np.inf), np.zeros(500, dtype=np.int32)
    for j in range(3):
        center = centers[np.array([j])]
        cost, _ = device.add_center(weights, center, j, None, closest, labels)
        assert cost == pytest.approx(host.add_center(weights, center, j, None, known, marks)[0])
    np.testing.assert_allclose(closest, known, rtol=1e-12)
    np.testing.assert_array_equal(labels, marks)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("ask", ["nearest", "labels", "label_block", "all_distances"])
def test_a_bad_value_is_named(bad, ask):
    X = np.zeros((50, 3), dtype=np.float32)
    X[17, 2] = X[20, 0] = bad
    rows = Geometry().measured(on_cpu(X), 100)
    with pytest.raises(BadValueError) as caught:
        getattr(rows, ask)(rows.geometry.centers(np.eye(3)))
    assert (caught.value.row, caught.value.column) == (117, 2)


def test_a_bad_value_is_named_without_a_row():
    X = np.zeros((50, 3))
    X[17, 1] = np.nan
    with pytest.raises(BadValueError) as caught:
        Geometry().measured(on_cpu(X), 100).refuse(np.array([], dtype=np.int64))
    assert (caught.value.row, caught.value.column) == (117, 1)


def test_values_whose_squares_are_zero_are_noticed():
    X = np.full((10, 2), 1e-200)
    X[3, 1] = 2e-200
    rows = Geometry().measured(on_cpu(X))
    np.testing.assert_array_equal(rows.underflow(rows.moments(None)), [False, True])


def test_no_rows_at_all():
    rows = Geometry().measured(on_cpu(np.empty((0, 3))))
    assert rows.moments(None).weight == 0.0
    assert rows.extent() == (np.inf, -np.inf)

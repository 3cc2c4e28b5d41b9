"""What every implementation of the device's kernels must do: `Claims` is run for each of them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from lwcs.kernels import cross
from lwcs.kernels import numpy as portable

torch = pytest.importorskip("torch")

# Triton's interpreter takes a second for some cases.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
SHAPES = [(1, 1), (7, 2), (200, 3), (333, 16), (205, 64), (70, 130)]
SHAPES = [(7, 2), (40, 130)] if INTERPRETED else SHAPES
NUMBERS = [1, 70] if INTERPRETED else [1, 2, 37, 150, 1100]
CELL_ROWS = [1, 32] if INTERPRETED else [1, 4, 16, 32]
DIGITS = {"float32": 1e-6, "float64": 1e-12}
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])
SCALED = pytest.mark.parametrize("scaled", [False, True])
SHAPED = pytest.mark.parametrize(("n", "d"), SHAPES)
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def rows_of(n, d, dtype="float32", offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return (offset + rng.normal(3.0, 2.0, (n, d))).astype(dtype)


def weights_of(n, weighted):
    return np.random.default_rng(1).random(n) + 0.1 if weighted else None


def precision_of(d, scaled):
    return np.random.default_rng(2).random(d) + 0.5 if scaled else None


def distances_of(X, point, precision=None):
    squares = (X.astype(np.float64) - point) ** 2
    return squares @ (np.ones(X.shape[1]) if precision is None else precision)


def all_distances(X, centers, precision=None):
    return np.stack([distances_of(X, center, precision) for center in centers], axis=1)


class Claims:
    """Tests of `kernels`, with tensors on `device`."""

    device = "cpu"
    kernels: Any
    """The module whose functions are tested."""

    def put(self, *arrays):
        return [None if a is None else torch.tensor(a, device=self.device) for a in arrays]

    # Scans.

    @SHAPED
    @WEIGHTED
    @SCALED
    @DTYPES
    def test_cells_and_sums_are_those_of_their_rows(self, n, d, weighted, scaled, dtype):
        X, w, p = rows_of(n, d, dtype), weights_of(n, weighted), precision_of(d, scaled)
        pivot = np.random.default_rng(3).normal(size=d)
        omega = np.ones(n) if w is None else w
        masses, size = omega * distances_of(X, pivot, p), omega @ np.abs(X - pivot)
        given = self.put(X, w, pivot, p)
        for cell_rows in CELL_ROWS:
            shift, cost, cells = self.kernels.scan_cells(*given, cell_rows)
            expected = np.add.reduceat(masses, np.arange(0, n, cell_rows))
            np.testing.assert_allclose(cells.cpu(), expected, rtol=DIGITS[dtype])
            np.testing.assert_allclose(float(cost), masses.sum(), rtol=DIGITS[dtype])
            off = np.abs(shift.cpu().numpy() - omega @ (X - pivot))
            assert (off <= 0.1 * DIGITS[dtype] * size).all()
        distances, shift, cost = self.kernels.scan(*given)
        np.testing.assert_allclose(distances.cpu(), distances_of(X, pivot, p), rtol=DIGITS[dtype])
        np.testing.assert_allclose(float(cost), masses.sum(), rtol=DIGITS[dtype])
        off = np.abs(shift.cpu().numpy() - omega @ (X - pivot))
        assert (off <= 0.1 * DIGITS[dtype] * size).all()

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8"])
    @pytest.mark.parametrize("d", [3, 130])
    def test_narrow_rows_are_those_of_float32(self, d, dtype):
        X, w, p = self.put(rows_of(70, d, offset=5.0), weights_of(70, True), precision_of(d, True))
        X = X.to(getattr(torch, dtype))
        pivot, centers = self.put(
            np.full(d, 4.5), np.random.default_rng(3).normal(5.0, 2.0, (9, d))
        )
        labels = torch.arange(70, device=self.device, dtype=torch.int32) % 9
        whole, own = torch.tensor([0, 2], device=self.device), self.put(np.array([1.0, 9.0]))[0]

        def all_of(rows):
            closest, marks = self.put(np.full(70, 50.0 * d), np.zeros(70, dtype=np.int32))
            return [
                *self.kernels.scan(rows, w, pivot, p),
                *self.kernels.scan_cells(rows, w, pivot, p, 8),
                *self.kernels.hit_rows(rows, w, pivot, pivot, p, 1.0, 0.5, 8, whole, own),
                *self.kernels.moments(rows, w),
                *self.kernels.cluster_sums(rows, w, labels, 9, centers),
                self.kernels.own_distances(rows, centers, labels, p),
                self.kernels.nearest(rows, centers, p).labels,
                self.kernels.closer(rows, w, pivot, p, 3, closest, marks),
                closest,
                marks,
            ]

        for one, other in zip(all_of(X), all_of(X.float()), strict=True):
            assert torch.equal(one, other)

    @WEIGHTED
    def test_an_offset_costs_no_digits(self, weighted):
        X, w = rows_of(500, 5, offset=1e6), weights_of(500, weighted)
        pivot = X.mean(axis=0, dtype=np.float64) + 0.013
        omega = np.ones(500) if w is None else w
        shift, cost, cells = self.kernels.scan_cells(*self.put(X, w, pivot, None), 1)
        np.testing.assert_allclose(cells.cpu(), omega * distances_of(X, pivot), rtol=1e-6)
        np.testing.assert_allclose(float(cost), omega @ distances_of(X, pivot), rtol=1e-8)
        off = np.abs(shift.cpu().numpy() - omega @ (X - pivot))
        assert (off <= 1e-8 * (omega @ np.abs(X - pivot))).all()

    def test_scans_repeat_bit_for_bit(self):
        given = self.put(rows_of(333, 16), weights_of(333, True), np.zeros(16), None)
        for one, two in zip(*(self.kernels.scan_cells(*given, 8) for _ in range(2)), strict=True):
            assert torch.equal(one, two)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_a_bad_value_shows_in_the_cost(self, bad):
        X = rows_of(100, 5)
        X[77, 3] = bad
        sums = self.kernels.scan_cells(*self.put(X, None, np.zeros(5), None), 8)
        assert not torch.isfinite(sums.cost)
        assert torch.nonzero(~torch.isfinite(sums.cells)).flatten().tolist() == [77 // 8]

    def test_large_numbers_do_not_overflow(self):
        X = rows_of(50, 5) * np.float32(1e25)
        sums = self.kernels.scan_cells(*self.put(X, None, np.zeros(5), None), 1)
        np.testing.assert_allclose(sums.cells.cpu(), distances_of(X, np.zeros(5)), rtol=1e-6)

    @SHAPED
    @WEIGHTED
    @SCALED
    def test_hits_are_where_the_running_sum_crosses(self, n, d, weighted, scaled):
        X, w, p = rows_of(n, d), weights_of(n, weighted), precision_of(d, scaled)
        if weighted:
            w[::3] = 0.0
        pivot, mean = np.full(d, 2.5), np.full(d, 3.0)
        h = 1.1 * distances_of(X, pivot, p) + 0.2
        masses = h if w is None else w * h
        for cell_rows in CELL_ROWS:
            firsts = np.arange(0, n, cell_rows)
            sums = np.add.reduceat(masses, firsts)
            shares = np.array([0.0, 0.3, 0.999, 2.0])
            cells = np.repeat(np.arange(len(firsts)), 4)[::-1].copy()
            targets = (sums[:, None] * shares).ravel()[::-1].copy()
            starts = cells * cell_rows
            expected = cross(masses, starts, np.minimum(starts + cell_rows, n), targets)
            given = self.put(X, w, pivot, mean, p)
            hits = self.kernels.hit_rows(*given, 1.1, 0.2, cell_rows, *self.put(cells, targets))
            assert hits.rows.tolist() == expected.tolist()
            np.testing.assert_allclose(hits.bounds.cpu(), h[expected], rtol=1e-12)
            to_mean = distances_of(X[expected], mean, p)
            np.testing.assert_allclose(hits.distances.cpu(), to_mean, rtol=1e-12)

    @SHAPED
    @WEIGHTED
    @DTYPES
    def test_one_more_center_lowers_distances(self, n, d, weighted, dtype):
        X, w = rows_of(n, d, dtype), weights_of(n, weighted)
        first, second = distances_of(X, np.full(d, 2.0)), distances_of(X, np.full(d, 4.0))
        closest, labels = self.put(first, np.full(n, 3, dtype=np.int32))
        x, omega, center = self.put(X, w, np.full(d, 4.0))
        cost = self.kernels.closer(x, omega, center, None, 7, closest, labels)
        expected = np.minimum(first, second)
        np.testing.assert_allclose(closest.cpu(), expected, rtol=DIGITS[dtype])
        assert labels.tolist() == np.where(second < first, 7, 3).tolist()
        total = expected.sum() if w is None else w @ expected
        np.testing.assert_allclose(float(cost), total, rtol=DIGITS[dtype])

    @WEIGHTED
    @pytest.mark.parametrize("offset", [0.0, 1e6])
    def test_moments_are_accurate_at_any_offset(self, weighted, offset):
        X, w = rows_of(300, 5, offset=offset), weights_of(300, weighted)
        weight, mean, scatter = self.kernels.moments(*self.put(X, w))
        omega = np.ones(300) if w is None else w
        exact = np.average(X.astype(np.float64), axis=0, weights=omega)
        np.testing.assert_allclose(float(weight), omega.sum(), rtol=1e-14)
        np.testing.assert_allclose(mean.cpu(), exact, rtol=1e-14)
        np.testing.assert_allclose(scatter.cpu(), omega @ (X - exact) ** 2, rtol=1e-10)

    def test_equal_rows_have_no_scatter(self):
        X = np.tile(np.float32([0.1, 1e6 + 0.3]), (100, 1))
        _, mean, scatter = self.kernels.moments(*self.put(X, weights_of(100, True)))
        assert mean.tolist() == X[0].tolist()
        assert scatter.tolist() == [0.0, 0.0]

    def test_a_place_is_the_first_whose_sum_is_above_the_target(self):
        rng = np.random.default_rng(0)
        sums = np.concatenate([np.cumsum(rng.integers(0, 3, n)) for n in (1, 2, 50, 400)])
        starts = np.repeat([0, 1, 3, 53], 60)
        stops = np.repeat([1, 3, 53, 453], 60)
        targets = rng.integers(-1, sums.max() + 2, len(starts)).astype(float)
        expected = [
            min(a + int((sums[a:b] <= t).sum()), b - 1)
            for a, b, t in zip(starts, stops, targets, strict=True)
        ]
        found = self.kernels.bisect(*self.put(sums.astype(float), starts, stops, targets))
        assert found.tolist() == expected

    # Labels.

    @SHAPED
    @SCALED
    @DTYPES
    @pytest.mark.parametrize("k", NUMBERS)
    def test_labels_are_nearest(self, n, d, scaled, dtype, k):
        X, p = rows_of(n, d, dtype), precision_of(d, scaled)
        centers = rows_of(k, d, "float64", seed=5)
        found = all_distances(X, centers, p)
        labels, distances, _ = self.kernels.nearest(*self.put(X, centers, p), distances=True)
        assert labels.dtype == torch.int32
        assert labels.tolist() == found.argmin(axis=1).tolist()
        np.testing.assert_allclose(distances.cpu(), found.min(axis=1), rtol=DIGITS[dtype])

    def test_an_offset_moves_no_label(self):
        X = rows_of(400, 8, offset=1e6)
        centers = rows_of(60, 8, "float64", offset=1e6, seed=5)
        labels, _, n_unclear = self.kernels.nearest(*self.put(X, centers, None))
        assert labels.tolist() == all_distances(X, centers).argmin(axis=1).tolist()
        assert int(n_unclear) < 20

    @pytest.mark.parametrize("unit", [1e-30, 1e-18, 1e18, 1e30])
    def test_labels_are_nearest_in_any_unit(self, unit):
        X = (rows_of(200, 8) * unit).astype(np.float32)
        centers = rows_of(40, 8, "float64", seed=5) * unit
        labels, _, n_unclear = self.kernels.nearest(*self.put(X, centers, None))
        scaled = all_distances(X / unit, centers / unit)
        assert labels.tolist() == scaled.argmin(axis=1).tolist()
        assert int(n_unclear) < 20

    @pytest.mark.parametrize("others", [0, 2_100])
    def test_rows_almost_midway_between_two_centers_have_the_nearer_one(self, others):
        rng = np.random.default_rng(0)
        middles, apart = rng.normal(size=(30, 20)) * 5.0, rng.normal(size=(30, 20))
        far = rng.normal(size=(others, 20)) * 30.0
        centers = np.concatenate([middles - apart, far, middles + apart])
        X = np.tile(middles, (4, 1)) + rng.normal(size=(120, 1)) * 3e-3 * np.tile(apart, (4, 1))
        X = X.astype(np.float32)
        nearest = all_distances(X, centers).argmin(axis=1).tolist()
        labels, _, n_unclear = self.kernels.nearest(*self.put(X, centers, None))
        assert labels.tolist() == nearest
        # By products, as good as all of them.
        assert int(n_unclear) < 60

    def test_a_far_center_costs_no_accuracy(self):
        X, centers = rows_of(400, 8), rows_of(40, 8, "float64", seed=5)
        X[7], centers[11] = 1e9, 1e9
        X[8], centers[12] = -3e4, -3e4
        labels, _, _ = self.kernels.nearest(*self.put(X, centers, None))
        assert labels.tolist() == all_distances(X, centers).argmin(axis=1).tolist()

    def test_equally_near_centers_give_the_first(self):
        X = np.random.default_rng(0).integers(-2, 3, (300, 4)).astype(np.float32)
        centers = np.random.default_rng(1).integers(-2, 3, (90, 4)).astype(np.float64)
        labels, _, n_unclear = self.kernels.nearest(*self.put(X, centers, None))
        assert labels.tolist() == all_distances(X, centers).argmin(axis=1).tolist()
        assert int(n_unclear) > 100

    @DTYPES
    def test_a_row_that_is_not_finite_has_no_label(self, dtype):
        X = rows_of(100, 6, dtype)
        X[3, 2], X[40, 5], X[99, 0] = np.nan, np.inf, -np.inf
        centers = rows_of(20, 6, "float64", seed=5)
        for k in (1, 20):
            for mode in ("tf32x3", "tf32"):
                labels, distances, _ = self.kernels.nearest(
                    *self.put(X, centers[:k], None), distances=True, mode=mode
                )
                assert np.flatnonzero(labels.cpu().numpy() < 0).tolist() == [3, 40, 99]
                lost = np.flatnonzero(~np.isfinite(distances.cpu().numpy())).tolist()
                assert lost == [3, 40, 99]

    def test_tf32_labels_are_almost_nearest(self):
        X, centers = rows_of(1000, 16), rows_of(100, 16, "float64", seed=5)
        labels, _, _ = self.kernels.nearest(*self.put(X, centers, None), mode="tf32")
        found = all_distances(X, centers)
        own = found[np.arange(1000), labels.cpu().numpy()]
        assert (own <= found.min(axis=1) + 0.01 * (X**2).sum(axis=1)).all()
        assert (labels.cpu().numpy() == found.argmin(axis=1)).mean() > 0.98

    @SHAPED
    @SCALED
    @DTYPES
    def test_own_distances_are_those_to_the_own_center(self, n, d, scaled, dtype):
        X, p = rows_of(n, d, dtype, offset=1e3), precision_of(d, scaled)
        centers = rows_of(9, d, "float64", offset=1e3, seed=5)
        labels = np.random.default_rng(6).integers(0, 9, n).astype(np.int32)
        found = self.kernels.own_distances(*self.put(X, centers, labels, p))
        expected = portable.own_distances(X.astype(np.float64), centers, labels, p)
        np.testing.assert_allclose(found.cpu(), expected, rtol=1e-12)

    # Sums of clusters.

    @SHAPED
    @WEIGHTED
    @DTYPES
    @pytest.mark.parametrize("k", [5, 60 if INTERPRETED else 300])
    def test_sums_are_those_of_clusters(self, n, d, weighted, dtype, k):
        X, w = rows_of(n, d, dtype, offset=1e3), weights_of(n, weighted)
        around = rows_of(k, d, "float64", offset=1e3, seed=5)
        labels = np.random.default_rng(6).integers(-1, k, n).astype(np.int32)
        given = self.put(X, w, labels)
        totals, sums = self.kernels.cluster_sums(*given, k, *self.put(around))
        omega = np.where(labels < 0, 0.0, 1.0 if w is None else w)
        expected = portable.cluster_sums(
            X.astype(np.float64), omega, np.maximum(labels, 0), np.ones(k, dtype=bool), around
        )
        np.testing.assert_allclose(totals.cpu(), expected[0], rtol=1e-12)
        np.testing.assert_allclose(sums.cpu(), expected[1], rtol=1e-11, atol=1e-10)
        distances = np.random.default_rng(7).random(n)
        totals, costs = self.kernels.cluster_totals(given[2], given[1], *self.put(distances), k)
        at = labels >= 0
        np.testing.assert_allclose(totals.cpu(), expected[0], rtol=1e-12)
        exact = np.bincount(labels[at], (omega * distances)[at], k)
        np.testing.assert_allclose(costs.cpu(), exact, rtol=1e-12)

    def test_rows_without_a_label_are_left_out(self):
        X, labels = rows_of(50, 3), np.arange(50, dtype=np.int32) % 4
        X[10], labels[10] = np.nan, -1
        given = self.put(X, None, labels)
        totals, sums = self.kernels.cluster_sums(*given, 4, *self.put(np.zeros((4, 3))))
        assert totals.tolist() == np.bincount(labels[labels >= 0], minlength=4).tolist()
        assert torch.isfinite(sums).all()

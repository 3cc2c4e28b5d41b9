"""Certificates: what bounds a draw, the intervals that follow, and the words for them."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log, sqrt

import numpy as np
import pytest

import lwcs
from lwcs.divergences import Divergence, Domain, Mahalanobis, as_divergence
from lwcs.geometry import Geometry
from lwcs.statistics.certificate import (
    Certificate,
    bernstein_interval,
    cost_interval,
    largest_drawn,
    largest_share,
    log_likelihood_interval,
)
from lwcs.statistics.extremes import NoBoundError, largest_value, law_of
from lwcs.statistics.referee import Mean, Price


class Quartic(Divergence, listed=False):
    """Of which only φ and φ' are known."""

    name = "quartic_here"

    def phi(self, x):
        return x**4

    def gradient(self, y):
        return 4 * y**3


class QuarticInside(Quartic, listed=False):
    """The same where values end, and φ' with them."""

    name = "quartic_inside"
    domain = Domain(low=0.0, high=1.0)


DIVERGENCES = {
    "sqeuclidean": as_divergence("sqeuclidean"),
    "mahalanobis": Mahalanobis([[2.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 5.0]]),
    "cosine": as_divergence("cosine"),
    "kl": as_divergence("kl"),
    "kl_simplex": as_divergence("kl_simplex"),
    "itakura_saito": as_divergence("itakura_saito"),
    "exponential": as_divergence("exponential"),
    "logistic": as_divergence("logistic"),
    "only phi": Quartic(),
    "only phi, on an interval": QuarticInside(),
}


def awkward_rows(seed: int) -> np.ndarray:
    """Values in (0, 1): most rows in two places, some at the mean, a few at the ends."""
    rng = np.random.default_rng(seed)
    crowd = np.where(rng.random((900, 1)) < 0.5, 0.2, 0.7) + 0.02 * rng.random((900, 3))
    at_the_mean = crowd.mean(axis=0) + 0.001 * rng.normal(size=(30, 3))
    ends = rng.choice([1e-3, 0.999], size=(20, 3))
    return np.vstack([crowd, at_the_mean, ends, rng.random((50, 3)) * 0.98 + 0.01])


def values_of_all_rows(X: np.ndarray, coreset: lwcs.Coreset, centers: np.ndarray) -> np.ndarray:
    """y = d(x, Q)/q(x) of every row, drawn or not."""
    geometry = coreset.geometry()
    rows = geometry.measured(X)
    to_mean = rows.distances_to(geometry.own_centers(coreset.mean[None, :]))
    q = 0.5 / coreset.total_weight + 0.5 * to_mean / coreset.total_cost
    return rows.nearest(geometry.own_centers(centers))[1] / q


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("seed", range(4))
def test_no_row_has_a_larger_value_than_the_bound(name, seed):
    X, rng = awkward_rows(seed), np.random.default_rng(seed)
    coreset = lwcs.build(X, 200, divergence=DIVERGENCES[name], random_state=seed)
    geometry = coreset.geometry()
    for k in (1, 2, 5):
        picked = X[rng.choice(len(X), k, replace=False)]
        centers = geometry.to_data(geometry.measured(picked).as_centers())
        largest = largest_value(coreset, geometry.own_centers(centers))
        values = values_of_all_rows(X, coreset, centers)
        assert values.max() <= largest
        # A bound that is far above all possible rows would withhold every interval.
        assert largest <= 200.0 * values.max()


def test_the_bound_for_squared_distances_is_reached():
    """2(Φ + Ω·b): by a row beyond the mean, at a distance of Φ/(Ω·√b)."""
    X = np.array([[-1.0]] * 1000 + [[1.0]] * 1000)
    coreset = lwcs.build(X, 50, random_state=0)
    largest = largest_value(coreset, coreset.geometry().centers(np.array([[1.0]])))
    assert largest == pytest.approx(2.0 * (2000.0 + 2000.0 * 1.0), rel=1e-5)
    assert values_of_all_rows(X, coreset, np.array([[1.0]])).max() == pytest.approx(largest, 1e-5)


def test_weights_of_rows_count_in_the_bound():
    X, omega = awkward_rows(0), np.random.default_rng(0).exponential(size=1000) * 100
    coreset = lwcs.build(X, 200, sample_weight=omega, random_state=0)
    centers = X[[0]]
    values = values_of_all_rows(X, coreset, centers)
    largest = largest_value(coreset, coreset.geometry().centers(centers))
    assert values.max() <= largest <= 20.0 * values.max()


@pytest.mark.parametrize("drifting", [False, True])
def test_rows_that_are_read_once_have_a_bound(drifting):
    """Draws of one pass have other weights: a mixture, or around a pivot far from the mean."""
    X = np.random.default_rng(0).normal(size=(200_000, 2)) + (
        np.linspace(0, 300, 200_000)[:, None] if drifting else 0.0
    )
    blocks = (X[i : i + 5_000] for i in range(0, 200_000, 5_000))
    coreset = lwcs.build(blocks, 2_000, random_state=0)
    assert coreset.details["weights"] == ("pivot" if drifting else "mixture")
    centers = coreset.geometry().centers(X[[0]])
    distances = ((coreset.points - X[0]) ** 2).sum(axis=1)
    values = coreset.size * coreset.weights / coreset.counts * distances
    largest = largest_value(coreset, centers)
    assert values.max() <= largest <= 20.0 * values.max()
    half = coreset.split(500, random_state=0)[1]
    assert largest_value(half, centers) == pytest.approx(largest, rel=1e-6)


def test_the_law_of_one_pass_is_read_off_its_weights():
    X = np.random.default_rng(1).normal(size=(5_000, 2))
    coreset = lwcs.build((X[i : i + 500] for i in range(0, 5_000, 500)), 1_000, random_state=0)
    law = law_of(coreset)
    to_mean = ((coreset.points - coreset.mean) ** 2).sum(axis=1)
    weights = coreset.size * coreset.weights / coreset.counts
    np.testing.assert_allclose(1.0 / weights, to_mean / law.by_cost + 1.0 / law.by_weight)


def test_the_values_of_a_union_are_bounded_by_its_smallest_part():
    X = awkward_rows(0)
    parts = [lwcs.build(X, 100, random_state=0), lwcs.build(3 * X, 1_000, random_state=1)]
    union = parts[0] + parts[1]
    centers = X[[0, 5]]
    own = union.geometry().centers(centers)
    values = [
        values_of_all_rows(rows, part, centers).max() * union.size / part.size
        for rows, part in zip((X, 3 * X), parts, strict=True)
    ]
    assert max(values) <= largest_value(union, own)
    again = union + lwcs.build(X, 50, random_state=2)
    assert again.details["least_draws"] == 50


@pytest.mark.parametrize("size", [300, 1_700])
def test_parts_of_a_union_have_draws_as_large_as_the_whole(size):
    """20 draws of as many rows as 2,000 others: they are as rare among the parts."""
    X = np.random.default_rng(0).normal(size=(50_000, 2))
    union = lwcs.build(X, 2_000, random_state=0) + lwcs.build(X, 20, random_state=1)
    centers = union.geometry().centers(np.zeros((1, 2)))
    whole = largest_value(union, centers)
    for part in union.split(size, random_state=0):
        distances = (part.points**2).sum(axis=1)
        largest = largest_value(part, centers)
        assert largest_drawn(part.weights, part.counts, distances) <= largest
        assert largest == pytest.approx(whole)


def test_another_scale_is_in_the_bound():
    X = awkward_rows(0) * [1.0, 10.0, 100.0]
    coreset = lwcs.build(lwcs.scan(X, scale="standard"), 200, random_state=0)
    raw = Geometry().centers(X[[0]])
    to_mean = (((X - coreset.mean) / coreset.scale) ** 2).sum(axis=1)
    q = 0.5 / coreset.total_weight + 0.5 * to_mean / coreset.total_cost
    values = ((X - X[0]) ** 2).sum(axis=1) / q
    assert values.max() <= largest_value(coreset, raw)


X = awkward_rows(0)
UNKNOWN = {
    "method='uniform'": lambda: lwcs.build(X, 200, method="uniform", random_state=0),
    "method='refined'": lambda: lwcs.build(X, 200, method="refined", n_clusters=3, random_state=0),
    "reduced union": lambda: sum(lwcs.build(X, 200, random_state=i) for i in (1, 2)).reduce(100),
    "made by hand": lambda: lwcs.Coreset.from_arrays(X, np.ones(len(X))),
    "parts of this union": lambda: sum(
        lwcs.build((X[i : i + 500] for i in range(0, 1000, 500)), 200, random_state=i)
        for i in (1, 2)
    ),
    "squared distances": lambda: lwcs.build(
        X, 200, method=lwcs.Lightweight(distance="sqeuclidean"), divergence="kl", random_state=0
    ),
}


@pytest.mark.parametrize("why", UNKNOWN)
def test_where_nothing_bounds_a_row_it_is_said_why(why):
    coreset = UNKNOWN[why]()
    with pytest.raises(NoBoundError, match=why):
        largest_value(coreset, coreset.geometry().centers(X[[0]]))


def test_rows_that_are_smoothed_towards_another_mean_have_no_bound():
    coreset = lwcs.build(X, 200, divergence="kl", random_state=0)
    geometry = coreset.geometry()
    own = geometry.own_centers(X[[0]])
    assert largest_value(coreset, own) < inf
    other = replace(geometry, mean=geometry.mean * 1.1)
    with pytest.raises(NoBoundError, match="mean of other data"):
        largest_value(coreset, other.own_centers(X[[0]]))


def test_intervals_written_out():
    price = Price(10.0, 0.04)
    for largest, kind in ((100.0, "clt"), (200.0, "rare")):
        found = cost_interval(price, 100, 50.0, largest, 0.95)
        assert found.kind == kind
        assert found.low == pytest.approx(10.0 - 1.959964 * 2.0 - 0.5)
        assert found.high == pytest.approx(10.0 + 1.959964 * 2.0 + log(20.0) * largest / 100)
    assert "the upper end has 59.9 % of the estimate for rare rows" in found.reason
    half = 2.0 * sqrt(2.0 * log(80.0)) + 7.0 * 200.0 * log(80.0) / (3.0 * 99)
    found = bernstein_interval(price, 100, 200.0, 0.95)
    assert (found.low, found.high) == (pytest.approx(0.0), pytest.approx(10.0 + half))


def test_standard_errors_are_not_used_where_a_row_could_add_more_than_half_of_the_estimate():
    price = Price(10.0, 0.04)
    assert cost_interval(price, 100, 50.0, 500.0, 0.95).kind == "rare"
    found = cost_interval(price, 100, 50.0, 501.0, 0.95)
    assert found.kind == "bernstein"
    assert "0.501 times the estimate" in found.reason


def test_draws_that_cost_nothing_leave_room_for_rows_that_were_not_drawn():
    found = cost_interval(Price(0.0), 100, 0.0, 50.0, 0.95)
    assert (found.low, found.kind) == (0.0, "bernstein")
    assert found.high == pytest.approx(7.0 * 50.0 * log(80.0) / (3.0 * 99))
    assert cost_interval(Price(0.0), 100, 0.0, 0.0, 0.95).high == 0.0
    assert cost_interval(Price(3.0), 1, 3.0, 50.0, 0.95).kind == "none"


def test_the_largest_value_of_a_draw():
    own = np.array([1.0, 8.0]), np.array([1, 4]), np.array([3.0, 1.0])
    assert largest_drawn(*own) == 5 * 3.0


@pytest.mark.parametrize("unit", [1e-290, 1e-150, 1e150, 1e290])
def test_intervals_do_not_depend_on_the_units(unit):
    for largest in (200.0, 5_000.0):
        plain = cost_interval(Price(10.0, 0.04), 100, 90.0, largest, 0.9)
        scaled = cost_interval(Price(10.0 * unit, 0.04), 100, 90.0 * unit, largest * unit, 0.9)
        assert scaled.high == pytest.approx(plain.high * unit)
        assert scaled.kind == plain.kind


@pytest.mark.parametrize("rare", [5, 10, 20])
def test_few_rows_that_cost_more_than_any_that_was_drawn_are_covered(rare):
    """Clusters at ±10 that cost 4,800, and a few rows between them that cost 100 each.

    Of 200 intervals 93 % cover the cost; where 97 % do, fewer with probability 0.2 %. Allowances
    for rows as large as those that were drawn would cover 70 % to 91 %.
    """
    rng, n, h = np.random.default_rng(rare), 60_000, 10_000
    places = np.repeat([-10.0, 10.0, 0.0], [n // 2, n // 2, rare])
    rows = places + np.sqrt(0.08) * rng.normal(size=len(places))
    rows[n:] = 0.0
    to_mean, centers = (rows - rows.mean()) ** 2, np.array([-10.0, 10.0])
    q = 0.5 / len(rows) + 0.5 * to_mean / to_mean.sum()
    y = ((rows[:, None] - centers) ** 2).min(axis=1) / q
    largest = 2.0 * (to_mean.sum() + len(rows) * ((rows.mean() - centers) ** 2).min())
    true, covered, kinds = float(q @ y), 0, set()
    for _ in range(200):
        drawn = y[np.searchsorted(np.cumsum(q), rng.random(h) * q.sum())]
        price = Price.on_draws(np.full(h, 1.0 / h), np.ones(h, dtype=np.int64), drawn)
        found = cost_interval(price, h, drawn.max(), largest, 0.95)
        covered += found.low <= true * (1 + 1e-9) and true <= found.high
        kinds.add(found.kind)
    assert covered >= 0.93 * 200
    assert "rare" in kinds


@pytest.mark.statistical
@pytest.mark.parametrize("rare", [1, 5, 20, 100])
def test_rows_that_are_hardly_ever_drawn_are_covered(rare):
    """Two far clusters, and a few rows between them that have nearly all of the cost.

    Of 400 intervals 92 % cover the cost; where 95 % do, fewer with probability 0.6 %. Intervals
    without the allowance for rows that were not drawn would cover from 4 % to 90 %.
    """
    rng, h = np.random.default_rng(rare), 1_000
    places = np.repeat([-50.0, 50.0, 0.0], [5_000, 5_000, rare])
    rows = places + 0.01 * rng.normal(size=len(places))
    to_mean, centers = (rows - rows.mean()) ** 2, np.array([-50.0, 50.0])
    q = 0.5 / len(rows) + 0.5 * to_mean / to_mean.sum()
    y = ((rows[:, None] - centers) ** 2).min(axis=1) / q
    largest = 2.0 * (to_mean.sum() + len(rows) * ((rows.mean() - centers) ** 2).min())
    true, covered = float(q @ y), 0
    for _ in range(400):
        drawn = rng.choice(y, h, p=q)
        price = Price.on_draws(np.full(h, 1.0 / h), np.ones(h, dtype=np.int64), drawn)
        found = cost_interval(price, h, drawn.max(), largest, 0.95)
        covered += found.low <= true * (1 + 1e-9) and true <= found.high
    assert covered >= 0.92 * 400


def test_a_draw_with_much_of_the_variance_withholds_the_interval():
    weights, counts = np.ones(1_000), np.ones(1_000, dtype=np.int64)
    values = np.random.default_rng(0).normal(size=1_000)
    assert largest_share(weights, counts, values) < 0.02
    values[0] = 1e200
    assert largest_share(weights, counts, values) == pytest.approx(0.999)
    found = log_likelihood_interval(Mean(0.0, 1.0), 0.5, 0.95)
    assert (found.kind, found.low, found.high) == ("none", -inf, inf)
    assert "50 % of the variance" in found.reason
    assert largest_share(weights, counts, np.ones(1_000)) == 0.0


def certificate(**changed) -> Certificate:
    proven = (1100.0, 1400.0)
    plain = Certificate(
        1234.5, 1200.0, 1300.0, 0.95, "clt", proven, "", False, "cost", 3, 500, 9_000, 9e3
    )
    return replace(plain, **changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "3 centers cost about 1234.5 on all 9,000 rows (0.13717 per row), 95 % interval 1200 "
             "to 1300 (central limit theorem; for any data 1100 to 1400, empirical Bernstein), by "
             "500 draws."),
        ({"kind": "rare", "reason": "the upper end"}, "3 centers cost about 1234.5 on all 9,000 "
         "rows (0.13717 per row), 95 % interval 1200 to 1300 (central limit theorem, and rare "
         "rows; for any data 1100 to 1400, empirical Bernstein), by 500 draws. The upper end."),
        ({"kind": "exact"}, "3 centers cost 1234.5 on all 9,000 rows (0.13717 per row); all rows "
                            "were measured."),
        ({"kind": "exact", "total_weight": 900.0}, "3 centers cost 1234.5 on all 9,000 rows "
         "(1.3717 per unit of weight); all rows were measured."),
        ({"kind": "bernstein", "reason": "the CLT is not valid", "n_clusters": 1},
         "1 center costs about 1234.5 on all 9,000 rows (0.13717 per row), 95 % interval 1200 to "
         "1300 (empirical Bernstein, for any data), by 500 draws. The CLT is not valid."),
        ({"kind": "none", "reason": "so it is"}, "3 centers cost about 1234.5 on all 9,000 rows "
         "(0.13717 per row), by 500 draws. No interval can be given: so it is."),
        ({"kind": "none", "reason": "fitted", "biased": True}, "3 centers cost about 1234.5 on all "
         "9,000 rows (0.13717 per row), by 500 draws. This is biased low: fitted."),
        ({"quantity": "log-likelihood", "bernstein": (-inf, inf)},
         "A mixture of 3 has the log-likelihood about 1234.5 on "
         "all 9,000 rows (0.13717 per row), 95 % interval 1200 to 1300 (central limit theorem), by "
         "500 draws. Rows that were not drawn are not covered: a row may have any log-likelihood, "
         "and a few far from all components may change the total by more."),
    ],
)  # fmt: skip
def test_a_certificate_is_a_sentence(changed, words):
    own = certificate(**changed)
    assert str(own) == words
    assert own._repr_html_().startswith(f"<p><b>{words.split('.')[0]}")


def test_a_certificate_of_one_row_and_one_draw_is_in_the_singular():
    assert "on the only row" in str(certificate(n_samples=1))
    assert str(certificate(n_draws=1)).endswith("by 1 draw.")


def test_a_certificate_is_short_in_a_list():
    assert repr(certificate()) == "Certificate(cost 1234.5, 1200 to 1300, clt)"


def test_a_notebook_shows_no_markup_of_reasons():
    assert "&lt;i&gt;" in certificate(kind="none", reason="<i>")._repr_html_()

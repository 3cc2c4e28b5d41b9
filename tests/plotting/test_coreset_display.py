"""CoresetDisplay: where draws are, what they weigh, and how far out they are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs


@pytest.fixture(scope="module")
def heavy() -> lwcs.Coreset:
    X = np.random.default_rng(0).standard_t(2, size=(20_000, 2))
    return lwcs.build(X, 500, random_state=0)


def test_every_point_is_on_the_map_with_its_weight_as_area(heavy):
    points = lwcs.CoresetDisplay.from_coreset(heavy).axes_[0].collections[0]
    order = np.argsort(-heavy.weights, kind="stable")
    np.testing.assert_array_equal(points.get_offsets(), heavy.points[order])
    sizes = points.get_sizes()
    seen = sizes > sizes.min()
    expected = heavy.weights[order] / heavy.weights.max()
    np.testing.assert_allclose((sizes / sizes[0])[seen], expected[seen])


def test_distances_are_multiples_of_the_typical_one(heavy):
    display = lwcs.CoresetDisplay.from_coreset(heavy)
    squares = ((heavy.points - heavy.mean) ** 2).sum(axis=1)
    expected = np.sqrt(squares / (heavy.total_cost / heavy.total_weight))
    np.testing.assert_allclose(display.distances_, expected, atol=0.05)


def test_parts_of_draws_and_of_rows_sum_to_one(heavy):
    ax = lwcs.CoresetDisplay.from_coreset(heavy).axes_[1]
    draws, steps = ax.containers[0], ax.patches[-1].get_xy()[:, 1]
    assert sum(bar.get_height() for bar in draws) == pytest.approx(1.0)
    assert steps[1:-1:2].sum() == pytest.approx(1.0)
    # Far rows are drawn more often than there are any: the last bins have many draws, few rows.
    assert draws[-1].get_height() > 5.0 * steps[1:-1:2][-1]


def test_weights_of_draws_are_on_the_curve_of_the_paper(heavy):
    ax = lwcs.CoresetDisplay.from_coreset(heavy).axes_[2]
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert labels == {"formula of the paper", "draws", "if drawn uniformly"}
    curve = next(line for line in ax.lines if line.get_label() == "formula of the paper")
    offsets = ax.collections[0].get_offsets()
    inside = offsets[:, 0] > curve.get_xdata()[0] * 1.01
    expected = np.interp(offsets[:, 0], *curve.get_data())
    np.testing.assert_allclose(offsets[inside, 1], expected[inside], rtol=0.1)
    np.testing.assert_allclose(offsets[:, 1], heavy.weights / heavy.counts)


def test_rows_of_weight_zero_leave_the_curve_as_it_is(heavy):
    weights = heavy.weights.copy()
    weights[:5] = 0.0
    some = lwcs.Coreset.from_arrays(
        heavy.points, weights, counts=heavy.counts, n_samples=heavy.n_samples,
        total_weight=heavy.total_weight, mean=heavy.mean, total_cost=heavy.total_cost,
    )  # fmt: skip
    ax = lwcs.CoresetDisplay.from_coreset(some).axes_[2]
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert "formula of the paper" in labels


def test_uniform_draws_are_not_on_that_curve():
    X = np.random.default_rng(0).standard_t(3, size=(20_000, 3))
    coreset = lwcs.build(X, 300, method="uniform", random_state=0)
    ax = lwcs.CoresetDisplay.from_coreset(coreset).axes_[2]
    labels = {text.get_text() for text in ax.get_legend().get_texts()}
    assert labels == {"draws", "if drawn uniformly"}


@pytest.mark.parametrize("d", [1, 2, 3, 784])
def test_any_number_of_columns(d):
    X = np.random.default_rng(0).normal(size=(3_000, d))
    display = lwcs.CoresetDisplay.from_coreset(lwcs.build(X, 200, random_state=0))
    display.figure_.draw_without_rendering()
    assert display.axes_[0].get_title() == "200 draws of 3,000 rows, lightweight"
    assert len(display.distances_) == len(display.description.coreset)


def test_sparse_rows_streams_unions_and_all_rows():
    rng = np.random.default_rng(0)
    counts = sp.csr_array(rng.poisson(0.3, size=(800, 60)).astype(float))
    sparse = lwcs.CoresetDisplay.from_coreset(lwcs.build(counts, 100, random_state=0))
    assert sparse.axes_[0].get_xlabel().startswith("first principal component")
    stream = lwcs.StreamingCoreset(100, random_state=0)
    stream.update(rng.normal(size=(5_000, 2)))
    assert "of 5,000 rows" in lwcs.CoresetDisplay.from_coreset(stream).axes_[0].get_title()
    one, other = (lwcs.build(rng.normal(size=(900, 2)), 50, random_state=s) for s in (0, 1))
    assert "of 1,800 rows" in lwcs.CoresetDisplay.from_coreset(one + other).axes_[0].get_title()
    exact = lwcs.CoresetKMeans(2, random_state=0).fit(rng.normal(size=(60, 2))).coreset_
    assert lwcs.CoresetDisplay.from_coreset(exact).axes_[0].get_title() == "all 60 rows"


def test_divergences_are_measured_by_themselves():
    X = np.random.default_rng(0).gamma(2.0, size=(4_000, 3))
    coreset = lwcs.build(X, 200, divergence="kl", random_state=0)
    display = lwcs.CoresetDisplay.from_coreset(coreset)
    costs = [coreset.cost(coreset.mean[None])]
    own = display.distances_ @ coreset.weights * coreset.total_cost / coreset.total_weight
    assert own == pytest.approx(costs[0], rel=0.02)


def test_equal_rows_are_all_at_the_mean():
    display = lwcs.CoresetDisplay.from_coreset(lwcs.build(np.ones((500, 2)), 20, random_state=0))
    assert [text.get_text() for text in display.axes_[1].texts] == ["all points are at the mean"]
    display.figure_.draw_without_rendering()


def test_something_else_is_refused():
    with pytest.raises(TypeError, match=r"coreset is a ndarray, not a Coreset; pass the result"):
        lwcs.CoresetDisplay.from_coreset(np.ones((3, 2)))

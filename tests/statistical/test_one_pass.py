"""Rows that can be read only once: the reservoirs' law, and unbiased costs in any order.

Each test fails a correct sampler with probability 1e-4; there are 16 of them. Chi-squared over
400 runs, z-tests over 1,000 runs and five sets of centers (Bonferroni), fixed seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.geometry import Geometry
from lwcs.samplers.one_pass import OnePass, draw_in_one_pass
from lwcs.samplers.sampler import Run
from lwcs.sources.streams import BatchesSource
from tests.statistical.paths import N, data, lightweight_q, weights
from tests.statistical.verdicts import assert_follows, assert_unbiased

ORDERS = {
    "as it is": np.arange(N),
    "drifting": np.argsort(data()[:, 0], kind="stable"),
    "outliers first": np.argsort(-np.abs(data()).max(axis=1), kind="stable"),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16 rows, so that 150 rows are ten of them; too few for one read of an array."""
    for home in ("lwcs.coreset.streaming", "lwcs.sources.base"):
        monkeypatch.setattr(f"{home}.block_rows", lambda _: 16)


def batches(order: np.ndarray, make=np.asarray) -> Iterator[np.ndarray]:
    rows = data()[order]
    return (make(rows[a : a + 7]) for a in range(0, N, 7))


def passed(seed: int, order: np.ndarray, w: np.ndarray | None, size: int) -> OnePass:
    """The state after all rows have passed."""
    state = OnePass.of(size, Run(seed, Geometry(), 1))
    stream = lwcs.StreamingCoreset(size, random_state=seed)
    stream.state = state
    for a in range(0, N, 16):
        rows = order[a : a + 16]
        stream.update(data()[rows], None if w is None else w[rows])
    from lwcs.coreset.streaming import _pass

    if stream.filling is not None:
        _pass(stream.state, stream.filling.block(stream.state.rows))
    return stream.state


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("which", ["by_weight", "by_cost"])
def test_a_reservoir_follows_its_measure(which, weighted):
    w = weights() if weighted else None
    order, counts, expected = np.arange(N), np.zeros(N), np.zeros(N)
    omega = np.ones(N) if w is None else w
    for seed in range(400):
        state = passed(seed, order, w, 20)
        counts += np.bincount(getattr(state, which).rows, minlength=N)
        mass = omega.copy()
        if which == "by_cost":
            mass *= ((data() - state.pivot) ** 2).sum(axis=1)
        expected += mass / mass.sum()
    assert_follows(counts.astype(np.int64), expected / 400)


def test_accepted_draws_follow_q():
    """With all draws accepted or rejected and u + v = m, the law is Algorithm 1's."""
    counts = np.zeros(N, dtype=np.int64)
    for seed in range(400):
        coreset = lwcs.build(batches(np.arange(N)), 50, random_state=seed, n_jobs=1)
        assert coreset.details["weights"] == "mixture"
        counts[coreset.indices] += coreset.counts
    assert counts.sum() == 400 * 50
    assert_follows(counts, lightweight_q(None))


def in_order(name: str, seed: int, size: int, **options: object) -> lwcs.Coreset:
    source = BatchesSource(batches(ORDERS[name]))
    return lwcs.build(source, size, random_state=seed, n_jobs=1, **options)


@pytest.mark.parametrize("name", ORDERS)
def test_costs_of_one_pass_are_unbiased_in_any_order(name):
    assert_unbiased((lambda s, m: in_order(name, s, m), None), identity=False)


def test_the_orders_lead_to_both_kinds_of_weights():
    kinds = {name: in_order(name, 0, 30).details["weights"] for name in ORDERS}
    assert kinds["as it is"] == "mixture"
    assert kinds["outliers first"] == "pivot"


def test_costs_of_uniform_draws_in_one_pass_are_unbiased():
    path = (lambda s, m: in_order("drifting", s, m, method="uniform"), None)
    assert_unbiased(path, identity=False)


def test_costs_of_sparse_rows_in_one_pass_are_unbiased():
    def make(seed: int, size: int) -> lwcs.Coreset:
        source = BatchesSource(batches(np.arange(N), sp.csr_array))
        return lwcs.build(source, size, random_state=seed, n_jobs=1)

    assert_unbiased((make, None), identity=False)


def streamed(seed: int, size: int, order: np.ndarray, w: np.ndarray | None) -> lwcs.Coreset:
    stream = lwcs.StreamingCoreset(size, random_state=seed)
    for a in range(0, N, 11):
        rows = order[a : a + 11]
        stream.update(data()[rows], None if w is None else w[rows])
    return stream.coreset()


@pytest.mark.parametrize("name", ORDERS)
def test_costs_of_a_weighted_stream_are_unbiased(name):
    order = ORDERS[name]
    path = (lambda s, m: streamed(s, m, order, weights()), weights())
    assert_unbiased(path, identity=False)


def test_costs_of_merged_streams_are_unbiased():
    def make(seed: int, size: int) -> lwcs.Coreset:
        one, other = (lwcs.StreamingCoreset(size, random_state=s) for s in (seed, seed + 10_000))
        one.update(data()[:60])
        other.update(data()[60:100])
        one.merge(other)
        last = lwcs.build(data()[100:], size, passes=2, random_state=seed + 20_000, n_jobs=1)
        one.update(last)
        return one.coreset()

    assert_unbiased((make, None), identity=False)


def test_mixture_weights_are_those_of_the_formula():
    source = BatchesSource(batches(np.arange(N)))
    draws = draw_in_one_pass(source, 50, Run(3, Geometry(), 1))
    X = data()
    d = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    np.testing.assert_allclose(draws.summary.cost, d.sum())
    each, own = draws.weights / draws.counts, d[draws.indices]
    # 1/w = u/Ω + v·d/Φ is a line in d, with u + v = 50.
    slope, start = np.polyfit(own, 1.0 / each, 1)
    u, v = start * N, slope * d.sum()
    assert u + v == pytest.approx(50.0)
    assert u == pytest.approx(round(u), abs=1e-6)


def test_pivot_weights_are_those_of_the_formula():
    source = BatchesSource(batches(ORDERS["outliers first"]))
    draws = draw_in_one_pass(source, 50, Run(3, Geometry(), 1))
    X = data()[ORDERS["outliers first"]]
    a = ((X - X[:16].mean(axis=0)) ** 2).sum(axis=1)
    expected = draws.counts / (50 * (0.5 / N + 0.5 * a[draws.indices] / a.sum()))
    np.testing.assert_allclose(draws.weights, expected)

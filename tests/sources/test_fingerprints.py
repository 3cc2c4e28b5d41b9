"""Fingerprints of partitions tell rows, order and partitions apart, and are cheap to carry."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.kernels.hashes import hash_sums
from lwcs.sources.base import Block
from lwcs.sources.engines.fingerprints import MOST_LISTED, Fingerprints, PartitionHash
from tests.sources.test_engine import rows, wire


def printed(points, weights=None, cut=None):
    found = PartitionHash()
    for start, stop in zip([0, *(cut or [])], [*(cut or []), points.shape[0]], strict=True):
        own = None if weights is None else weights[start:stop]
        found.take(Block(points[start:stop], own, start))
    return found


@pytest.mark.parametrize("weights", [None, np.arange(5_000.0)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i2", "u1"])
def test_native_and_numpy_hashes_are_the_same(monkeypatch, dtype, weights):
    X = (rows(5_000, 7) * 10).astype(dtype)
    found = []
    for kernel in ("numpy", "native"):
        monkeypatch.setenv("LWCS_KERNEL", kernel)
        found.append(hash_sums(X, weights, 77))
    assert found[0] == found[1]


@pytest.mark.parametrize("weights", [None, np.arange(300.0)])
def test_sparse_rows_have_the_hashes_of_dense_ones(weights):
    X = np.where(np.random.default_rng(1).random((300, 20)) < 0.2, rows(300, 20), 0.0)
    X[17] = 0.0
    for dtype in ("f8", "f4"):
        own = X.astype(dtype)
        assert hash_sums(sp.csr_array(own), weights, 5) == hash_sums(own, weights, 5)


def test_small_whole_numbers_do_not_collide():
    """As float64, their low 32 bits are all zero."""
    grid = np.stack(np.meshgrid(*[np.arange(12.0)] * 3), axis=-1).reshape(-1, 3)
    assert len({hash_sums(grid[i : i + 1], None, 0) for i in range(len(grid))}) == len(grid)


def test_blocks_and_memory_layout_do_not_matter():
    X = rows(1_000, 5)
    assert printed(X) == printed(X, cut=[1, 600]) == printed(np.asfortranarray(X))


def test_order_content_and_weights_are_told_apart():
    X, w = rows(100, 5), np.arange(1.0, 101.0)
    own, turned = printed(X), printed(X[::-1])
    assert own.content == turned.content
    assert own.order != turned.order
    swapped = X.copy()
    # The same sums of all columns, in other rows.
    swapped[[3, 4], 0] = swapped[[4, 3], 0]
    assert printed(swapped).content != own.content
    assert printed(X, w).content != printed(X, w[::-1]).content != own.content
    assert printed(np.concatenate([X, X])).content != own.content


def test_many_partitions_share_fingerprints():
    prints = [printed(np.full((1, 1), i)) for i in range(3 * MOST_LISTED + 1)]
    found = Fingerprints.of(prints)
    assert (found.partitions, found.each) == (3 * MOST_LISTED + 1, 4)
    assert len(found.rows) == len(found.fingerprints) <= MOST_LISTED
    assert sum(found.rows) == len(prints)
    other = Fingerprints.of([prints[1], prints[0], *prints[2:]])
    assert [a != b for a, b in zip(found.fingerprints, other.fingerprints, strict=True)] == [
        True,
        *[False] * (len(found.rows) - 1),
    ]
    assert found.contents == other.contents


def test_a_coreset_says_why_another_one_differs(tmp_path):
    X = rows()
    one = lwcs.build(wire(X), 400, random_state=0)
    assert one.details["partitions"]["rows"] == [500] * 8
    assert one.explain_difference(lwcs.build(wire(X), 400, random_state=0)) == "nothing differs"
    shuffled = X.copy()
    shuffled[500:1_000] = shuffled[500:1_000][::-1]
    shuffled[[0, 2_000]] = shuffled[[2_000, 0]]
    other = lwcs.build(wire(shuffled), 400, random_state=1)
    other.save(tmp_path / "other.parquet")
    assert one.explain_difference(lwcs.load(tmp_path / "other.parquet")) == (
        "seed is 0 and 1; partitions 0, 4 have other rows; partition 1 has the same rows in "
        "another order; all in all the rows are the same"
    )
    fewer = lwcs.build(wire(X, 4), 400, random_state=0)
    assert "there are 8 and 4 partitions; all in all the rows are the same" in (
        one.explain_difference(fewer)
    )
    longer = lwcs.build(wire(np.vstack([X, X[:1]])), 400, random_state=0)
    assert "partition 0 has another number of rows" in one.explain_difference(longer)
    assert "all in all the rows are others" in one.explain_difference(longer)
    local = lwcs.build(X, 400, random_state=0)
    assert "nothing is known of the rows" in one.explain_difference(local)


@pytest.mark.parametrize("method", ["uniform", "refined", "lightweight"])
def test_every_method_and_the_estimator_take_them(method):
    X = rows()
    want = lwcs.build(wire(X), 400, random_state=0).details["partitions"]
    built = lwcs.build(wire(X), 400, method=method, n_clusters=3, random_state=0)
    assert built.details["partitions"] == want
    model = lwcs.CoresetKMeans(3, method=method, random_state=0, coreset_size=300).fit(wire(X))
    assert model.coreset_.details["partitions"] == want


def test_only_the_first_round_takes_them():
    source = wire(rows())
    asked = []
    run = source.run
    source.run = lambda work, told: asked.append(work.fingerprint) or run(work, told)
    lwcs.build(source, 400, method="refined", n_clusters=3, random_state=0)
    lwcs.build(source, 400, random_state=1)
    assert asked == [True, *[False] * 5]


@pytest.mark.parametrize(
    "damage",
    [
        {"rows": [1]},
        {"rows": None},
        {"rows": [-1] * 8},
        {"partitions": 0},
        {"partitions": True},
        {"each": 0},
        {"contents": ["0"] * 8},
        {"fingerprints": [7] * 8},
        {"fingerprints": "0" * 8},
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damage):
    from dataclasses import replace

    good = lwcs.build(wire(rows()), 400, random_state=0)
    details = {"partitions": good.details["partitions"] | damage}
    replace(good, details=details).save(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=r"is damaged: field 'details\.partitions' must have"):
        lwcs.load(tmp_path / "bad.parquet")


def test_rows_that_are_not_aligned_in_memory_have_the_same_sums():
    """As they come out of the message of an engine."""
    aligned = np.random.default_rng(0).random((20, 3))
    raw = np.empty(aligned.nbytes + 1, dtype=np.uint8)
    rows = raw[1:].view(np.float64).reshape(aligned.shape)
    rows[...] = aligned
    assert not rows.flags.aligned
    weights = raw[1:161].view(np.float64)
    assert hash_sums(rows, weights, 0) == hash_sums(aligned, weights.copy(), 0)
    built = [lwcs.build(each, 10, random_state=0, passes=2) for each in (rows, aligned)]
    np.testing.assert_array_equal(built[0].indices, built[1].indices)

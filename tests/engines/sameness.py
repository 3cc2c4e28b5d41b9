"""Rows cut into partitions, and coresets that have to agree to the last bit."""

from __future__ import annotations

import itertools

import numpy as np

import lwcs


def cut(rows, at):
    return [rows[start:stop] for start, stop in itertools.pairwise(at)]


def assert_same(got: lwcs.Coreset, want: lwcs.Coreset) -> None:
    for name in ("points", "weights", "indices", "counts", "mean", "scale"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name), err_msg=name)
    assert got.total_cost == want.total_cost
    assert got.total_weight == want.total_weight
    assert got.n_samples == want.n_samples

"""Rows on a store are the rows of the same files on this machine, however the store is named."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs


@pytest.fixture
def rows(bucket):
    """Two files, on this store; and their rows."""
    X = np.random.default_rng(0).standard_normal((3000, 3))
    for i, part in enumerate(np.split(X, [1000])):
        table = pa.table({f"x{j}": part[:, j] for j in range(3)})
        pq.write_table(table, f"{bucket.name}/data/{i}.parquet", filesystem=bucket.filesystem)
    return X


def test_pyarrow_and_fsspec_give_the_coreset_of_the_rows(bucket, rows):
    expected = lwcs.build(rows, 200, random_state=0, passes=2)
    options = bucket.storage_options
    by_options = lwcs.scan(bucket.uri("data"), storage_options=options)
    by_filesystem = lwcs.scan(f"{bucket.name}/data/*.parquet", filesystem=bucket.filesystem)
    for source in (by_options, by_filesystem):
        coreset = lwcs.build(source, 200, random_state=0)
        np.testing.assert_array_equal(coreset.indices, expected.indices)
        np.testing.assert_array_equal(coreset.weights, expected.weights)


def test_both_ways_to_name_a_store_are_refused(bucket):
    with pytest.raises(ValueError, match="both given"):
        lwcs.scan("x", filesystem=bucket.filesystem, storage_options=bucket.storage_options)

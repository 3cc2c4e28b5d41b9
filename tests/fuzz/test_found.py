"""What mutated inputs have found, each kept as the smallest input that shows it."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs import theory
from lwcs.foundation import storage
from lwcs.sources.pipes import open_pipe
from tests.fuzz.__main__ import run
from tests.fuzz.saved import objects, table_of

X = np.random.default_rng(0).gamma(2.0, size=(20, 3))

# Cases of ``python -m tests.fuzz`` that were wrong once.
CASES = [
    ("load-fields", 779),  # a parameter of a mixture that is an object
    ("load-bytes", 0),
    ("kurtosis", 35),
]


@pytest.mark.parametrize(("target", "case"), CASES)
def test_a_case_that_was_wrong_is_right(target, case, tmp_path, monkeypatch):
    monkeypatch.setenv("FUZZ_SEED", "0")
    assert run(target, case, tmp_path) is None


def test_column_names_that_are_not_text_are_damage(tmp_path):
    path = tmp_path / "c.parquet"
    pq.write_table(table_of(objects()["coreset"]), path, store_schema=False)
    whole = path.read_bytes()
    at = whole.rindex(b"\x18\x02x2") + 2
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    with pytest.raises(ValueError, match=r"c\.parquet' cannot be read as Parquet"):
        lwcs.load(path)


def test_more_draws_than_anybody_makes_are_damage(tmp_path):
    table = table_of(objects()["coreset"])
    at = table.column_names.index("count")
    new = table.set_column(at, "count", pa.array([2**62] * len(table)))
    record = json.loads(table.schema.metadata[b"lwcs"])
    pq.write_table(storage.sealed(new, record), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="column 'count' sums to"):
        lwcs.load(tmp_path / "c.parquet")


def lists_of_anything() -> Any:
    matrix = sp.lil_array(X)
    matrix.data[3] = 7
    return matrix


def test_lists_of_anything_are_not_a_sparse_array():
    for use in (lambda X: lwcs.build(X, 5), lambda X: lwcs.CoresetKMeans(2).fit(X)):
        with pytest.raises(ValueError, match="structure of the sparse data is damaged"):
            use(lists_of_anything())


def test_a_damaged_arrow_stream_is_named():
    table, sink = pa.table({"a": X[:, 0], "b": X[:, 1]}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole = sink.getvalue()
    for keep in (0, 3, 10, 200, len(whole) - 300, len(whole) - 50):
        with pytest.raises(ValueError, match="^standard input (is|has)"):
            lwcs.build(open_pipe(io.BytesIO(whole[:keep]), "arrow"), 5)
    found = lwcs.build(open_pipe(io.BytesIO(whole), "arrow"), 5, random_state=0)
    assert found.feature_names == ("a", "b")


def test_kurtosis_of_rows_that_are_too_far_away_is_refused():
    rows = np.array([[0.0], [1e-120], [2e-120], [1e100]])
    with pytest.raises(ValueError, match="so far away that the fourth power"):
        theory.kurtosis(rows, sample_weight=[1.0, 1.0, 1.0, 1e-300])

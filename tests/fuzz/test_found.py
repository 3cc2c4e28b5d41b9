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
from lwcs.sources.streams import open_pipe
from lwcs.storage import persistence as storage
from tests.fuzz.saved import objects, table_of

X = np.random.default_rng(0).gamma(2.0, size=(20, 3))


def test_a_parameter_of_a_model_is_not_an_object(tmp_path):
    table = table_of(objects()["mixture, gamma"])
    record = json.loads(table.schema.metadata[b"lwcs"])
    record["parameters"]["init"] = {"a": 1}
    pq.write_table(storage.sealed(table, record), tmp_path / "m.parquet")
    with pytest.raises(ValueError, match=r"field 'parameters\.init' is an object"):
        lwcs.load(tmp_path / "m.parquet")


def test_column_names_that_are_not_text_are_damage(tmp_path):
    path = tmp_path / "c.parquet"
    pq.write_table(table_of(objects()["coreset, sparse"]), path)
    whole = path.read_bytes()
    assert b"\x06weight\x00" in whole
    path.write_bytes(whole.replace(b"\x06weight\x00", b"\x06weigh\xf4\x00"))
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
        with pytest.raises(ValueError, match=r"^standard input (is|has)"):
            lwcs.build(open_pipe(io.BytesIO(whole[:keep]), "arrow"), 5)
    found = lwcs.build(open_pipe(io.BytesIO(whole), "arrow"), 5, random_state=0)
    assert found.feature_names == ("a", "b")


def test_kurtosis_of_rows_that_are_too_far_away_is_refused():
    rows = np.array([[0.0], [1e-120], [2e-120], [1e100]])
    with pytest.raises(ValueError, match="so far away that the fourth power"):
        theory.kurtosis(rows, sample_weight=[1.0, 1.0, 1.0, 1e-300])


def test_batches_without_columns_are_refused():
    for use in (lambda X: lwcs.build(X, 5), lambda X: lwcs.CoresetMixture(2).fit(X)):
        with pytest.raises(ValueError, match="at least one row and one column"):
            use(iter([np.empty((3, 0)), np.empty((3, 0))]))


def test_a_path_with_a_nul_character_is_refused():
    with pytest.raises(ValueError, match="is not a path: it contains the character NUL"):
        lwcs.build("rows\0.csv", 5)


def test_weights_over_too_many_decades_are_refused_with_words():
    matrix = sp.csr_array([[2.1e-09], [2.8e-09], [0.0]])
    with pytest.raises(ValueError, match="sampling probabilities of some rows cannot be computed"):
        lwcs.build(
            matrix,
            1,
            method="sensitivity",
            n_clusters=2,
            sample_weight=[0.6, 0.4, 1e-300],
            random_state=0,
        )


def test_a_vector_longer_than_any_is_damage():
    schema = pa.schema([("v", pa.list_(pa.float32(), 2**30)), ("x", pa.float64())])
    with pytest.raises(ValueError, match=r"'v' claims vectors of length 1,073,741,824"):
        lwcs.scan(pa.RecordBatchReader.from_batches(schema, []))


def test_a_wrong_number_of_rows_names_the_file(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "t.parquet")
    source = lwcs.scan(tmp_path / "t.parquet")
    monkeypatch.setattr(source, "n_rows", 17)
    with pytest.raises(ValueError, match=r"changed between .*t\.parquet': there were 17 rows"):
        lwcs.build(source, 5)


@pytest.mark.parametrize("weight", [1e-300, 1e198])
def test_weights_at_the_ends_of_the_range_have_shares(weight):
    """The square of their sum is not a number, or 0."""
    model = lwcs.CoresetKMeans(2, coreset_size=40, compute_labels=False, random_state=0)
    model.fit(1e-4 * X, sample_weight=np.full(20, weight))
    assert model.fitted_on_.shares.sum() == pytest.approx(1.0)
    assert np.isfinite(model.fitted_on_.share_variances).all()

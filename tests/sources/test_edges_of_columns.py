"""Columns and containers that are seldom met: used rightly, or refused with words."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.sources.arrow_rows import ArrowBatch, in_form
from lwcs.sources.column_types import named_like_identifier
from lwcs.sources.columns import Selection
from lwcs.sources.scan_options import ScanOptions

V = np.random.default_rng(0).normal(size=(50, 4))


def rows_of(source):
    return np.concatenate(list(source.gather(_points, n_jobs=1)))


def _points(blocks, _):
    return np.concatenate([block.points for block in blocks])


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
@pytest.mark.parametrize("gap", [None, 3])
def test_list_views_are_vectors(kind, gap, tmp_path):
    values = [None if i == gap else row for i, row in enumerate(V.tolist())]
    table = pa.table({"v": pa.array(values, kind(pa.float64()))})
    with pa.ipc.new_file(tmp_path / "v.arrow", table.schema) as file:
        file.write_table(table)
    expected = V if gap is None else np.delete(V, gap, axis=0)
    for data in (table, table.to_reader(), tmp_path / "v.arrow"):
        coreset = lwcs.build(lwcs.scan(data, missing="drop"), 20, random_state=0)
        assert coreset.total_weight == len(expected)
        assert np.isin(coreset.points, expected).all()


def test_list_views_may_overlap_and_be_out_of_order():
    views = pa.ListViewArray.from_arrays([4, 0, 1], [2, 2, 2], pa.array(np.arange(6.0)))
    source = lwcs.scan(pa.table({"v": views}).to_reader())
    np.testing.assert_array_equal(rows_of(source), [[4, 5], [0, 1], [1, 2]])


def test_tensors_of_one_dimension_are_vectors_and_others_are_left_out(tmp_path):
    flat, square = (
        pa.table({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(rows), "x": V[:, 0]})
        for rows in (V.copy(), V.reshape(-1, 2, 2))
    )
    pq.write_table(flat, tmp_path / "flat.parquet")
    pq.write_table(square, tmp_path / "square.parquet")
    for data in (flat, tmp_path / "flat.parquet"):
        np.testing.assert_array_equal(rows_of(lwcs.scan(data, columns="t")), V)
    for data in (square, tmp_path / "square.parquet"):
        with pytest.warns(lwcs.ColumnWarning, match=r"'t' \(lists of lists of numbers; turn"):
            assert lwcs.scan(data).feature_names == ("x",)


def test_sets_are_no_vectors():
    frame = pd.DataFrame({"x": [1.0, 2.0], "s": [{1, 2}, {3, 4}]})
    with pytest.warns(lwcs.ColumnWarning, match="sets, whose elements have no order"):
        assert lwcs.scan(frame).feature_names == ("x",)


def test_all_types_of_python_objects_are_named():
    frame = pd.DataFrame({"x": np.zeros(2000), "o": [1] * 1999 + ["a"]})
    with pytest.warns(lwcs.ColumnWarning, match=r"objects \(int, str\); turn them into numbers"):
        lwcs.scan(frame)


def test_text_in_python_objects_is_text():
    frame = pd.DataFrame({"x": [1.0, 2.0], "t": pd.Series(["a", None], dtype=object)})
    with pytest.warns(lwcs.ColumnWarning, match=r"'t' \(text\)"):
        assert lwcs.scan(frame).feature_names == ("x",)


def test_numbers_that_arrow_does_not_know_are_left_out_by_name():
    frame = pl.DataFrame({"x": [1.0], "n": pl.Series([1], dtype=pl.Int128)})
    with pytest.warns(lwcs.ColumnWarning, match=r"'n' \(Int128.*cast it"):
        assert lwcs.scan(frame).feature_names == ("x",)


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (pd.Categorical(["a", "b"]), "categories; encode them as numbers"),
        (pd.date_range("2024", periods=2), "dates; read them as days since 1970 with"),
        (pd.to_timedelta([1, 2]), "durations; turn them into numbers, for example seconds"),
    ],
)
def test_the_warning_says_how_to_turn_a_column_into_numbers(values, advice):
    with pytest.warns(lwcs.ColumnWarning, match=advice):
        lwcs.scan(pd.DataFrame({"x": [1.0, 2.0], "c": values}))


def test_the_only_column_of_lists_names_the_row_of_another_length():
    uneven = [row[:2] if i == 25 else row for i, row in enumerate(V.tolist())]
    with pytest.raises(ValueError, match="'v' holds a vector of length 2 in row 25"):
        lwcs.scan(pd.DataFrame({"v": uneven}))
    with pytest.warns(lwcs.ColumnWarning, match=r"'e' \(empty lists\)"):
        lwcs.scan(pa.table({"x": [1.0], "e": pa.array([[]], pa.list_(pa.float64()))}))


def test_a_record_batch_is_a_table_whose_columns_are_found_by_name():
    table = pa.table({"a": V[:, 0], "b": V[:, 1], "c": V[:, 2]})
    model = lwcs.CoresetKMeans(2, random_state=0).fit(lwcs.scan(table, columns=["c", "a"]))
    batch = table.to_batches()[0]
    np.testing.assert_array_equal(model.predict(batch), model.labels_)
    assert lwcs.CoresetKMeans(2).fit(batch).feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_column_of_arrow_is_no_table():
    with pytest.raises(TypeError, match=r"ChunkedArray is not a table.*pass a table"):
        lwcs.scan(pa.chunked_array([[1.0, 2.0]]))


def test_partitions_without_a_complete_row_are_refused_with_words():
    part = pd.DataFrame({"x": [np.nan], "y": [1.0]})
    with pytest.raises(ValueError, match="every row has a missing value"):
        lwcs.scan([part, part], missing="drop")


def test_the_first_row_of_all_columns_with_a_gap_is_named(tmp_path):
    a, b = V[:, 0].tolist(), V[:, :2].tolist()
    a[30], b[20] = None, [None, 1.0]
    pq.write_table(pa.table({"a": a, "b": b}), tmp_path / "gaps.parquet")
    with pytest.raises(ValueError, match="column 'b' has a missing value in row 20"):
        lwcs.build(lwcs.scan(tmp_path / "gaps.parquet", columns=["a", "b"]), 5)


def test_a_column_without_a_name_looks_like_an_identifier():
    assert named_like_identifier("")
    assert not named_like_identifier("größe")
    assert not named_like_identifier("年")


class CountedSchema:
    """The names of many columns, each request for which takes as long as there are columns."""

    def __init__(self, names):
        self._names, self.asked = names, 0

    @property
    def names(self):
        self.asked += 1
        return self._names


def test_names_of_a_batch_are_listed_once_whatever_the_number_of_columns():
    batch = pa.record_batch({f"c{j}": [1.0] for j in range(100)})
    selection = Selection.of(batch.schema, ScanOptions(), lambda _: [])
    counted = CountedSchema(batch.schema.names)
    formed = in_form(SimpleNamespace(schema=counted, column=batch.column), selection)
    assert counted.asked == 1
    assert ArrowBatch(formed, selection, False, "", 0).n_rows == 1


@pytest.mark.parametrize(("kind", "place"), [(list, "partition 1"), (iter, "batch 1")])
def test_an_error_in_one_of_several_tables_names_it(kind, place):
    good, gap = pd.DataFrame({"x": [1.0, 2.0]}), pd.DataFrame({"x": [1.0, np.nan]})
    with pytest.raises(ValueError, match=f"^{place}: column 'x' has a missing value in row 1"):
        lwcs.build(kind([good, gap]), 2)
    with pytest.raises(TypeError, match=f"^{place}: column 'x' holds text"):
        lwcs.build(kind([good, good.assign(x="a")]), 2)
    with pytest.raises(ValueError, match=f"^{place}: the columns 'v' have 1 features, where 2 are"):
        lwcs.build(kind([pd.DataFrame({"v": [[1, 2]]}), pd.DataFrame({"v": [[1]]})]), 2)

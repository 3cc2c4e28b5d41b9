"""Bad input: each error names the value, the bound and the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs

X = np.random.default_rng(0).normal(size=(100, 3))
BOTH = pytest.mark.parametrize("passes", [1, 2])


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "make", [np.asarray, np.asfortranarray, sp.csr_array], ids=["C", "F", "sparse"]
)
def test_a_value_that_is_not_finite_is_named_by_row_and_column(make, bad, passes, kernel):
    Y = X.copy()
    Y[41, 2] = bad
    with pytest.raises(ValueError, match=rf"row 41, column 2 is {bad}; every value must be finite"):
        lwcs.build(make(Y), 10, passes=passes)


@BOTH
def test_the_row_is_right_in_a_later_partition(passes):
    Y = np.zeros((150_000, 2), dtype=np.float32)
    Y[140_001, 1] = np.nan
    with pytest.raises(ValueError, match="row 140001, column 1 is nan"):
        lwcs.build(Y, 10, passes=passes)


def test_the_partition_is_named_where_there_are_several():
    Y = X.copy()
    Y[5, 0] = np.inf
    with pytest.raises(ValueError, match="row 5, column 0 of partition 1 is inf"):
        lwcs.build(lwcs.PartitionedSource([X, Y]), 10)


@BOTH
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_bad_value_of_a_table_is_named_by_column_name(library, passes):
    Y = {"a": X[:, 0], "b": np.where(np.arange(100) == 7, np.inf, X[:, 1])}
    with pytest.raises(ValueError, match=r"row 7, column 1 \('b'\) is inf"):
        lwcs.build(library(Y), 10, passes=passes)


@BOTH
@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1, None], dtype="Int64")}),
        pl.DataFrame({"a": [1.0, 2.0], "b": [1, None]}),
        pa.table({"a": [1.0, 2.0], "b": [1, None]}),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_a_missing_value_is_named_by_row_and_column(table, passes):
    with pytest.raises(ValueError, match="column 'b' has a missing value in row 1"):
        lwcs.build(table, 10, passes=passes)


@BOTH
def test_values_whose_squares_overflow_are_explained(passes):
    Y = X.copy()
    Y[3] = 1e200
    with pytest.raises(ValueError, match=r"so large \(up to 1e\+200\).*scale the data down"):
        lwcs.build(Y, 10, passes=passes)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (np.empty((0, 3)), ValueError, r"shape \(0, 3\); at least one row"),
        (np.empty((5, 0)), ValueError, r"shape \(5, 0\); at least one row"),
        ([], ValueError, r"shape \(0,\); pass data of shape \(n_rows, n_columns\)"),
        (pd.DataFrame({"a": []}, dtype=float), ValueError, r"shape \(0, 1\)"),
        (np.arange(5.0), ValueError, r"shape \(5,\).*X\.reshape\(-1, 1\)"),
        (np.zeros((2, 2, 2)), ValueError, r"shape \(2, 2, 2\)"),
        ([[1.0, 2.0], [3.0]], ValueError, "rows have different lengths"),
        (np.array([["a", "b"]]), TypeError, r"dtype <U1.*cannot be clustered"),
        (np.array([[object(), 1]]), TypeError, "dtype object"),
        (np.zeros((3, 2), dtype=complex), TypeError, "dtype complex128"),
        (sp.csr_array(np.zeros((3, 2), dtype=complex)), TypeError, "dtype complex128"),
        (np.zeros((3, 2), dtype="datetime64[s]"), TypeError, r"dtype datetime64\[s\]"),
        ("points.parquet", FileNotFoundError, "does not exist"),
        (None, TypeError, "type NoneType"),
        (pd.DataFrame({"t": ["x"]}), ValueError, r"no column holds numbers: 't' holds text"),
        (pd.Series([1.0, 2.0]), TypeError, "Series is not a table"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "names must be unique, but"),
    ],
)
def test_data_that_cannot_be_clustered_is_explained(data, error, message):
    with pytest.raises(error, match=message):
        lwcs.build(data, 10)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.full(100, -1.0), ValueError, r"sample_weight\[0\]=-1\.0 is not allowed.*>= 0"),
        (np.r_[np.ones(99), np.nan], ValueError, r"sample_weight\[99\]=nan"),
        (np.r_[np.ones(99), np.inf], ValueError, r"sample_weight\[99\]=inf"),
        (np.zeros(100), ValueError, "all weights are zero"),
        (np.ones(99), ValueError, r"shape \(99,\) but the data has 100 rows"),
        (np.ones((100, 1)), ValueError, r"shape \(100, 1\)"),
        (["a"] * 100, TypeError, "not numeric"),
        (np.full(100, 1e308), ValueError, "scale the weights down"),
    ],
)
@BOTH
def test_bad_weights_are_explained(weights, error, message, passes):
    with pytest.raises(error, match=message):
        lwcs.build(X, 10, sample_weight=weights, passes=passes)


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, ValueError, "size=0 is too small; pass size >= 1"),
        (-5, ValueError, "size=-5"),
        (10.0, TypeError, r"size=10\.0 is not an integer"),
        ("10", TypeError, "size='10'"),
        (True, TypeError, "size=True"),
        (None, TypeError, "size=None"),
    ],
)
def test_a_bad_size_is_explained(size, error, message):
    with pytest.raises(error, match=message):
        lwcs.build(X, size)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "lightwieght"}, ValueError, "did you mean 'lightweight'"),
        ({"method": 3}, TypeError, "not a sampler"),
        ({"passes": 3}, ValueError, r"passes=3 is not possible.*pass passes=1, 2 or 'auto'"),
        ({"passes": 0}, ValueError, "passes=0 is not a number of passes"),
        ({"passes": "2"}, ValueError, "passes='2' is not a number of passes"),
        ({"passes": True}, ValueError, "passes=True is not a number of passes"),
        ({"random_state": -1}, ValueError, "random_state=-1"),
        ({"random_state": "x"}, TypeError, "random_state='x'"),
        ({"n_jobs": 0}, ValueError, "n_jobs=0"),
        (
            {"method": lwcs.Lightweight(draws="stratified"), "passes": 1},
            ValueError,
            "passes=1 is not possible with draws='stratified'",
        ),
    ],
)
def test_bad_options_are_explained(options, error, message):
    with pytest.raises(error, match=message):
        lwcs.build(X, 10, **options)


def test_one_pass_where_two_are_needed_is_refused():
    for method in ("lightweight", "uniform"):
        with pytest.raises(ValueError, match=r"PartitionedSource.*pass passes=2"):
            lwcs.build(lwcs.PartitionedSource([X]), 10, passes=1, method=method)
    with pytest.raises(ValueError, match="scale='standard'"):
        lwcs.build(lwcs.scan(X, scale="standard"), 10, passes=1)


class Rereadable:
    """Rows that are not in memory, and can be read again."""

    def __iter__(self):
        return iter([np.abs(X)])


def accepted(data, options: dict, passes: object) -> str | None:
    """None, or the error."""
    try:
        lwcs.build(data(), 5, n_clusters=2, passes=passes, random_state=0, **options)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "data",
    [
        lambda: np.abs(X),
        Rereadable,
        lambda: iter([np.abs(X)]),
        lambda: lwcs.PartitionedSource([np.abs(X)]),
        lambda: lwcs.scan(np.abs(X), scale="standard"),
    ],
    ids=["memory", "rereadable", "once", "partitions", "scaled"],
)
@pytest.mark.parametrize("divergence", ["sqeuclidean", "kl"])
@pytest.mark.parametrize("method", ["lightweight", "uniform", "sensitivity", "refined"])
def test_the_number_of_passes_that_are_made_is_accepted_and_others_name_it(
    data, divergence, method
):
    options = {"method": method, "divergence": divergence}
    if accepted(data, options, "auto") is not None:
        return  # not possible in any number of passes
    errors = {passes: accepted(data, options, passes) for passes in range(1, 7)}
    possible = [passes for passes, error in errors.items() if error is None]
    assert possible
    for passes, error in errors.items():
        if error is not None:
            assert f"passes={passes} is not possible" in error
            assert f"pass passes={', '.join(map(str, possible))} or 'auto'" in error


def test_a_bad_draws_option_is_explained():
    with pytest.raises(ValueError, match="did you mean 'stratified'"):
        lwcs.Lightweight(draws="stratifed")


@pytest.mark.parametrize(
    ("centers", "error", "message"),
    [
        (np.zeros((2, 4)), ValueError, r"4 columns but the data has 3; pass shape \(k, 3\)"),
        (np.zeros(3), ValueError, r"shape \(3,\); pass shape \(k, 3\)"),
        (np.zeros((0, 3)), ValueError, "centers are empty"),
        ([[0.0, np.nan, 0.0]], ValueError, r"centers\[0, 1\]=nan"),
        ([["a", "b", "c"]], TypeError, "centers have dtype"),
    ],
)
def test_bad_centers_are_explained(centers, error, message):
    with pytest.raises(error, match=message):
        lwcs.build(X, 10).cost(centers)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": ["a", "z"]}, ValueError, "column='z' is not one of 'a', 'b'"),
        ({"weight": "z"}, ValueError, "column='z'"),
        ({"columns": []}, ValueError, "no column is selected"),
        ({"scale": "standart"}, ValueError, "did you mean 'standard'"),
    ],
)
def test_bad_scan_options_are_explained(options, error, message):
    with pytest.raises(error, match=message):
        lwcs.scan(pd.DataFrame({"a": [1.0], "b": [2.0]}), **options)


def test_columns_of_an_array_are_refused():
    with pytest.raises(TypeError, match="index the array"):
        lwcs.scan(X, columns=["a"])


def test_options_for_a_source_are_refused():
    with pytest.raises(ValueError, match="is a Source already"):
        lwcs.build(lwcs.scan(X), 10, sample_weight=np.ones(100))


@pytest.mark.parametrize("bad", [np.nan, 1e200])
def test_the_right_row_is_blamed_where_much_of_the_data_is_bad(bad):
    Y = np.zeros((150_000, 2))
    Y[100_000:, 1] = bad
    with pytest.raises(ValueError, match=r"row 1[0-4]\d{4}") as raised:
        lwcs.build(Y, 10, passes=1, random_state=0)
    assert "nan" in str(raised.value) or "up to 1e+200" in str(raised.value)


def test_values_whose_squares_underflow_are_explained():
    Y = X * 1e-155
    for data in (Y, sp.csr_array(Y), lwcs.scan(Y, scale="standard")):
        with pytest.raises(ValueError, match="underflow; scale the data up"):
            lwcs.build(data, 10)


def test_masked_arrays_are_refused():
    masked = np.ma.masked_less(X, 0)
    with pytest.raises(TypeError, match=r"masked array.*\.filled"):
        lwcs.build(masked, 10)
    with pytest.raises(TypeError, match="masked array"):
        lwcs.build(X, 10, sample_weight=masked[:, 0])
    with pytest.raises(TypeError, match="masked array"):
        lwcs.build(X, 10).cost(masked[:2])


def test_a_sparse_matrix_with_damaged_indices_is_refused(kernel):
    damaged = sp.csr_array(X)
    damaged.indices[5] = 10**6
    with pytest.raises(ValueError, match="structure of the sparse data is damaged"):
        lwcs.build(damaged, 10)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=[0, "0"]), {}, "'0' occurs more than once"),
        (pd.DataFrame({"a": [1]}), {"columns": ["a", "a"]}, "'a' is given more than once"),
        (
            pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
            {},
            "several levels",
        ),
        (pl.DataFrame({"a": [1, 2], "w": [1, None]}), {"weight": "w"}, "missing value in row 1"),
    ],
)
def test_tables_that_cannot_be_read_are_explained(table, options, message):
    with pytest.raises(ValueError, match=message):
        lwcs.scan(table, **options)


def test_partitions_that_do_not_match_are_refused():
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    turned = lwcs.PartitionedSource([frame, frame[["b", "a"]]])
    assert {tuple(row) for row in lwcs.build(turned, 10).points} == {(1.0, 2.0)}
    with pytest.raises(ValueError, match="there is no column 'b'"):
        lwcs.PartitionedSource([frame, frame[["a"]]])
    with pytest.raises(ValueError, match="must be of one type"):
        lwcs.PartitionedSource([X, sp.csr_array(X)])
    with pytest.raises(ValueError, match="did you mean 'standard'"):
        lwcs.PartitionedSource([X], scale="standart")
    with pytest.raises(ValueError, match="scale of its own"):
        lwcs.PartitionedSource([lwcs.scan(X, scale="standard")])
    with pytest.raises(ValueError, match="partition 1 has 2 columns but partition 0 has 3"):
        lwcs.PartitionedSource([X, X[:, :2]])
    with pytest.raises(ValueError, match="weights for all partitions or for none"):
        lwcs.PartitionedSource([X, lwcs.scan(X, weight=np.ones(100))])
    for parts in ([], [np.empty((0, 3))]):
        with pytest.raises(ValueError, match="partitions"):
            lwcs.PartitionedSource(parts)

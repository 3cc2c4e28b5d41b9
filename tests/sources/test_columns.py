"""Which columns are features: the same answer for every container."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lwcs
from tests.sources.containers import CONTAINERS, WITH_VECTORS

N = 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
E = RNG.normal(size=(N, 4)).astype(np.float32)
everywhere = pytest.mark.parametrize("container", CONTAINERS)
with_vectors = pytest.mark.parametrize("container", WITH_VECTORS)


def put(container, columns, tmp_path):
    return CONTAINERS[container](pa.table(columns), tmp_path)


def lists(kind):
    flat = pa.array(E.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, 4)
    offsets = pa.array(np.arange(0, 4 * N + 1, 4))
    return {"list": pa.ListArray, "large": pa.LargeListArray}[kind].from_arrays(
        offsets.cast(pa.int32()) if kind == "list" else offsets, flat
    )


MIXED = {
    "age": X[:, 0],
    "member": pa.array([i % 2 == 0 for i in range(N)]),
    "name": ["n"] * N,
    "joined": pa.array([datetime.date(2024, 1, 1)] * N),
    "income": X[:, 1],
}


@everywhere
def test_the_same_table_has_the_same_features_and_names_what_it_leaves_out(container, tmp_path):
    with pytest.warns(lwcs.ColumnWarning, match=r"2 of 5 columns.*'name'.*'joined'") as caught:
        source = lwcs.scan(put(container, MIXED, tmp_path))
    assert len(caught) == 1
    assert "exclude=['name', 'joined']" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert source.feature_names == ("age", "member", "income")
    assert source.skipped == ("name", "joined")
    coreset = lwcs.build(source, 50, random_state=0)
    expected = np.stack([X[:, 0], np.arange(N) % 2 == 0, X[:, 1]], axis=1)
    np.testing.assert_allclose(coreset.points, expected[coreset.indices], rtol=1e-15)


@everywhere
def test_columns_are_chosen_and_left_out_by_name_and_pattern(container, tmp_path):
    columns = {"x1": X[:, 0], "x2": X[:, 1], "y": X[:, 2], "name": ["n"] * N}

    def features(**options):
        return lwcs.scan(put(container, columns, tmp_path), **options).feature_names

    assert features(exclude="name") == ("x1", "x2", "y")
    assert features(exclude=["name", "x*"]) == ("y",)
    assert features(columns=["y", "x*"], exclude="x1") == ("y", "x2")
    assert features(columns="x*") == ("x1", "x2")
    with pytest.raises(ValueError, match="did you mean 'name'"):
        features(exclude="nmae")
    with pytest.raises(ValueError, match="no column is selected"):
        features(columns="y", exclude="y")
    with pytest.raises(TypeError, match=r"'name' holds text.*not numbers"):
        features(columns=["y", "name"])


@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
@with_vectors
def test_a_column_of_vectors_is_used_and_the_numbers_beside_it_are_not(container, kind, tmp_path):
    columns = {"id": np.arange(N), "emb": lists(kind), "title": ["t"] * N}
    with pytest.warns(
        lwcs.ColumnWarning, match=r"'id' \(numbers beside the vectors of 'emb'\); 'title' \(text\)"
    ):
        source = lwcs.scan(put(container, columns, tmp_path))
    assert source.feature_names == ("emb[0]", "emb[1]", "emb[2]", "emb[3]")
    coreset = lwcs.build(source, 50, random_state=0)
    np.testing.assert_array_equal(coreset.points, E[coreset.indices])


@with_vectors
def test_numbers_and_vectors_that_are_named_are_used_side_by_side(container, tmp_path):
    columns = {"a": X[:, 0], "emb": lists("list"), "b": X[:, 1].astype(np.float32)}
    source = lwcs.scan(put(container, columns, tmp_path), columns=["b", "emb", "a"])
    assert source.feature_names == ("b", "emb[0]", "emb[1]", "emb[2]", "emb[3]", "a")
    coreset = lwcs.build(source, 50, random_state=0)
    whole = np.column_stack([X[:, 1].astype(np.float32), E, X[:, 0]])
    np.testing.assert_array_equal(coreset.points, whole[coreset.indices])


@with_vectors
def test_vectors_of_another_length_are_named_or_left_out(container, tmp_path):
    ragged = [[1.0, 2.0]] * N
    ragged[1] = [1.0]
    columns = {"tags": ragged, "x": X[:, 0], "y": X[:, 1]}
    with pytest.warns(lwcs.ColumnWarning, match=r"'tags' \(lists of different lengths \(1, 2"):
        assert lwcs.scan(put(container, columns, tmp_path)).feature_names == ("x", "y")
    late = [[1.0, 2.0]] * N
    late[333] = [1.0, 2.0, 3.0]
    columns = {"v": late}
    with pytest.raises(ValueError, match=r"'v' holds a vector of length 3 in row \d+.*where 2 is"):
        lwcs.build(lwcs.scan(put(container, columns, tmp_path), columns="v"), 10)


@with_vectors
def test_two_columns_of_vectors_are_a_choice_for_the_user(container, tmp_path):
    columns = {"u": lists("list"), "v": lists("fixed")}
    with pytest.raises(ValueError, match=r"'u', 'v' hold vectors; name the one"):
        lwcs.scan(put(container, columns, tmp_path))
    assert lwcs.scan(put(container, columns, tmp_path), columns=["v", "u"]).n_features == 8


@everywhere
def test_identifiers_are_named_by_a_warning(container, tmp_path):
    order = np.random.default_rng(1).permutation(10 * N)[:N]
    columns = {"customerId": order % 7, "x": X[:, 0], "y": X[:, 1]}
    with pytest.warns(lwcs.ColumnWarning, match=r"'customerId' looks.*exclude=\['customerId'\]"):
        lwcs.build(put(container, columns, tmp_path), 10)
    columns = {"nr": np.arange(N)[::-1] + 5, "x": X[:, 0], "y": X[:, 1]}
    with pytest.warns(lwcs.ColumnWarning, match=r"'nr' looks like an identifier"):
        lwcs.build(put(container, columns, tmp_path), 10)
    # Named, or one that repeats: no word.
    lwcs.build(lwcs.scan(put(container, columns, tmp_path), columns=["nr", "x"]), 10)
    lwcs.build(put(container, columns | {"nr": order % 7}, tmp_path), 10)


@pytest.mark.parametrize(
    ("values", "is_one"),
    [
        (np.random.default_rng(2).permutation(5_000) + 100_000, True),
        (np.random.default_rng(2).choice(10**9, 5_000, replace=False), True),
        # Amounts in whole numbers, also in order, as lists of the largest are.
        (np.unique(np.random.default_rng(2).lognormal(23.0, 1.5, 5_000).astype(int)), False),
        (np.unique(np.random.default_rng(2).normal(1e9, 2e8, 5_000).astype(int))[::-1], False),
    ],
)
def test_amounts_that_never_repeat_are_no_identifiers(values, is_one):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"market_cap": values, "x": rng.normal(size=len(values)) * values.std()})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lwcs.scan(frame)
    assert ["'market_cap' looks like an identifier" in str(each.message) for each in said] == (
        [True] if is_one else []
    )


def test_columns_of_one_kind_share_a_reason(tmp_path):
    rows = (f'{i}.5,2024-01-{i:02},{i % 12 + 1:02}.05.2023,"{i},000","{i + 1},001"'
            for i in range(1, 28))  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(["x,joined,left,paid,owed", *rows]))
    with pytest.warns(lwcs.ColumnWarning, match="4 of 5 columns") as said:
        lwcs.scan(tmp_path / "t.csv")
    assert len(said) == 1
    text = str(said[0].message)
    assert "'joined', 'left' (dates or times, for example '2024-01-01' in row 0; read" in text
    assert "'paid', 'owed' (text, although 27 of the first 27 values can be read" in text
    assert text.count("thousands=','") == 1


@pytest.mark.parametrize(
    ("name", "is_one"),
    [(name, True) for name in ("id", "user_id", "userID", "ID", "uuid", "id_client", "index")]
    + [(name, True) for name in ("Unnamed: 0", "row_number")]
    + [(name, False) for name in ("idle", "paid", "body_mass_index", "key", "identity")],
)
def test_names_of_identifiers(name, is_one):
    from lwcs.sources.column_types import named_like_identifier

    assert named_like_identifier(name) == is_one


@everywhere
def test_rows_with_gaps_are_dropped_and_counted(container, tmp_path):
    gaps = [None if i in (3, 250) else float(x) for i, x in enumerate(X[:, 0])]
    columns = {"x": gaps, "y": X[:, 1]}
    coreset = lwcs.build(
        lwcs.scan(put(container, columns, tmp_path), missing="drop"), 3_000, random_state=0
    )
    assert coreset.details["dropped"] == 2
    assert coreset.total_weight == N - 2
    assert coreset.n_samples == N - 2
    assert not {3, 250} & set(coreset.indices)
    np.testing.assert_allclose(coreset.points, X[coreset.indices, :2])
    with pytest.raises(ValueError, match=r"'x' has a missing value in row 3|row 3.* is nan"):
        lwcs.build(put(container, columns, tmp_path), 10)
    columns = {"x": [None] * N, "y": X[:, 1]}
    columns["x"] = pa.array([None] * N, pa.float64())
    with pytest.raises(ValueError, match="every row has a missing value"):
        lwcs.build(
            lwcs.scan(put(container, columns, tmp_path), columns=["x", "y"], missing="drop"), 10
        )


@pytest.mark.parametrize("rows", [X, X.astype(np.float32)])
@pytest.mark.parametrize("make", [np.asarray, "csr", list, "generator"])
def test_rows_with_nan_are_dropped_from_arrays_too(rows, make):
    import scipy.sparse as sp

    gaps = rows.copy()
    gaps[7, 1] = np.nan
    data = gaps if make is np.asarray else sp.csr_array(gaps) if make == "csr" else gaps.tolist()
    if make == "generator":
        data = (gaps[a : a + 50] for a in range(0, N, 50))
    coreset = lwcs.build(lwcs.scan(data, missing="drop"), 3_000, random_state=0)
    assert coreset.details["dropped"] == 1
    assert coreset.total_weight == N - 1
    assert 7 not in coreset.indices
    if make is np.asarray:
        model = lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(gaps, missing="drop"))
        assert model.labels_[7] == -1
        assert (np.delete(model.labels_, 7) >= 0).all()
        assert np.isnan(model.transform(lwcs.scan(gaps, missing="drop"))[7]).all()
        assert np.isfinite(model.cluster_centers_).all()


def test_dropped_rows_are_in_no_summary_of_few_rows():
    gaps = X.copy()
    gaps[5, 0] = np.nan
    model = lwcs.CoresetKMeans(5, random_state=0).fit(lwcs.scan(gaps[:100], missing="drop"))
    assert model.coreset_.method == "all rows"
    assert model.coreset_.details["dropped"] == 1
    assert len(model.coreset_.weights) == 99
    assert model.coreset_.total_weight == 99


@everywhere
def test_a_model_finds_its_columns_by_name(container, tmp_path):
    columns = {"nr": ["a"] * N, "y": X[:, 1], "z": X[:, 2], "x": X[:, 0]}
    source = lwcs.scan(put(container, columns, tmp_path), columns=["x", "y"])
    model = lwcs.CoresetKMeans(4, random_state=0).fit(source)
    assert list(model.feature_names_in_) == ["x", "y"]
    expected = lwcs.CoresetKMeans(4, init=model.cluster_centers_).fit(X[:, :2]).predict(X[:, :2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict(put(container, columns, tmp_path))
    nearest = ((X[:, None, :2] - model.cluster_centers_) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(found, nearest)
    assert len(expected) == len(found)
    del columns["x"]
    with pytest.raises(ValueError, match="no column 'x', one of the feature names"):
        model.predict(put(container, columns, tmp_path))


@with_vectors
def test_a_model_of_vectors_finds_them_by_name(container, tmp_path):
    columns = {"id": np.arange(N), "emb": lists("list")}
    model = lwcs.CoresetKMeans(3, random_state=0)
    model.fit(lwcs.scan(put(container, columns, tmp_path), columns="emb"))
    apart = {f"emb[{j}]": E[:, j] for j in range(4)} | {"id": np.arange(N)}
    np.testing.assert_array_equal(
        model.predict(put(container, columns, tmp_path)),
        model.predict(put(container, apart, tmp_path)),
    )


@pytest.mark.parametrize("container", [c for c in CONTAINERS if c != "CSV"])
def test_decimals_are_the_nearest_numbers(container, tmp_path):
    values = [Decimal(int(v)).scaleb(-4) for v in RNG.integers(-(10**12), 10**12, N)]
    columns = {"d": pa.array(values, pa.decimal128(20, 4)), "x": X[:, 0]}
    coreset = lwcs.build(put(container, columns, tmp_path), 200, random_state=0)
    expected = np.array([float(value) for value in values])
    np.testing.assert_array_equal(coreset.points[:, 0], expected[coreset.indices])


@pytest.mark.parametrize(
    ("series", "holds"),
    [
        (pd.Series(["a", "b"] * 5, dtype="category"), "categories.*skrub.TableVectorizer"),
        (pd.Series([1, 2] * 5, dtype="category"), "categories"),
        (
            pd.Series(pd.date_range("2024", periods=10)),
            "dates.*1970 with .*dates='days'",
        ),
        (pd.Series(pd.to_timedelta(range(10), unit="s")), "durations.*seconds"),
        (pd.Series(["a", 1.0] * 5, dtype=object), "Python objects .float, str."),
        (pd.Series([1j] * 10), "complex numbers"),
        (pl.Series([b"x"] * 10), "bytes"),
        (pl.Series([{"a": 1}] * 10), "records"),
        (pl.Series([["a"]] * 10), "lists of text"),
    ],
)
def test_a_column_says_what_it_holds_and_how_it_becomes_numbers(series, holds):
    frame = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}[type(series)](
        {"c": series, "x": np.arange(10.0)}
    )
    with pytest.raises(TypeError, match=f"column 'c' holds {holds}"):
        lwcs.scan(frame, columns=["c", "x"])
    with pytest.warns(lwcs.ColumnWarning, match=f"'c' .{holds.split('.*')[0]}"):
        assert lwcs.scan(frame).feature_names == ("x",)


def test_nullable_types_and_objects_of_numbers_are_numbers():
    frame = pd.DataFrame(
        {
            "i": pd.array([1, 2, None] * 5, dtype="Int64"),
            "f": pd.array([1.5, None, 2.0] * 5, dtype="Float64"),
            "b": pd.array([True, None, False] * 5, dtype="boolean"),
            "o": pd.Series([1, 2, 3] * 5, dtype=object),
        }
    )
    full = frame.iloc[::3]
    coreset = lwcs.build(full, 50, random_state=0)
    assert coreset.feature_names == ("i", "f", "b", "o")
    np.testing.assert_array_equal(coreset.points[0], [1.0, 1.5, 1.0, 1.0])
    with pytest.raises(ValueError, match="'f' has a missing value in row 1, the first of 10 such"):
        lwcs.build(frame, 50)
    kept = lwcs.build(lwcs.scan(frame, missing="drop"), 50, random_state=0)
    assert kept.details["dropped"] == 10
    assert (kept.indices % 3 == 0).all()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_the_first_missing_value_is_named_and_they_are_counted(library):
    rows = np.random.default_rng(3).normal(size=(200_000, 2))
    rows[[26, 429, 869, 150_000], [1, 0, 0, 1]] = np.nan
    frame = library({"a": rows[:, 0], "b": rows[:, 1]})
    for seed in range(3):
        with pytest.raises(ValueError, match=r"'b'\)? .*row 26\b|row 26,.*'b'"):
            lwcs.build(frame, 100, random_state=seed)


def test_masked_arrays_are_refused_everywhere():
    masked = np.ma.masked_array(X, X > 2)
    for take in (
        lambda: lwcs.build(masked, 10),
        lambda: lwcs.CoresetKMeans(2).fit(masked),
        lambda: lwcs.CoresetKMeans(2).partial_fit(masked),
        lambda: lwcs.CoresetKMeans(2).fit(X).predict(masked),
        lambda: lwcs.CoresetMixture(2).fit(masked),
        lambda: lwcs.StreamingCoreset(10).update(masked),
        lambda: lwcs.build(iter([masked]), 10),
    ):
        with pytest.raises(TypeError, match="masked array"):
            take()


@pytest.mark.parametrize("again", [False, True])
def test_an_iterator_may_fill_the_same_array_again(again):
    def batches():
        buffer = np.empty((100, 2))
        for i in range(50):
            buffer[:] = i
            yield buffer

    class Again:
        def __iter__(self):
            return batches()

    coreset = lwcs.build(Again() if again else batches(), 5_000, random_state=0)
    assert coreset.mean == pytest.approx([24.5, 24.5])
    np.testing.assert_array_equal(coreset.points[:, 0], coreset.indices // 100)


def test_batches_that_do_not_fit_the_dtype_of_the_first_are_refused():
    first = np.ones((5, 2), np.float32)
    with pytest.raises(ValueError, match="batch 1 holds int64, which does not fit into"):
        lwcs.build(iter([first, np.full((5, 2), 2**24 + 1)]), 10)

"""Columns that have most of all distances, and columns that say the same, are named."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.arrays.rows import weighted_moments
from lwcs.statistics.column_shares import alike, dominating
from tests.cli.running import run

N = 12_000
RNG = np.random.default_rng(0)
SHARES = RNG.random((N, 4))
REVENUE = RNG.lognormal(20.0, 1.0, N)
FRAME = pd.DataFrame(SHARES, columns=list("abcd")).assign(revenue=REVENUE)


def fitted(rows, **options):
    return lwcs.CoresetKMeans(5, random_state=0, **options).fit(rows)


def silently(rows, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fitted(rows, **options)


def test_the_column_that_makes_all_distances_is_named_with_its_share_and_what_mends_it():
    with pytest.warns(lwcs.ColumnWarning, match=r"'revenue' has 100 %.*scale='standard'") as said:
        model = fitted(FRAME)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert model.diagnosis_.columns == {"revenue": pytest.approx(1.0)}
    assert "Column 'revenue' has 100 % of all squared distances" in str(model.diagnosis_)


@pytest.mark.parametrize("make", [pd.DataFrame.to_numpy, lambda frame: sp.csr_array(frame)])
def test_a_column_without_a_name_is_called_by_its_number(make):
    with pytest.warns(lwcs.ColumnWarning, match="column 4 has 100 % of all squared distances"):
        assert fitted(make(FRAME)).diagnosis_.columns.keys() == {"4"}


def test_two_columns_of_many_are_named_together():
    frame = FRAME.assign(profit=RNG.permutation(REVENUE))
    with pytest.warns(lwcs.ColumnWarning, match=r"columns 'revenue' and 'profit' have 100 %") as _:
        found = fitted(frame[["a", "revenue", "b", "profit"]]).diagnosis_.columns
    assert sum(found.values()) == pytest.approx(1.0)


def test_what_mends_it_mends_it():
    model = silently(lwcs.scan(FRAME, scale="standard"))
    assert model.diagnosis_.columns == {}


def test_clusters_along_one_column_of_one_unit_are_no_slices():
    centers = np.zeros((5, 4))
    centers[:, 2] = np.arange(5) * 100.0
    rows = centers[RNG.integers(0, 5, N)] + RNG.normal(size=(N, 4))
    assert rows.var(axis=0)[2] > 0.99 * rows.var(axis=0).sum()
    assert silently(rows).diagnosis_.columns == {}


@pytest.mark.parametrize(
    ("variances", "found"),
    [
        ([1.0], []),
        ([1.0, 0.0, 0.0], []),
        ([95.0, 5.0], [0]),
        ([5.0, 50.0, 45.0], []),
        ([4.0, 50.0, 45.0, 1.0], [1, 2]),
        ([1.0, 1.0, 1.0, 1.0], []),
    ],
)
def test_there_must_be_as_many_columns_that_hardly_count(variances, found):
    assert dominating(np.array(variances)).tolist() == found


def test_other_divergences_have_their_own_units():
    rows = lwcs.scan(FRAME[["a", "b", "revenue"]])
    assert silently(rows, divergence="itakura_saito").diagnosis_.columns == {}


def test_files_inspect_and_the_report_know_of_it(tmp_path):
    data, model, page = (str(tmp_path / name) for name in ("t.parquet", "m.parquet", "r.html"))
    FRAME.to_parquet(data)
    code, _, said = run("fit", data, "-k", "5", "-o", model, "--seed", "0", "--report", page)
    assert code == 0
    assert "column 'revenue' has 100 % of all squared distances" in said
    assert "standard deviations with --standardize" in said
    assert lwcs.load(model).diagnosis_.columns == {"revenue": pytest.approx(1.0)}
    facts = json.loads(run("inspect", model, "--json")[1])
    assert "Column 'revenue' has 100 %" in facts["diagnosis"]["words"]
    with open(page, encoding="utf-8") as file:
        assert "of all squared distances, so that the clusters are slices of it" in file.read()


def test_columns_that_say_the_same_are_named_unless_they_were_chosen():
    frame = FRAME[["a", "b"]].assign(twice=2.0 * FRAME["a"] + 1.0, minus=-FRAME["b"])
    with pytest.warns(lwcs.ColumnWarning, match="'a' and 'twice'; 'b' and 'minus' say") as said:
        fitted(frame)
    assert len(said) == 1
    assert "exclude=['twice', 'minus']" in str(said[0].message)
    silently(lwcs.scan(frame, columns=["a", "b", "twice"]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_columns_of_equal_values_count_for_nothing(make, dtype):
    rows = np.column_stack([RNG.normal(size=N), *np.full((3, N), [[0.1], [0.7], [1e15]])])
    # Nor do columns whose values differ by how they were computed.
    rows[:, 3] += rows[:, 3] * np.finfo(dtype).eps * RNG.integers(-1, 2, N)
    rows[:, 2] = np.nextafter(rows[:, 3].astype(dtype), 0.0) / np.asarray(1e15, dtype)
    assert silently(make(rows.astype(dtype))).diagnosis_.columns == {}
    assert alike(rows.astype(dtype), np.ones(N)) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments_of_sparse_rows_are_those_of_dense_ones(dtype):
    weights = RNG.random(N)
    weights[:3] = 0.0
    rows = np.column_stack([RNG.normal(size=N) + 1e4, RNG.poisson(0.1, N), *np.full((2, N), 0.1)])
    # A row without weight counts neither as a value nor as a zero.
    rows[0, 2], rows[0, 3] = 0.0, 5.0
    rows = rows.astype(dtype)
    dense, sparse = (weighted_moments(make(rows), weights) for make in (np.asarray, sp.csr_array))
    np.testing.assert_allclose(sparse, dense, rtol=1e-9)
    assert sparse[1][2:].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(sparse[0], np.average(rows.astype(float), axis=0, weights=weights))


def test_one_row_far_away_does_not_make_columns_alike():
    rows = RNG.normal(size=(N, 3))
    rows[0] = 1e6
    assert np.corrcoef(rows.T)[0, 1] > 0.999
    assert alike(rows, np.ones(N)) == []
    # Nor do flags of a single row, which are 0 everywhere else.
    flags = np.zeros((N, 2))
    flags[7] = 1.0
    assert alike(flags, np.ones(N)) == []
    assert alike(np.column_stack([rows[:, 0], flags[:, 0], rows[:, 0]]), np.ones(N)) == [(0, 2)]


def test_a_second_column_that_takes_over_once_the_first_is_cut_is_named_with_it():
    frame = FRAME.assign(points=1e9 * RNG.random(N))
    assert frame["revenue"].var() > 0.9 * frame.var().sum()
    with pytest.warns(lwcs.ColumnWarning, match=r"columns 'revenue' and 'points' have 100 %"):
        found = fitted(frame).diagnosis_.columns
    assert found["revenue"] > 0.9 > 0.1 > found["points"]


def test_noise_of_unequal_size_beside_separated_clusters_is_no_second_column():
    centers = np.zeros((5, 6))
    centers[:, 2] = np.arange(5) * 100.0
    rows = centers[RNG.integers(0, 5, N)] + RNG.normal(size=(N, 6)) * [2.0, 1, 1, 1, 1, 1]
    assert silently(rows).diagnosis_.columns == {}


def test_a_coreset_of_such_a_table_and_a_choice_of_k_say_it_too(tmp_path):
    words = r"column 'revenue' has 100 %.*scale='standard'"
    coreset = lwcs.build(FRAME, 2_000, random_state=0)
    with pytest.warns(lwcs.ColumnWarning, match=words):
        assert fitted(coreset).diagnosis_.columns.keys() == {"revenue"}
    with pytest.warns(lwcs.ColumnWarning, match=words) as said:
        lwcs.choose_k(FRAME, range(2, 5), n_bootstrap=2, random_state=0)
    assert len(said) == 1
    FRAME.to_parquet(tmp_path / "t.parquet")
    _, _, said = run("choose-k", str(tmp_path / "t.parquet"), "-k", "2-4", "--bootstrap", "2")
    assert "column 'revenue' has 100 % of all squared distances" in said
    assert "with --standardize" in said


def test_a_choice_among_clusters_along_one_column_is_silent():
    centers = np.zeros((5, 4))
    centers[:, 2] = np.arange(5) * 100.0
    rows = centers[RNG.integers(0, 5, N)] + RNG.normal(size=(N, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lwcs.choose_k(rows, range(2, 8), random_state=0).k == 5

"""Whole numbers that are not the same in float64 are a warning, once, wherever they come from."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.arrays.checks import loses_digits

BASE = 2**60
FLOATS = 300.0 * np.random.default_rng(0).random(150)
LARGE = BASE + np.arange(300, dtype=np.int64).reshape(-1, 2)


def columns(**more: np.ndarray) -> dict[str, np.ndarray]:
    return {"a": LARGE[:, 0], "b": LARGE[:, 1] - BASE, **more}


def as_csv(folder) -> str:
    path = folder / "x.csv"
    pd.DataFrame(columns()).to_csv(path, index=False)
    return str(path)


def as_parquet(folder, **more) -> str:
    path = folder / "x.parquet"
    pq.write_table(pa.table(columns(**more)), path)
    return str(path)


def as_npy(folder) -> str:
    np.save(folder / "x.npy", LARGE)
    return str(folder / "x.npy")


KINDS = {
    "array": lambda _: LARGE,
    "unsigned": lambda _: LARGE.astype(np.uint64),
    "objects": lambda _: LARGE.astype(object),
    "list": lambda _: LARGE.tolist(),
    "sparse": lambda _: sp.csr_array(LARGE),
    "pandas": lambda _: pd.DataFrame(columns()),
    "pandas, with floats": lambda _: pd.DataFrame(columns(c=FLOATS)),
    "polars": lambda _: pl.DataFrame(columns()),
    "pyarrow": lambda _: pa.table(columns()),
    "npy": as_npy,
    "parquet": as_parquet,
    "parquet, with floats": lambda folder: as_parquet(folder, c=FLOATS),
    "csv": as_csv,
}
ENTRIES = {
    "fit": lambda data: lwcs.CoresetKMeans(2, random_state=0).fit(data),
    "build": lambda data: lwcs.build(data, 50, random_state=0),
}


@pytest.mark.filterwarnings("ignore:columns? .* identifier")
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kind", KINDS)
def test_lost_digits_are_one_warning(kind, entry, tmp_path):
    data = KINDS[kind](tmp_path)
    with pytest.warns(UserWarning, match=r"whole numbers beyond 2\*\*53") as found:
        ENTRIES[entry](data)
    said = [str(each.message) for each in found if "2**53" in str(each.message)]
    assert len(said) == 1
    named = kind.split(",")[0] in ("pandas", "polars", "pyarrow", "parquet", "csv")
    assert said[0].startswith("column 'a' has" if named else "the data has")
    assert found[0].filename == __file__


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "objects"])
def test_check_says_it_before_a_fit_does(kind, tmp_path):
    said = [each for each in lwcs.check(KINDS[kind](tmp_path)).words() if "2**53" in each]
    assert len(said) == 1
    named = kind.split(",")[0] in ("pandas", "polars", "pyarrow", "parquet", "csv")
    assert said[0].startswith("Column 'a' has" if named else "The data has")


@pytest.mark.parametrize(
    "values",
    [
        np.array([[2**53, -(2**53)]]),
        np.array([[2**60, 2**62]]),
        np.array([[1e300, 2.0**60 + 1e6]]),
        np.array([[3, 4]], dtype=np.int8),
        np.array([[2**63]], dtype=np.uint64),
    ],
)
def test_numbers_that_are_the_same_in_float64_are_none(values):
    assert not loses_digits(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lwcs.scan(np.repeat(values, 3, axis=0))
        lwcs.build(np.repeat(values[:, :1], 3, axis=0), 3, random_state=0)


@pytest.mark.parametrize(
    "value", [2**53 + 1, -(2**53) - 1, 2**60 + 1, 2**63 - 1, -(2**63) + 1, 2**62 + 2**9]
)
def test_the_first_number_that_is_not_the_same_is_found(value):
    assert float(value) != value or int(float(value)) != value
    assert loses_digits(np.array([1, value], dtype=np.int64))

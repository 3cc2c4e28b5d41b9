"""Labels and costs at random ranges: an exponent for every column, or for every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from . import cases, oracle

FIXED = settings(
    derandomize=True, max_examples=40, deadline=None, database=None, phases=[Phase.generate]
)
SEEDS = st.integers(0, 2**31)
CONTAINER = st.sampled_from(cases.CONTAINERS)
EXPONENTS = {"float32": 30, "float64": 100}
DTYPES = pytest.mark.parametrize("dtype", list(EXPONENTS))
POSITIVE = {"kl": cases.KL, "itakura_saito": cases.IS}


def check(
    rows: np.ndarray, centers: np.ndarray, by: object, exact: oracle.Exact, container: str
) -> None:
    data, dtype = cases.contained(rows, container), rows.dtype.name
    model = cases.model_with(data, centers, by)
    exact.assert_nearest(model.predict(data), oracle.LABELS[dtype])
    oracle.assert_cost(-model.score(data), exact.cost(), oracle.COSTS[dtype])
    distances = model.transform(data)
    exact.assert_nearest(np.argmin(distances, axis=1), oracle.LABELS[dtype])


def tens(draw: st.DrawFn, size: int, dtype: str) -> np.ndarray:
    most = EXPONENTS[dtype]
    found = draw(st.lists(st.integers(-most, most), min_size=size, max_size=size))
    return 10.0 ** np.array(found, dtype=np.float64)


@DTYPES
@FIXED
@given(data=st.data(), seed=SEEDS, container=CONTAINER)
def test_small_columns_decide_where_large_ones_are_equal(
    dtype: str, data: st.DataObject, seed: int, container: str
) -> None:
    rng, size = np.random.default_rng(seed), tens(data.draw, 4, dtype)
    levels = np.array([0.0, 1.3, 2.9])
    rows = (levels[rng.integers(0, 3, (60, 4))] * size).astype(dtype)
    centers = (levels[rng.integers(0, 3, (5, 4))] * size).astype(dtype).astype(np.float64)
    if not rows.any():
        return
    check(rows, centers, "sqeuclidean", oracle.squared(rows, centers), container)


@DTYPES
@FIXED
@given(data=st.data(), seed=SEEDS, container=CONTAINER)
def test_every_row_has_its_own_range(
    dtype: str, data: st.DataObject, seed: int, container: str
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 4)) * tens(data.draw, 40, dtype)[:, None]
    centers = rng.normal(size=(5, 4)) * tens(data.draw, 5, dtype)[:, None]
    rows, centers = rows.astype(dtype), centers.astype(dtype).astype(np.float64)
    check(rows, centers, "sqeuclidean", oracle.squared(rows, centers), container)


@pytest.mark.parametrize("name", list(POSITIVE))
@FIXED
@given(data=st.data(), seed=SEEDS, container=CONTAINER, by_row=st.booleans())
def test_positive_rows_of_any_range(
    name: str, data: st.DataObject, seed: int, container: str, by_row: bool
) -> None:
    rng = np.random.default_rng(seed)
    sizes = tens(data.draw, 24, "float32")
    rows, centers = rng.gamma(2.0, size=(20, 4)), rng.gamma(2.0, size=(4, 4))
    if by_row:
        rows, centers = rows * sizes[:20, None], centers * sizes[20:, None]
    else:
        rows, centers = rows * sizes[:4], centers * sizes[:4]
    exact = oracle.divergence(name, rows, centers)
    check(rows, centers, POSITIVE[name], exact, container)

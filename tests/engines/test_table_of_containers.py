"""The rows of the table in docs/guide/tables.md that need an engine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.sources.test_table_of_containers import NUMBERS, TRIALS, N, array, cells, verdict

HOSTS = {
    "Dask array": "dask",
    "Dask DataFrame": "dask table",
    "Spark DataFrame": "spark",
    "Ray Dataset": "ray",
}


@pytest.fixture(autouse=True)
def lists_stay_lists():
    """Dask turns Python objects into text unless it is told not to."""
    dask = pytest.importorskip("dask")
    with dask.config.set({"dataframe.convert-string": False}):
        yield


@pytest.mark.parametrize(("data", "what", "cell"), [cell for cell in cells() if cell[0] in HOSTS])
def test_every_cell_is_true(data, what, cell, started):
    host = started(HOSTS[data])

    def make(columns):
        if data == "Dask array":
            rows = array(columns)
            return host.arrays([rows[: N // 2], rows[N // 2 :]])
        whole = pa.table(columns)
        return host.tables([whole.slice(0, N // 2), whole.slice(N // 2)])

    more = {}
    if what == "`weight=`" and data.startswith("Dask"):
        import dask.array as da
        import dask.dataframe as dd
        import pandas as pd

        weights = np.asarray(NUMBERS["y"])
        more["weights"] = (
            da.from_array(weights, chunks=N // 2)
            if data == "Dask array"
            else dd.from_map(
                lambda start: pd.Series(weights[start : start + N // 2], name="w"),
                [0, N // 2],
                meta=pd.Series(dtype=float, name="w"),
            )
        )
    assert verdict(TRIALS[what], make, **more) == cell

"""Tables of many columns are read in one look at their names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lwcs.storage.arrow_tables import feature_columns, points_of


class Counting:
    """A table that counts how often it is asked for the names of its columns."""

    def __init__(self, table):
        self.table, self.looks = table, 0

    @property
    def column_names(self):
        self.looks += 1
        return self.table.column_names

    def column(self, at):
        assert isinstance(at, int)
        return self.table.column(at)


def test_names_are_looked_at_once_however_many_columns_there_are():
    X = np.arange(600.0).reshape(2, 300)
    table = Counting(pa.table(dict(zip(feature_columns(None, 300), X.T, strict=True))))
    np.testing.assert_array_equal(points_of(table, None, 300), X)
    assert table.looks == 1


def test_a_missing_column_is_named():
    table = pa.table({"a": [1.0]})
    with pytest.raises(ValueError, match="column 'b' is missing"):
        points_of(table, ("a", "b"), 2)

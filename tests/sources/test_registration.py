"""A new place for data is one class, also outside of the package: it registers itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import lwcs
from lwcs.sources import LocalSource, ScanOptions, Source
from lwcs.sources.blocks import ArrayBatch
from lwcs.sources.sequence import SequenceSource

X = np.random.default_rng(3).standard_t(3, size=(3_000, 4))
W = np.random.default_rng(4).random(3_000)


@dataclass
class Columns:
    """Data that lwcs knows nothing of: a dictionary of columns."""

    values: dict[str, np.ndarray]

    def __iter__(self):
        # Looks like a stream of batches, unless the registered source is asked first.
        raise AssertionError("nobody reads columns in this way")


@dataclass
class Quarters:
    """Data that lwcs knows nothing of: four arrays, one per quarter of a year."""

    arrays: list[np.ndarray]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Define two sources, and forget them afterwards."""
    monkeypatch.setattr(Source, "registered", list(Source.registered))

    class ColumnsSource(LocalSource):
        def __init__(self, data: Columns, options: ScanOptions):
            options.refuse_drop("Columns", "filter the columns")
            names = [name for name in data.values if name != options.weight]
            self.feature_names = tuple(options.columns or names)
            self.rows = np.stack([data.values[name] for name in self.feature_names], axis=1)
            self.n_rows, self.n_features = self.rows.shape
            if options.weight is not None:
                self.weights, self.weighted = data.values[options.weight], True

        @classmethod
        def accepts(cls, data):
            return isinstance(data, Columns)

        @classmethod
        def open(cls, data, options):
            return cls(data, options)

        def read(self, start, stop):
            return self.rows[start:stop]

        def take(self, rows):
            return self.rows[rows]

    class QuartersSource(SequenceSource):
        feature_names = None
        dtype = np.dtype(np.float64)

        def __init__(self, data: Quarters):
            super().__init__()
            self.arrays = data.arrays
            self.n_rows, self.n_features = None, data.arrays[0].shape[1]

        @classmethod
        def accepts(cls, data):
            return isinstance(data, Quarters)

        @classmethod
        def open(cls, data, options):
            options.refuse_columns("a Quarters object")
            options.refuse_weight_array()
            return cls(data)

        def batches(self):
            for number, array in enumerate(self.arrays, 1):
                yield f"quarter {number}", ArrayBatch(array, len(array))

    return ColumnsSource, QuartersSource


def columns(rows=X):
    return Columns({name: rows[:, j] for j, name in enumerate("abcd")})


def quarters(rows=X):
    return Quarters(np.array_split(rows, 4))


def test_a_registered_source_gives_the_coreset_of_the_array(registered):
    assert isinstance(lwcs.scan(columns()), registered[0])
    assert isinstance(lwcs.scan(quarters()), registered[1])
    array = lwcs.build(X, 200, random_state=0)
    built = lwcs.build(columns(), 200, random_state=0)
    np.testing.assert_array_equal(built.indices, array.indices)
    np.testing.assert_array_equal(built.weights, array.weights)
    assert built.feature_names == ("a", "b", "c", "d")
    assert lwcs.build(quarters(), 200, random_state=0) == lwcs.build(
        X, 200, passes=2, random_state=0
    )


@pytest.mark.parametrize("wrapped", [columns, quarters])
def test_estimators_fit_and_predict_objects_of_a_registered_source(wrapped):
    model = lwcs.CoresetKMeans(3, coreset_size=300, polish=1, random_state=0)
    centers = model.fit(lwcs.scan(wrapped())).cluster_centers_
    labels = model.predict(lwcs.scan(X))
    model.fit(wrapped())
    np.testing.assert_array_equal(model.cluster_centers_, centers)
    np.testing.assert_array_equal(model.predict(wrapped()), labels)
    assert model.n_features_in_ == 4
    mixture = lwcs.CoresetMixture(2, coreset_size=300, random_state=0).fit(wrapped())
    assert mixture.predict(wrapped()).shape == (len(X),)


def test_a_registered_source_gets_the_options_of_scan():
    data = columns()
    data.values["w"] = W
    source = lwcs.scan(data, columns=["d", "a"], weight="w", scale="standard")
    want = lwcs.build(lwcs.scan(X[:, [3, 0]], weight=W, scale="standard"), 50, random_state=0)
    coreset = lwcs.build(source, 50, random_state=0)
    np.testing.assert_array_equal(coreset.indices, want.indices)
    np.testing.assert_array_equal(coreset.weights, want.weights)
    with pytest.raises(ValueError, match=r"missing='drop' is not supported for Columns"):
        lwcs.scan(data, missing="drop")
    with pytest.raises(TypeError, match="a Quarters object has no column names"):
        lwcs.scan(quarters(), columns=["a"])
    with pytest.raises(ValueError, match="weights in an array are for rows in memory"):
        lwcs.CoresetKMeans(3).fit(quarters(), sample_weight=W)


def test_bad_values_are_found_where_the_new_source_says():
    bad = X.copy()
    bad[1_501, 2] = np.nan
    with pytest.raises(ValueError, match="row 1, column 2 of quarter 3 is nan"):
        lwcs.build(quarters(bad), 50)


def test_a_class_that_is_defined_again_takes_the_place_of_the_first(registered):
    del registered
    before = len(Source.registered)

    def define():
        class Again(LocalSource):
            @classmethod
            def accepts(cls, data):
                return isinstance(data, str)

            @classmethod
            def open(cls, data, options):
                return lwcs.scan(X[: len(data)], weight=options.weight)

        return Again

    define()
    latest = define()
    assert len(Source.registered) == before + 1
    assert Source.registered[0] is latest
    assert lwcs.scan("again").n_rows == 5


def test_a_class_that_accepts_must_open():
    with pytest.raises(TypeError, match=r"Half defines accepts\(\) but not open\(\)"):

        class Half(LocalSource):
            @classmethod
            def accepts(cls, data):
                return data is None


def test_a_class_without_accepts_is_not_registered():
    class Plain(LocalSource):
        pass

    assert Plain not in Source.registered

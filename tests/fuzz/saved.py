"""One small object of every kind that is saved, and whether two of them are equal."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp

import lwcs
from lwcs import comparing
from lwcs.comparing import result as comparison
from lwcs.coreset import io as coreset_table
from lwcs.coreset import streaming_io as streaming_table
from lwcs.estimators import kmeans_io as kmeans_table
from lwcs.estimators import mixture_io as mixture_table
from lwcs.storage import persistence as storage


def _rows() -> np.ndarray:
    return np.random.default_rng(0).gamma(2.0, size=(60, 3))


def _sparse() -> Any:
    return sp.csr_array(np.where(_rows() > 1.5, _rows(), 0.0))


def _stream(X: Any, **options: Any) -> lwcs.StreamingCoreset:
    stream = lwcs.StreamingCoreset(5, random_state=0, **options)
    stream.update(X)
    stream.update(lwcs.build(X, 4, random_state=1))
    return stream


def _long_stream() -> lwcs.StreamingCoreset:
    """A stream whose first block is full: it has a pivot and two reservoirs."""
    stream = lwcs.StreamingCoreset(2, random_state=0)
    stream.update(np.random.default_rng(0).normal(size=(65_540, 2)).astype(np.float32))
    return stream


def _comparison() -> Any:
    return lwcs.compare(
        _rows(), 2, sizes=[10], methods=["full", "lightweight"], repeats=1, holdout_rows=5
    )


@cache
def objects() -> dict[str, Any]:
    """Objects by a name that says what is special about them."""
    X = _rows()
    frame = pd.DataFrame(X, columns=["weight", "größe", "c"])
    half = lwcs.build(X[:30], 6, random_state=0)
    kmeans, mixture = lwcs.CoresetKMeans, lwcs.CoresetMixture
    return {
        "coreset": lwcs.build(X, 8, random_state=0),
        "coreset, names": lwcs.build(lwcs.scan(frame, scale="standard"), 8, random_state=0),
        "coreset, sparse": lwcs.build(_sparse(), 8, random_state=0),
        "coreset, union": (half + half).reduce(5, random_state=0),
        "coreset, kl": lwcs.build(X, 8, divergence="kl", random_state=0),
        "stream": _stream(X),
        "stream, empty": lwcs.StreamingCoreset(5, random_state=0),
        "stream, sparse": _stream(_sparse()),
        "stream, uniform": _stream(X, method="uniform"),
        "stream, long": _long_stream(),
        "kmeans": kmeans(2, random_state=0).fit(X),
        "kmeans, names": kmeans(2, random_state=0).fit(lwcs.scan(frame, scale="standard")),
        "kmeans, kl": kmeans(2, divergence="kl", random_state=0).fit(X),
        "mixture": mixture(2, random_state=0).fit(X),
        "mixture, tied": mixture(2, covariance_type="tied", random_state=0).fit(frame),
        "mixture, gamma": mixture(2, family="gamma", random_state=0).fit(X),
        "mixture, multinomial": mixture(2, family="multinomial", random_state=0).fit(X),
        "comparison": _comparison(),
    }


def table_of(thing: Any) -> pa.Table:
    """The table that an object is saved as."""
    if isinstance(thing, lwcs.Coreset):
        return coreset_table.to_table(thing)
    if isinstance(thing, lwcs.StreamingCoreset):
        return streaming_table.to_table(thing)
    if isinstance(thing, lwcs.CoresetKMeans):
        return kmeans_table.to_table(thing)
    if isinstance(thing, lwcs.CoresetMixture):
        return mixture_table.to_table(thing)
    assert isinstance(thing, comparing.CompareResult)
    setup = comparison.Setup(55, 3, 1.5, 5, 0)
    return storage.with_metadata(thing.to_arrow(), comparison.KIND, {"setup": vars_of(setup)})


def vars_of(setup: comparison.Setup) -> dict[str, Any]:
    """The fields of a setup."""
    return {name: getattr(setup, name) for name in setup.__dataclass_fields__}


def same(one: Any, other: Any) -> bool:
    """Whether two objects are equal in all that is saved of them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, lwcs.Coreset | comparing.CompareResult):
        return bool(one == other)
    # Saved again, equal objects give equal tables; a checksum covers all of one.
    tables = table_of(one), table_of(other)
    return bool(tables[0].equals(tables[1], check_metadata=True))

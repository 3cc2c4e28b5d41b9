"""A refused batch leaves everything as it was, whatever it holds; other batches lose nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.coreset.streaming_io import to_table

ROWS = 200


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for home in ("sources.base", "coreset.streaming", "coreset.streaming_io"):
        monkeypatch.setattr(f"lwcs.{home}.block_rows", lambda _: 64)


def points(n: int = ROWS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4))


def stream_of(*batches: Any, **options: Any) -> lwcs.StreamingCoreset:
    stream = lwcs.StreamingCoreset(30, random_state=3, **options)
    for batch in batches:
        stream.update(batch)
    return stream


def same(one: lwcs.StreamingCoreset, other: lwcs.StreamingCoreset) -> bool:
    """Whether streams are in the same state, to the last bit."""
    first, second = to_table(one), to_table(other)
    return first.equals(second, check_metadata=True) and one.n_samples == other.n_samples


NUMBERS = (0.0, -1.0, 1.0, 1e-320, 1e-200, 1e39, 1e60, 1e149, 1e155, 1e308, np.nan, np.inf, -np.inf)
WEIGHTS = (0.0, -1.0, 1e-320, 1e-200, 1.0, 1e100, 1e190, 1e199, 1e250, np.nan, np.inf)
DTYPES = (np.float64, np.float32, np.float16, np.int64, np.uint8, bool, object, "U3", complex)


def nasty_batches(count: int, seed: int) -> list[tuple[Any, Any]]:
    """Batches of odd sizes, shapes, dtypes, containers, names, values and weights."""
    with np.errstate(all="ignore"):
        return list(_nasty_batches(count, seed))


def _nasty_batches(count: int, seed: int) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n, d = int(rng.choice([0, 1, 3, 63, 64, 130])), int(rng.choice([4, 4, 4, 4, 0, 3, 5]))
        X = rng.normal(size=(n, d))
        if X.size and rng.random() < 0.6:
            X[rng.integers(n), rng.integers(d)] = rng.choice(NUMBERS)
        if rng.random() < 0.15:
            X *= rng.choice(NUMBERS)
        w: Any = None
        if rng.random() < 0.6:
            w = rng.random(max(0, n + int(rng.choice([0, 0, 0, 0, 1, -1]))))
            if len(w):
                w[rng.integers(len(w))] = rng.choice(WEIGHTS)
            if rng.random() < 0.2:
                w = w * rng.choice(WEIGHTS)
        batch: Any = X
        kind = rng.integers(8)
        if kind == 0:
            batch = X.astype(DTYPES[rng.integers(len(DTYPES))])
        elif kind == 1:
            batch = sp.csr_array(X)
        elif kind == 2:
            batch = pd.DataFrame(X, columns=[f"c{j}" for j in range(d)])
        elif kind == 3:
            batch = X.ravel()
        elif kind == 4 and n and d == 4:
            try:
                batch, w = lwcs.build(X, 20, sample_weight=w, random_state=0), None
            except ValueError:
                continue
        elif kind == 5 and n:
            made = {"points": X, "indices": np.arange(n), "counts": np.ones(n, np.int64)}
            weights = np.ones(n) if w is None else np.resize(w, n)
            batch, w = (
                lwcs.Coreset(
                    **made,
                    weights=weights,
                    n_samples=n,
                    total_weight=1.0,
                    mean=None,
                    total_cost=None,
                ),
                None,
            )
        yield batch, w


@pytest.mark.parametrize(
    ("start", "options"),
    [
        (list, {}),
        (lambda: [points()], {}),
        (lambda: [points().astype(np.float32)], {"method": "uniform"}),
        (lambda: [sp.csr_array(points())], {}),
        (lambda: [pd.DataFrame(points(), columns=["c0", "c1", "c2", "c3"])], {}),
        (lambda: [lwcs.build(points(), 40, random_state=0), points()], {}),
        (lambda: [np.abs(points())], {"divergence": "kl"}),
        (lambda: [points()], {"divergence": "cosine"}),
    ],
    ids=["empty", "dense", "float32", "sparse", "named", "arrivals", "kl", "cosine"],
)
def test_a_stream_never_notices_the_batches_that_it_refused(start, options):
    """Nasty batches one after another: after every refusal the stream is the one before."""
    stream = stream_of(*start(), **options)
    refused = taken = 0
    for batch, w in nasty_batches(150, seed=1):
        before = copy.deepcopy(stream)
        error = error_of(stream.update, batch, w)
        if error is None:
            taken += 1
            # A stream of hardly any weight or spread may have no coreset, and says so.
            if stream.total_weight > 0.0:
                assert "underflow" in str(error_of(stream.coreset) or "underflow")
        else:
            assert type(error) in (ValueError, TypeError), "a value that nobody has explained"
            assert same(stream, before)
            refused += 1
    assert refused > 40
    assert taken > 20


def error_of(call: Callable[..., object], *arguments: Any) -> Exception | None:
    """The error by which a call refuses its arguments, if it does."""
    try:
        call(*arguments)
    except (ValueError, TypeError) as error:
        return error
    return None


def test_what_follows_a_refusal_is_as_if_it_had_not_been():
    """The batches that were taken, alone, give the same stream to the last bit."""
    stream, clean = stream_of(points()), stream_of(points())
    taken = []
    for i, (batch, w) in enumerate(nasty_batches(300, seed=2)):
        if error_of(stream.update, batch, w) is not None:
            batch, w = points(5, seed=i), None
            stream.update(batch)
        taken.append((batch, w))
    for batch, w in taken:
        clean.update(batch, w)
    assert same(stream, clean)


def test_huge_weights_are_refused_and_no_row_is_lost():
    stream = stream_of(points(1000))
    before = copy.deepcopy(stream)
    for n in (3, 500):
        with pytest.raises(ValueError, match=r"with this batch, weights sum to .* scale the"):
            stream.update(np.full((n, 4), 1e60), np.full(n, 1e190))
        with pytest.raises(ValueError, match="sums to inf, more than 1e"):
            stream.update(points(n), np.full(n, 1e308))
    hand_made = lwcs.Coreset.from_arrays(np.full((3, 4), 1e60), np.full(3, 1e190))
    with pytest.raises(ValueError, match="with this coreset, weights sum to"):
        stream.update(hand_made)
    assert same(stream, before)
    assert stream.n_samples == 1000


def test_weights_that_are_too_large_together_are_refused():
    stream = lwcs.StreamingCoreset(30, random_state=0)
    stream.update(points(3), np.full(3, 3e199))
    before = stream.coreset()
    with pytest.raises(ValueError, match=r"weights sum to 1\.2e\+200"):
        stream.update(points(1), np.full(1, 3e199))
    assert stream.coreset() == before


def test_a_loaded_stream_knows_how_large_its_rows_are(tmp_path):
    stream = stream_of(np.full((3, 4), 1e60))
    stream.save(tmp_path / "s.parquet")
    for each in (stream, lwcs.load(tmp_path / "s.parquet")):
        with pytest.raises(ValueError, match=r"values go up to 1e\+60"):
            each.update(np.zeros((3, 4)), np.full(3, 1e190))


def test_an_interrupt_leaves_the_stream_as_it_was(monkeypatch):
    stream, before = stream_of(points(100)), stream_of(points(100))
    with monkeypatch.context() as broken:
        stop = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)  # noqa: E731
        broken.setattr("lwcs.coreset.streaming._pass", stop)
        with pytest.raises(KeyboardInterrupt):
            stream.update(np.full((300, 4), 7.0), np.full(300, 9.0))
    assert same(stream, before)
    for each in (stream, before):
        each.update(points(500, seed=1))
    assert same(stream, before)


def test_an_arrival_that_fails_on_its_way_up_leaves_the_stream_as_it_was(monkeypatch):
    arrivals = [lwcs.build(points(), 30, random_state=seed) for seed in range(4)]
    stream, before = stream_of(*arrivals[:3]), stream_of(*arrivals[:3])
    with monkeypatch.context() as broken:
        broken.setattr(lwcs.Coreset, "reduce", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stream.update(arrivals[3])
    assert same(stream, before)
    for each in (stream, before):
        each.update(arrivals[3])
    assert same(stream, before)


def test_a_refused_merge_changes_neither_stream():
    stream, other = stream_of(points()), stream_of(points()[:, :3])
    before, others = copy.deepcopy(stream), copy.deepcopy(other)
    with pytest.raises(ValueError, match="this coreset has 3 columns"):
        stream.merge(other)
    assert same(stream, before)
    assert same(other, others)


def test_rows_without_columns_are_refused():
    stream = lwcs.StreamingCoreset(30)
    with pytest.raises(ValueError, match="at least one row and one column"):
        stream.update(np.empty((3, 0)))
    assert stream.n_features is None


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_callers_batch_may_change_after_it_was_taken(make):
    stream, kept = lwcs.StreamingCoreset(30, random_state=3), stream_of(make(points(50)))
    batch = make(points(50))
    stream.update(batch)
    (batch.data if sp.issparse(batch) else batch)[:] = 1e9
    assert same(stream, kept)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "fine",
    [np.full((40, 4), 1.0 + 1e-12), np.full((40, 4), 2**24 + 1), np.full((40, 4), 1e60)],
    ids=["float64", "int64", "beyond float32"],
)
def test_a_float32_stream_goes_on_in_float64(make, fine):
    """Rows of both dtypes, cut into any batches, are all there to the last bit."""
    coarse = points(100).astype(np.float32)
    streams = []
    for step in (1, 7, 200):
        stream = lwcs.StreamingCoreset(1000, random_state=0, method="uniform")
        for X in (coarse, fine, coarse):
            for a in range(0, len(X), step):
                stream.update(make(X[a : a + step]))
        streams.append(stream)
    assert all(same(streams[0], other) for other in streams)
    found = streams[0].coreset().points
    assert found.dtype == np.float64
    values = set(np.unique(found.toarray() if sp.issparse(found) else found))
    assert values <= set(np.unique(np.vstack([coarse.astype(float), fine.astype(float)])))
    assert float(fine[0, 0]) in values


def test_small_integers_do_not_widen_a_float32_stream():
    stream = stream_of(points().astype(np.float32), np.ones((3, 4), np.int16))
    assert stream.coreset().points.dtype == np.float32


def test_later_tables_are_read_by_the_names_of_the_first():
    frame = pd.DataFrame(points(), columns=list("abcd"))
    stream, plain = stream_of(frame), stream_of(frame)
    stream.update(frame[["d", "b", "a", "c"]].assign(other="text"))
    plain.update(frame)
    assert same(stream, plain)
    with pytest.raises(ValueError, match="'d'"):
        stream.update(frame[["a", "b", "c"]])
    assert same(stream, plain)

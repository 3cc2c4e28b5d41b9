"""The kernels in C++ (`core/`), with the signatures of `portable`; float64 sums, without the GIL.

Rows are read in the type that they have: half precision and integers of eight bits are converted in
the processor's cache. Sums are taken in an order that no instruction set changes, so that the same
seed gives the same coreset on every x86-64 processor. NaN and infinity propagate through every sum:
that is how bad values are found without a search.

A call is shared by the team of threads that its Python thread has (`team`), if it has one.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import as_read
from lwcs.kernels.native.library import DTYPES, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lwcs.arrays.types import DenseRows, FloatArray, IntArray, Labels, Mask
    from lwcs.kernels.portable import SparsePivot

_CORE: Any = load()
if _CORE is None:
    raise ImportError("lwcs was installed without its native kernels")
INSTRUCTION_SET: str = _CORE.instruction_set
SIDE = 8
"""Rows, and columns, that `as_rows` needs at least to be faster than NumPy."""


class _Current(threading.local):
    """The team of each Python thread."""

    team: int | None = None

    def forget(self) -> None:
        """In a child process, which has none of the threads: nothing waits for them to end."""
        self.team = None


class _Idle:
    """The team that rests until it is used again: threads take as long to start as a short call."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without one; also in a child process, which has none of the threads."""
        self._lock = threading.Lock()
        self._resting: tuple[int, int] | None = None

    def take(self, threads: int) -> int:
        """The resting team if it has so many threads, else another one."""
        with self._lock:
            found, self._resting = self._resting, None
        if found is not None and found[0] != threads:
            _CORE.delete_team(found[1])
            found = None
        return int(_CORE.new_team(threads)) if found is None else found[1]

    def put(self, threads: int, team: int) -> None:
        """Let a team rest, in the place of any other."""
        with self._lock:
            other, self._resting = self._resting, (threads, team)
        if other is not None:
            _CORE.delete_team(other[1])

    def close(self) -> None:
        """End the threads of the team that rests."""
        with self._lock:
            other, self._resting = self._resting, None
        if other is not None:
            _CORE.delete_team(other[1])


_CURRENT, _IDLE = _Current(), _Idle()
atexit.register(_IDLE.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_CURRENT.forget)
    os.register_at_fork(after_in_child=_IDLE.reset)


@contextmanager
def team(threads: int) -> Iterator[None]:
    """Share the calls of this Python thread among several threads."""
    if threads <= 1 or _CURRENT.team is not None:
        yield
        return
    try:
        _CURRENT.team = _IDLE.take(threads)
        yield
    finally:
        # An interrupt here leaves a team that can be used, or one that is not named any more.
        members, _CURRENT.team = _CURRENT.team, None
        if members is not None:
            _IDLE.put(threads, members)


@cache
def _dtype_number(dtype: np.dtype[Any]) -> int:
    return DTYPES[dtype.name]


def _type(points: DenseRows) -> int:
    return _dtype_number(points.dtype)


def _doubles(values: Any) -> Any:
    """An argument that is only read, as the kernels read it."""
    return None if values is None else as_read(values, np.float64)


def _integers(values: Any) -> Any:
    return as_read(values, np.int64)


def scan(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    precision: FloatArray | None,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """Write d(x, pivot) into `out`; return Σω(x − pivot) and Σω·d."""
    n, d = points.shape
    shift, cost = np.zeros(d), np.empty(1)
    _CORE.scan(
        _type(points), points, _doubles(weights), _doubles(pivot), _doubles(precision), n, d,
        shift, cost, out,
    )  # fmt: skip
    return shift, float(cost[0])


def scan_cells(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    precision: FloatArray | None,
    block_rows: int,
    cell_rows: int,
    cells: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Write Σω·d of every cell into `cells`; return Σω(x − pivot) and Σω·d of every block.

    Without weights, which row a value belongs to does not matter for the sum of a cell. So a cell
    is one line, over which the columns repeat: a long loop, for any number of columns.
    """
    n, d = points.shape
    n_blocks = -(-n // block_rows)
    shifts, costs = np.zeros((n_blocks, d)), np.empty(n_blocks)
    if n:
        assert len(cells) >= -(-n // cell_rows), (len(cells), n, cell_rows)
        _CORE.scan_cells(
            _type(points), points, _doubles(weights), _doubles(pivot), _doubles(precision), n, d,
            block_rows, cell_rows, shifts, costs, cells, _CURRENT.team,
        )  # fmt: skip
    return shifts, costs


def hit_rows(
    points: DenseRows,
    weights: FloatArray | None,
    pivot: FloatArray,
    mean: FloatArray,
    precision: FloatArray | None,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray]:
    """One row per run (`kernels.hit_rows`), the h of each, and its distance to the mean."""
    starts, stops, targets = _integers(runs[0]), _integers(runs[1]), _doubles(runs[2])
    count = len(starts)
    _check_runs(starts, stops, len(points), weights)
    rows, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    _CORE.hit_rows(
        _type(points), points, _doubles(weights), _doubles(pivot), _doubles(mean),
        _doubles(precision), scale, floor, points.shape[1], count, starts, stops, targets,
        rows, bounds, distances,
    )  # fmt: skip
    return rows, bounds, distances


def _check_runs(starts: IntArray, stops: IntArray, n_rows: int, weights: Any) -> None:
    if len(starts):
        assert starts.min() >= 0, starts
        assert stops.max() <= n_rows, (stops, n_rows)
        assert (starts < stops).all(), (starts, stops)
        assert weights is None or len(weights) == n_rows, len(weights)


def moments(points: DenseRows, weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Weight, mean and scatter; each piece around its own mean, pieces merged exactly."""
    n, d = points.shape
    weight, mean, scatter = np.empty(1), np.zeros(d), np.zeros(d)
    _CORE.moments(_type(points), points, _doubles(weights), n, d, weight, mean, scatter)
    return float(weight[0]), mean, scatter


def closer(
    points: DenseRows,
    weights: FloatArray | None,
    center: FloatArray,
    precision: FloatArray | None,
    label: int,
    reach: FloatArray | None,
    closest: FloatArray,
    labels: Labels,
) -> tuple[float, int]:
    """Lower `closest` where `center` is nearer; rows within reach of their own are not read."""
    n, d = points.shape
    cost, spared = np.empty(1), np.empty(1, dtype=np.int64)
    own = _integers(labels)
    assert reach is None or not n or own.max() < len(reach), (label, len(reach))
    _CORE.closer(
        _type(points), points, _doubles(weights), _doubles(center), _doubles(precision), n, d,
        label, _doubles(reach), closest, own, cost, spared,
    )  # fmt: skip
    if own is not labels:
        labels[:] = own
    return float(cost[0]), int(spared[0])


def own_distances(
    points: DenseRows, centers: FloatArray, labels: Labels, precision: FloatArray | None
) -> FloatArray:
    """d of every row to the center that its label names; as in NumPy, −1 is the last one."""
    n, d = points.shape
    out, own = np.empty(n), _integers(labels)
    if n and own.min() < 0:
        own = np.where(own < 0, own + len(centers), own)
    _check_labels(own, len(centers))
    _CORE.own_distances(
        _type(points), points, _doubles(centers), own, _doubles(precision), n, d, out, _CURRENT.team
    )
    return out


def _check_labels(labels: IntArray, k: int) -> None:
    if len(labels):
        assert labels.min() >= 0, labels.min()
        assert labels.max() < k, (labels.max(), k)


def cluster_sums(
    points: DenseRows, weights: FloatArray, labels: Labels, wanted: Mask, around: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σω and Σω·(x − around) of the clusters that are wanted, zeros for the others.

    The order of additions is that of the rows of a cluster, for any number of threads.
    """
    n, d = points.shape
    totals, sums, own = np.zeros(len(wanted)), np.zeros((len(wanted), d)), _integers(labels)
    _check_labels(own, len(wanted))
    _CORE.cluster_sums(
        _type(points), points, _doubles(weights), own, np.ascontiguousarray(wanted),
        _doubles(around), n, d, len(wanted), totals, sums, _CURRENT.team,
    )  # fmt: skip
    return totals, sums


def nearest(
    points: DenseRows,
    origin: DenseRows,
    factor: DenseRows | None,
    matrix: DenseRows,
    sizes: FloatArray,
    limits: tuple[float, float, float, float],
    centers: FloatArray,
    precision: FloatArray | None,
    labels: npt.NDArray[np.int32],
    distances: FloatArray | None,
) -> IntArray:
    """Label rows by squared distances, and measure them if wanted; return rows not certain.

    `matrix` has the slopes and the offset of one center per row; `limits` are those of `Products`:
    clear, tiny, large and rounding.
    """
    n, d = points.shape
    unclear, count = np.empty(n, dtype=np.bool_), np.zeros(1, dtype=np.int64)
    wide, scale = _in_precision(matrix.dtype, factor)
    _CORE.nearest(
        _type(points), wide, points, n, d, np.ascontiguousarray(origin, matrix.dtype), scale,
        np.ascontiguousarray(matrix), _doubles(sizes), len(matrix), *limits, _doubles(centers),
        _doubles(precision), labels, unclear, distances, count, _CURRENT.team,
    )  # fmt: skip
    return np.flatnonzero(unclear) if count[0] else np.empty(0, dtype=np.int64)


def _in_precision(dtype: np.dtype[Any], factor: DenseRows | None) -> tuple[bool, Any]:
    return dtype == np.float64, None if factor is None else np.ascontiguousarray(factor, dtype)


TILE = 32
"""Rows of a tile."""


class Tiles:
    """Dense rows in the coordinates of products, in tiles: 32 rows, column after column.

    They are what seeding and Lloyd's algorithm compute with; the last tile is filled up with zeros.
    """

    def __init__(
        self, points: DenseRows, dtype: np.dtype[Any], origin: DenseRows, factor: DenseRows | None
    ) -> None:
        self.n_rows, self._wide = len(points), dtype == np.float64
        n_tiles = -(-self.n_rows // TILE)
        self.columns: DenseRows = np.empty((n_tiles, points.shape[1], TILE), dtype)
        self._norms: DenseRows = np.zeros(n_tiles * TILE, dtype)
        wide, scale = _in_precision(dtype, factor)
        _CORE.pack(
            _type(points), wide, points, *points.shape, np.ascontiguousarray(origin, dtype), scale,
            self.columns, self._norms, _CURRENT.team,
        )  # fmt: skip

    @property
    def norms(self) -> DenseRows:
        """Squared norms of the rows."""
        return self._norms[: self.n_rows]

    def __getitem__(self, at: slice | IntArray) -> Any:
        """Some rows, one after the other, each with a one as its last column."""
        if isinstance(at, slice):
            assert at.indices(self.n_rows)[:2] == (0, self.n_rows), at
            return self
        rows = np.ones((len(at), self.columns.shape[1] + 1), self.columns.dtype)
        rows[:, :-1] = self.columns[at // TILE, :, at % TILE]
        return rows

    def assign(self, matrix: DenseRows, moved: Any, found: Any, watch: Any) -> int:
        """One iteration's assignment of all rows (`products.Products.assign`)."""
        count, k, unknown = np.zeros(1, dtype=np.int64), len(matrix), np.empty(self.n_rows, bool)
        watch.changed[:] = False
        at, place = _integers(moved.at), _integers(moved.place)
        _CORE.assign(
            self._wide, self.columns, self.n_rows, self.columns.shape[1],
            np.ascontiguousarray(matrix), k, at, len(at), place,
            found.labels, found.scores, found.others, watch.old,
            np.ascontiguousarray(watch.heights, matrix.dtype),
            np.ascontiguousarray(watch.least, matrix.dtype),
            watch.changed, unknown, count, _CURRENT.team,
        )  # fmt: skip
        watch.unknown[: count[0]] = np.flatnonzero(unknown)
        return int(count[0])


class TiledSeeding:
    """Rounds of k-means++ over points in tiles.

    In double precision, `points` are the rows themselves, to mend distances that products have
    lost; `unit` is the unit of distances of products.
    """

    def __init__(
        self, tiles: Tiles, points: DenseRows | None, precision: FloatArray | None, unit: float
    ) -> None:
        self._tiles, self.dtype = tiles, tiles.columns.dtype
        dtype = 0 if points is None else _type(points)
        self._points = (
            self.dtype == np.float64, tiles.columns, tiles._norms, tiles.n_rows,
            tiles.columns.shape[1], dtype, points, _doubles(precision), unit,
        )  # fmt: skip

    def distances(self, chosen: IntArray) -> DenseRows:
        """d of all points to some of them, one row per choice."""
        out = np.empty((len(chosen), self._tiles.n_rows), self.dtype)
        _CORE.seed_distances(*self._points, self._checked(chosen), len(chosen), out, _CURRENT.team)
        return out

    def _checked(self, chosen: IntArray) -> IntArray:
        own: IntArray = _integers(chosen)
        _check_labels(own, self._tiles.n_rows)
        return own

    def choose(
        self,
        weights: FloatArray,
        uniforms: FloatArray,
        chosen: IntArray,
        stop_at: float,
        at_once: int,
    ) -> IntArray:
        """Choose points until there are as many as rows of `uniforms`, or the cost is `stop_at`.

        `uniforms` has one column per candidate. After `at_once` products, Python may interrupt.
        """
        (k, many), n = uniforms.shape, self._tiles.n_rows
        assert many <= 64, many
        n_blocks = -(-n // _BLOCK)
        light, closest = np.zeros((2, n_blocks * _BLOCK), self.dtype)
        light[:n] = weights
        closest[:] = np.inf
        _CORE.seed_closest(
            *self._points, self._checked(chosen), len(chosen), closest, _CURRENT.team
        )
        reached = np.empty((n_blocks, many, _BLOCK), self.dtype)
        reached[:, 0] = closest.reshape(n_blocks, _BLOCK)
        picked = np.empty(k, dtype=np.int64)
        picked[: len(chosen)] = chosen
        # The first round has one candidate, which is chosen already.
        candidates = np.repeat(_integers(chosen[-1:]), many)
        counts = np.array([len(chosen) - 1, 0, 0], dtype=np.int64)
        rounds = max(1, at_once // (many * self._tiles.columns.size))
        uniform, sums = np.ascontiguousarray(uniforms), np.empty((n_blocks, many))
        while not counts[2]:
            _CORE.seed(
                *self._points, light, uniform, k, many, stop_at, candidates, closest, reached,
                sums, picked, counts, rounds, _CURRENT.team,
            )  # fmt: skip
        return picked[: counts[0]]


def first_swap(
    distances: DenseRows,
    first: int,
    nearest: DenseRows,
    second: DenseRows,
    weights: FloatArray,
    labels: IntArray,
    losses: FloatArray,
    cancelled: float,
    least_gain: float,
) -> tuple[int, int] | None:
    """The first candidate, from number `first` on, that is worth a center, and that center.

    `distances` has one row per candidate; the other arrays are those of `local_search`.
    """
    found, (many, n) = np.empty(2, dtype=np.int64), distances.shape
    _check_labels(labels, len(losses))
    _CORE.try_swaps(
        distances.dtype == np.float64, distances, n, first, many, nearest, second, weights, labels,
        losses, len(losses), cancelled, least_gain, found,
    )  # fmt: skip
    return None if found[0] < 0 else (int(found[0]), int(found[1]))


_BLOCK = 256
"""Points of a seeding whose sums are taken together, as in `core/seeding.cpp`."""


def _csr(data: DenseRows, indices: IntArray, indptr: IntArray, d: int) -> tuple[Any, ...]:
    """The arguments that stand for CSR rows."""
    long_indices, long_starts = indices.dtype == np.int64, indptr.dtype == np.int64
    n = len(indptr) - 1
    assert {indices.dtype, indptr.dtype} <= {np.dtype(np.int32), np.dtype(np.int64)}, indices.dtype
    if n:
        assert 0 <= indptr[0] <= indptr[-1] <= min(len(data), len(indices)), indptr
    return _type(data), long_indices, long_starts, data, indices, indptr, n, d


def _around(pivot: SparsePivot) -> tuple[Any, ...]:
    return _doubles(pivot.columns), _doubles(pivot.precision), *pivot.totals


def scan_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray,
    around: SparsePivot,
    out: FloatArray,
) -> tuple[FloatArray, float]:
    """`scan` of CSR rows, at the cost of their non-zeros."""
    d = len(around.columns)
    shift, cost = np.empty(d), np.empty(1)
    rows = _csr(data, indices, indptr, d)
    _CORE.scan_sparse(*rows, _doubles(weights), *_around(around), shift, cost, out)
    return shift, float(cost[0])


def distances_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, around: SparsePivot, out: FloatArray
) -> None:
    """The distances of `scan_sparse`, without its sums."""
    rows = _csr(data, indices, indptr, len(around.columns))
    _CORE.distances_sparse(*rows, *_around(around), out)


def hit_rows_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    weights: FloatArray | None,
    around: SparsePivot,
    mean: SparsePivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray]:
    """`hit_rows` of CSR rows."""
    starts, stops, targets = _integers(runs[0]), _integers(runs[1]), _doubles(runs[2])
    count = len(starts)
    _check_runs(starts, stops, len(indptr) - 1, weights)
    hits, bounds, distances = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    columns, _, *totals = _around(mean)
    rows = _csr(data, indices, indptr, len(around.columns))
    _CORE.hit_rows_sparse(
        *rows, _doubles(weights), *_around(around), columns, *totals, scale, floor, count,
        starts, stops, targets, hits, bounds, distances,
    )  # fmt: skip
    return hits, bounds, distances


def moments_sparse(
    data: DenseRows, indices: IntArray, indptr: IntArray, weights: FloatArray, n_features: int
) -> tuple[float, FloatArray, FloatArray]:
    """`moments` of CSR rows, at the cost of their non-zeros."""
    weight, mean, scatter = np.zeros(1), np.zeros(n_features), np.zeros(n_features)
    if len(indptr) > 1:
        rows = _csr(data, indices, indptr, n_features)
        _CORE.moments_sparse(*rows, _doubles(weights), weight, mean, scatter)
    return float(weight[0]), mean, scatter


def best_scores_sparse(
    data: DenseRows,
    indices: IntArray,
    indptr: IntArray,
    matrix: FloatArray,
    offsets: FloatArray,
    labels: IntArray,
    best: FloatArray,
    second: FloatArray,
) -> None:
    """Write the largest score of every CSR row, where it is, and the second largest.

    Scores are rows·matrix + offsets, with one column per center, to the last bit as scipy has
    them. With NaN among its scores, a row has the label of the first one, and NaN for both.
    """
    rows = _csr(data, indices, indptr, len(matrix))
    _CORE.best_scores_sparse(
        *rows, _doubles(matrix), _doubles(offsets), len(offsets), labels, best, second
    )


def as_rows(columns: Sequence[DenseRows], out: DenseRows) -> None:
    """Copy contiguous columns of the dtype of `out`, float32 or float64, into its rows."""
    n, d = out.shape
    assert len(columns) == d, len(columns)
    assert all(len(column) == n and column.dtype == out.dtype for column in columns), out.dtype
    addresses = [column.__array_interface__["data"][0] for column in columns]
    _CORE.as_rows(out.itemsize == 8, np.array(addresses, dtype=np.int64), n, d, out)


def hash_sums(
    words: DenseRows, factors: DenseRows, more: DenseRows | None, first: int
) -> tuple[int, int]:
    """The sums of `lwcs.kernels.hashes`, in one pass; `more` is added to the hash of each row."""
    sums, place = np.zeros(2, dtype=np.uint64), (2 * first + 1) % 2**64
    _CORE.hash_sums(words.itemsize, words, factors, more, place, *words.shape, sums)
    return int(sums[0]), int(sums[1])

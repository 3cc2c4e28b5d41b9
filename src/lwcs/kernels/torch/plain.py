"""The kernels of a device in plain torch: for the CPU, for float64, and as the tests' reference.

The docstrings here hold for every implementation. Rows are computed with in pieces, in float64; no
temporary has rows × centers values for all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lwcs.arrays.rows import pieces
from lwcs.kernels import Hits
from lwcs.kernels.torch.common import Nearest, RowScan, ScanSums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lwcs.kernels.torch.common import Mode, Tensor

# float64 values of a piece: on a GPU 64 MB, on a CPU what stays in its cache.
_GPU_VALUES, _CPU_VALUES = 2**23, 2**17
# Differences below this have lost digits to underflow.
_TINY = 1e-306


def _pieces(X: Tensor, n_rows: int, width: int) -> Iterator[slice]:
    return pieces(n_rows, (_GPU_VALUES if X.is_cuda else _CPU_VALUES) // max(1, width))


def _distances(offset: Tensor, precision: Tensor | None) -> Tensor:
    """Σ precision·offset² of every row."""
    squares = offset * offset
    return squares.sum(dim=1) if precision is None else squares @ precision


def scan(X: Tensor, weights: Tensor | None, pivot: Tensor, precision: Tensor | None) -> RowScan:
    """d(x, pivot) of every row, Σω(x − pivot) and Σω·d."""
    found = torch.empty(len(X), dtype=torch.float64, device=X.device)
    shift, cost = torch.zeros_like(pivot), torch.zeros_like(pivot[:1].sum())
    for piece in _pieces(X, *X.shape):
        offset = X[piece].to(torch.float64) - pivot
        found[piece] = distance = _distances(offset, precision)
        if weights is None:
            shift, cost = shift + offset.sum(dim=0), cost + distance.sum()
        else:
            shift, cost = shift + weights[piece] @ offset, cost + weights[piece] @ distance
    return RowScan(found, shift, cost)


def scan_cells(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    precision: Tensor | None,
    cell_rows: int,
) -> ScanSums:
    """Sums over all rows and over cells of `cell_rows` of them, the last one short; one read."""
    distances, shift, cost = scan(X, weights, pivot, precision)
    masses = distances if weights is None else weights * distances
    short = -len(masses) % cell_rows
    masses = torch.nn.functional.pad(masses, (0, short)) if short else masses
    return ScanSums(shift, cost, masses.view(-1, cell_rows).sum(dim=1))


def hit_rows(
    X: Tensor,
    weights: Tensor | None,
    pivot: Tensor,
    mean: Tensor,
    precision: Tensor | None,
    scale: float,
    floor: float,
    cell_rows: int,
    cells: Tensor,
    targets: Tensor,
) -> Hits:
    """One row of every cell that is hit: where the running sum of ω·h crosses its target.

    h = scale·d(x, pivot) + floor. A row without mass is never hit, unless there is no other.
    """
    rows = torch.empty(len(cells), dtype=torch.int64, device=X.device)
    bounds, distances = torch.empty((2, len(cells)), dtype=torch.float64, device=X.device)
    within = torch.arange(cell_rows, device=X.device)
    for piece in _pieces(X, len(cells), cell_rows * X.shape[1]):
        own = cells[piece, None].to(torch.int64) * cell_rows + within
        inside, own = own < len(X), own.clamp_max(len(X) - 1)
        found = _distances(X[own.flatten()].to(torch.float64) - pivot, precision)
        h = scale * found.view(own.shape) + floor
        masses = torch.where(inside, h if weights is None else weights[own] * h, 0.0)
        met = cross(masses, targets[piece])[:, None]
        rows[piece] = taken = own.gather(1, met).squeeze(1)
        bounds[piece] = h.gather(1, met).squeeze(1)
        distances[piece] = _distances(X[taken].to(torch.float64) - mean, precision)
    return Hits(rows, bounds, distances)


def cross(masses: Tensor, targets: Tensor) -> Tensor:
    """Where the running sum of every row of masses crosses its target, as `cross` of NumPy."""
    sums = masses.cumsum(dim=1)
    below, before = sums <= targets[:, None], sums < sums[:, -1:]
    return torch.minimum(below.sum(dim=1), before.sum(dim=1))


def own_distances(X: Tensor, centers: Tensor, labels: Tensor, precision: Tensor | None) -> Tensor:
    """d of every row to the center that its label names; NaN where it names none."""
    out = torch.empty(len(X), dtype=torch.float64, device=X.device)
    for piece in _pieces(X, *X.shape):
        own = labels[piece]
        offset = X[piece].to(torch.float64) - centers[own.clamp_min(0).to(torch.int64)]
        out[piece] = torch.where(own >= 0, _distances(offset, precision), torch.nan)
    return out


def closer(
    X: Tensor,
    weights: Tensor | None,
    center: Tensor,
    precision: Tensor | None,
    label: int,
    closest: Tensor,
    labels: Tensor,
) -> Tensor:
    """Lower `closest` where `center` is nearer, and set the label there; return Σω·closest."""
    for piece in _pieces(X, *X.shape):
        found = _distances(X[piece].to(torch.float64) - center, precision)
        nearer = found < closest[piece]
        closest[piece] = torch.where(nearer, found, closest[piece])
        labels[piece] = torch.where(nearer, label, labels[piece])
    return closest.sum() if weights is None else weights @ closest


def column_sums(X: Tensor, weights: Tensor | None, pivot: Tensor) -> tuple[Tensor, Tensor]:
    """Σω(x − pivot) and Σω(x − pivot)² per column."""
    shift, squares = torch.zeros_like(pivot), torch.zeros_like(pivot)
    for piece in _pieces(X, *X.shape):
        offset = X[piece].to(torch.float64) - pivot
        masses = offset if weights is None else weights[piece, None] * offset
        shift, squares = shift + masses.sum(dim=0), squares + (masses * offset).sum(dim=0)
    return shift, squares


def cluster_sums(
    X: Tensor, weights: Tensor | None, labels: Tensor, k: int, around: Tensor
) -> tuple[Tensor, Tensor]:
    """Σω and Σω·(x − around) of every cluster; rows with a negative label are left out."""
    totals = torch.zeros(k + 1, dtype=torch.float64, device=X.device)
    sums = torch.zeros((k + 1, X.shape[1]), dtype=torch.float64, device=X.device)
    for piece in _pieces(X, *X.shape):
        own = labels[piece].to(torch.int64)
        inside = own >= 0
        omega = inside.to(torch.float64) if weights is None else weights[piece]
        moved = omega[:, None] * (X[piece].to(torch.float64) - around[own.clamp_min(0)])
        at = torch.where(inside, own, k)
        totals.index_add_(0, at, omega)
        sums.index_add_(0, at, moved)
    return totals[:k], sums[:k]


def bisect(sums: Tensor, starts: Tensor, stops: Tensor, targets: Tensor) -> Tensor:
    """For every target the first place in [start, stop) whose sum is above it.

    Sums rise within every range; the result is stop − 1 where none is above.
    """
    low, high = starts.to(torch.int64), stops.to(torch.int64) - 1
    for _ in range(len(sums).bit_length()):
        middle = (low + high) // 2
        above = sums[middle] > targets
        high = torch.where(above, middle, high)
        low = torch.where(above, low, torch.minimum(middle + 1, high))
    return low


def nearest(
    X: Tensor,
    centers: Tensor,
    precision: Tensor | None,
    distances: bool = False,
    mode: Mode = "tf32x3",
) -> Nearest:
    """The nearest center of every row, and its distance to it if wanted.

    "tf32x3" gives the labels that float32 gives, and decides by differences between centers that
    float32 cannot tell apart; "tf32" gives the labels of one product of 11 bits, some of which are
    wrong. Here, products are in float64 whatever the mode is.
    """
    del mode
    k, d = centers.shape
    labels = torch.empty(len(X), dtype=torch.int32, device=X.device)
    origin = centers.mean(dim=0)
    moved = centers - origin
    slopes = 2.0 * (moved if precision is None else moved * precision)
    heights = _distances(moved, precision)
    rounding = 4.0 * torch.finfo(torch.float64).eps * (4.0 + d**0.5)
    n_unclear = torch.zeros((), dtype=torch.int64, device=X.device)
    for piece in _pieces(X, len(X), max(k, d)):
        rows = X[piece].to(torch.float64) - origin
        scores = torch.addmm(-heights, rows, slopes.T)
        top, best = scores.max(dim=1)
        own = slice(piece.start, piece.stop)
        if k > 1:
            scores.scatter_(1, best[:, None], -torch.inf)
            gaps = top - scores.amax(dim=1)
            sizes = _distances(rows, precision) + heights.amax()
            unclear = ~(gaps > rounding * sizes + _TINY) | ~torch.isfinite(sizes)
        else:
            unclear = ~torch.isfinite(top)
        at = unclear.nonzero()[:, 0]
        n_unclear += len(at)
        labels[own] = best.to(torch.int32)
        if len(at):
            labels[at + piece.start] = by_differences(X[at + piece.start], centers, precision)
    found = own_distances(X, centers, labels, precision) if distances else None
    return Nearest(labels, found, n_unclear)


def by_differences(X: Tensor, centers: Tensor, precision: Tensor | None) -> Tensor:
    """The nearest center by the distances themselves, the first of several; −1 without one."""
    labels = torch.full((len(X),), -1, dtype=torch.int32, device=X.device)
    closest = torch.full((len(X),), torch.inf, dtype=torch.float64, device=X.device)
    for some in _pieces(X, *centers.shape):
        for piece in _pieces(X, len(X), centers[some].numel()):
            offset = X[piece, None].to(torch.float64) - centers[some]
            found = _distances(offset.flatten(0, 1), precision).view(len(offset), -1)
            found = torch.where(torch.isnan(found), torch.inf, found)
            least = found.amin(dim=1)
            best = (found == least[:, None]).to(torch.int32).argmax(dim=1) + some.start
            nearer = least < closest[piece]
            labels[piece] = torch.where(nearer, best.to(torch.int32), labels[piece])
            closest[piece] = torch.where(nearer, least, closest[piece])
    return labels

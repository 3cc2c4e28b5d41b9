"""Scans of rows on a device, their moments, and the sums of clusters.

What has one value per row stays on the device, unless the caller's array is on the host; sums are
copied to the host, which waits for them. Passes and solvers that must not wait call `operations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lwcs.arrays.device import on_device, write
from lwcs.arrays.rows import pieces
from lwcs.kernels.protocol import BlockMoments, BlockScans, Hits, Pivot, Scan
from lwcs.kernels.torch import operations

if TYPE_CHECKING:
    from lwcs.arrays.device import DeviceArray
    from lwcs.arrays.types import FloatArray, IntArray, Labels, Mask
    from lwcs.kernels.torch.common import RowScan, Tensor


def rows_of(points: DeviceArray) -> Tensor:
    """The rows as a torch tensor, row after row in memory."""
    return points.tensor.contiguous()


def _put(values: Any, points: DeviceArray) -> Tensor | None:
    """Copy values to the device of the rows; None stays None."""
    return None if values is None else on_device(values, points.tensor)


def doubles_on(weights: Any, points: DeviceArray) -> Tensor | None:
    """Weights in float64 on the device of the rows."""
    return None if weights is None else on_device(weights, points.tensor).double()


def scan(points: DeviceArray, weights: FloatArray | None, pivot: Pivot, out: FloatArray) -> Scan:
    """`out` may be a DeviceArray."""
    distances, shift, cost = _scan(points, weights, pivot)
    write(out, slice(None), distances)
    found = _to_host(cost, shift)
    return Scan(found[1:], float(found[0]))


def _scan(points: DeviceArray, weights: Any, pivot: Pivot) -> RowScan:
    point, precision = _put(pivot.point, points), _put(pivot.precision, points)
    return operations.scan(rows_of(points), doubles_on(weights, points), point, precision)


def distances(points: DeviceArray, pivot: Pivot, out: FloatArray) -> None:
    """`out` may be a DeviceArray."""
    write(out, slice(None), _scan(points, None, pivot).distances)


def scan_cells(
    points: DeviceArray,
    weights: FloatArray | None,
    pivot: Pivot,
    block_rows: int,
    cells: FloatArray,
    cell_rows: int,
) -> BlockScans:
    """Block by block; `cells` may be a DeviceArray."""
    omega, sums = doubles_on(weights, points), []
    point, precision = _put(pivot.point, points), _put(pivot.precision, points)
    for block in pieces(len(points), block_rows):
        own = None if omega is None else omega[block]
        found = operations.scan_cells(rows_of(points)[block], own, point, precision, cell_rows)
        write(cells, slice(block.start // cell_rows, -(-block.stop // cell_rows)), found.cells)
        sums.append(torch.cat([found.cost.reshape(1), found.shift]))
    host = torch.stack(sums).cpu().numpy()
    return BlockScans(host[:, 1:], host[:, 0])


def hit_rows(
    points: DeviceArray,
    weights: FloatArray | None,
    pivot: Pivot,
    mean: Pivot,
    scale: float,
    floor: float,
    runs: tuple[IntArray, IntArray, FloatArray],
) -> Hits:
    """Cells are searched: other runs of rows are copied into cells."""
    starts, stops, targets = runs
    width = 1 << int((stops - starts).max(initial=1) - 1).bit_length()
    rows, omega, n = rows_of(points), doubles_on(weights, points), len(points)
    as_cells = not (starts % width).any() and np.array_equal(stops, np.minimum(starts + width, n))
    cells = starts // width
    if not as_cells:
        places = starts[:, None] + np.arange(width)
        inside = places < stops[:, None]
        at = _put(np.minimum(places, n - 1).ravel(), points)
        own = doubles_on(inside.ravel(), points)
        rows, omega = rows[at], own if omega is None else omega[at] * own
        cells = np.arange(len(starts))
    hits: Any = operations.hit_rows(
        rows, omega, _put(pivot.point, points), _put(mean.point, points),
        _put(pivot.precision, points), scale, floor, width, _put(cells, points),
        _put(targets, points),
    )  # fmt: skip
    found, bounds, distances = (each.cpu().numpy() for each in hits)
    if not as_cells:
        found = starts + found % width
    return Hits(found, bounds, distances)


def moments(points: DeviceArray, weights: FloatArray | None) -> BlockMoments:
    """In two reads; weights may be a DeviceArray."""
    d = points.shape[1]
    if not len(points):
        return BlockMoments(0.0, np.zeros(d), np.zeros(d))
    found = _to_host(*operations.moments(rows_of(points), doubles_on(weights, points)))
    return BlockMoments(float(found[0]), found[1 : d + 1], found[d + 1 :])


def closer(
    points: DeviceArray,
    weights: FloatArray | None,
    center: Pivot,
    label: int,
    reach: FloatArray | None,
    closest: FloatArray,
    labels: Labels,
) -> tuple[float, int]:
    """Every row is read; `closest` and `labels` may be on a device."""
    del reach
    own, marks = on_device(closest, points.tensor), on_device(labels, points.tensor).int()
    point, omega = _put(center.point, points), doubles_on(weights, points)
    precision = _put(center.precision, points)
    cost = float(operations.closer(rows_of(points), omega, point, precision, label, own, marks))
    for target, found in ((closest, own), (labels, marks)):
        if getattr(target, "tensor", None) is not found:
            write(target, slice(None), found)
    return cost, 0


def own_distances(
    points: DeviceArray, centers: FloatArray, labels: Labels, precision: FloatArray | None
) -> FloatArray:
    """NaN for a label that is negative."""
    own, exact = on_device(labels, points.tensor).int(), _put(centers, points)
    found = operations.own_distances(rows_of(points), exact, own, _put(precision, points))
    return np.asarray(found.cpu().numpy())


def cluster_sums(
    points: DeviceArray,
    weights: FloatArray | None,
    labels: Labels,
    wanted: Mask,
    around: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Rows in the order of their labels; those with a negative label are left out."""
    own = on_device(labels, points.tensor).int()
    if not wanted.all():
        own = own.where(on_device(wanted, points.tensor)[own.long()], -1)
    totals, sums = operations.cluster_sums(
        rows_of(points), doubles_on(weights, points), own, len(around), _put(around, points)
    )
    return totals.cpu().numpy(), sums.cpu().numpy()


def _to_host(*parts: Tensor) -> FloatArray:
    """Numbers and vectors one after the other, in one copy."""
    return np.asarray(torch.cat([part.reshape(-1) for part in parts]).cpu().numpy())

"""k-means++ on a device: rounds in float32 while these have the digits, then in float64.

The uniform numbers are drawn on the host, as for rows of the host, so that the same points are
chosen up to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lwcs.geometry.device import DeviceRows

if TYPE_CHECKING:
    from lwcs.foundation.types import FloatArray, IntArray
    from lwcs.solvers.points import Points


def choose_on_device(
    points: Points, uniforms: FloatArray, first: IntArray, down_to: float
) -> IntArray:
    """Points chosen by the rounds of `kmeans_plusplus`; fewer than k if there are no more.

    Rounds in float32 end when the cost has fallen to the part `down_to` of the spread.
    """
    from lwcs.kernels.device.seeding import Seeding, choose

    rows = points.rows
    assert isinstance(rows, DeviceRows)
    weights = points.device_weights / float(points.weights.sum())
    put, chosen = rows.put(uniforms), rows.put(first)
    frame = rows.geometry.metric.frame(rows.sample(), np.float32)
    if frame.dtype == np.float32:
        stop_at = down_to * points.average * frame.unit**2
        origin, factor = rows.put(frame.origin.astype(np.float32)), rows.put(frame.factor)
        chosen = choose(Seeding(rows.tensor, weights, put, stop_at, origin, factor), chosen)
    if len(chosen) < len(uniforms):
        wide = Seeding(rows.tensor, weights, put, 0.0, precision=rows.precision)
        chosen = choose(wide, chosen, _closest(rows, chosen))
    return np.array(chosen.cpu().numpy())


def _closest(rows: DeviceRows, chosen: object) -> object:
    """The distance of every row to the nearest of some of them."""
    from lwcs.kernels import device as kernels

    centers = rows.tensor[chosen].double()
    return kernels.nearest(rows.tensor, centers, rows.precision, distances=True).distances

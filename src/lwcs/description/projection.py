"""Map and colours of clusters, which are the same in figures and in the report.

The axes of the map are chosen without the outermost values, since a few rows of a heavy tail would
choose both otherwise; these rows are still drawn, outside of the first view. For a divergence,
columns are scaled by √φ″ at the mean, as distances near the mean are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh

from lwcs.arrays.rows import (
    as_dense,
    is_sparse,
    product_around,
    scaled_around,
    weighted_moments,
    weighted_quantiles,
)
from lwcs.storage.fields import SMALLEST_SCALE

# The palette of Okabe and Ito, which is safe for all kinds of colour vision.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)

# Yellow and black are left out: one is lost on white, the other looks like text.
DISTINCT = (BLUE, ORANGE, GREEN, RED, SKY, PINK, "#12239E", "#8F3A1F", "#BCCFBC", "#4A1208")
"""Colours of up to ten clusters, which stay apart for all kinds of colour vision."""
ON_DARK = (
    "#437AAF", "#EEB831", "#22A96B", "#F06319", "#62BAF7", "#D786B3", "#9D7BFF", "#B44600",
    "#BCCFBC", "#7F6868",
)  # fmt: skip
"""These ten on a dark page, as similar as a contrast of 3 with the page allows."""
# Multiples of these two steps cover the plane of hues and lightnesses evenly, for any number.
_HUE_STEP, _LIGHTNESS_STEP = 0.569840290998, 0.754877666247
_FIRST_HUE, _CHROMA = 250.0, 0.13
# Ends of the lightness in OKLCH: on a light page, and on a dark one.
_LIGHT, _DARK = (0.42, 0.67), (0.60, 0.84)


def cluster_colours(n_clusters: int, *, dark: bool = False) -> list[str]:
    """One colour per cluster: up to ten distinct ones, or a hue and a lightness for each.

    Clusters with neighbouring numbers look different. Colours for a dark page are lighter.
    """
    distinct, (low, high) = (ON_DARK, _DARK) if dark else (DISTINCT, _LIGHT)
    if n_clusters <= len(distinct):
        return list(distinct[:n_clusters])
    return [
        oklch(
            low + (high - low) * (cluster * _LIGHTNESS_STEP % 1.0),
            _CHROMA,
            _FIRST_HUE + 360.0 * (cluster * _HUE_STEP % 1.0),
        )
        for cluster in range(n_clusters)
    ]


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """A colour of OKLCH in hexadecimal sRGB (Björn Ottosson, 2020), clipped to its range."""
    a, b = chroma * cos(hue * pi / 180.0), chroma * sin(hue * pi / 180.0)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255.0 * _gamma(min(max(one, 0.0), 1.0))):02x}" for one in linear)


def _gamma(linear: float) -> float:
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1.0 / 2.4) - 0.055


if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, Mask
    from lwcs.description import Description

    View = tuple[tuple[float, float], tuple[float, float]]

# Up to this number of columns, the covariance matrix is formed.
_MOST_COLUMNS = 1_024
# Vectors and steps of the subspace iteration otherwise: a map needs no more than two digits.
_VECTORS, _STEPS = 10, 8
# Values beyond this quantile of their column, on either side, are clipped before axes are chosen.
_TAIL = 0.005
# The part of the weight on either side that the first view leaves out.
_OUTSIDE = 0.01
_MARGIN = 0.08
# The strongest colour of a heat map: a quantile of the clusters, and how far the largest difference
# may be above that to have a colour of its own.
_SATURATED, _MUCH = 0.8, 1.5
# Relative difference below which parts of a direction are equal.
_EQUAL_PARTS = 1e-6
# Distance of the edge from a center, as a part of the width.
_CENTER_MARGIN = 0.06


@dataclass(frozen=True, eq=False)
class Projection:
    """Points and centers in two dimensions."""

    points: FloatArray
    centers: FloatArray
    axes: tuple[str, str]
    """Labels of the two axes."""
    explained: tuple[float, float] | None
    """Part of the variance along each axis; None if the axes are columns."""
    view: View
    """Ends of the x axis and of the y axis that have almost all of the weight."""
    outside: float = 0.0
    """Part of the weight that is not in this view."""
    hidden: tuple[int, ...] = ()
    """Clusters whose centers are not in this view."""

    def viewed(self, view: View, weights: FloatArray) -> Projection:
        """These points in another view."""
        away = weights[~within(self.points, view)].sum() / weights.sum()
        hidden = tuple(np.flatnonzero(~within(self.centers, view)).tolist())
        return replace(self, view=view, outside=float(away), hidden=hidden)


def colour_limit(values: FloatArray) -> float:
    """The difference that has the strongest colour of a heat map, with one column per cluster.

    Four of five clusters differ by no more in their most telling column, so that one cluster far
    from all others does not leave them pale. It is at least one standard deviation, and the largest
    difference if that is not much larger.
    """
    most = np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=0, initial=0.0)
    largest = float(most.max(initial=1.0))
    limit = max(float(np.quantile(most, _SATURATED, method="lower")), 1.0)
    return largest if largest < _MUCH * limit else limit


def project(description: Description) -> Projection:
    """Project the points of a description, and its centers."""
    points, centers, axes, explained = _coordinates(description)
    weights = description.coreset.host_weights
    view = view_of(points, centers, weights)
    return Projection(points, centers, axes, explained, view).viewed(view, weights)


def view_of(points: FloatArray, centers: FloatArray, weights: FloatArray) -> View:
    """Ends of both axes, which have almost all of the weight, and all centers but distant ones."""
    across, along = (
        _with_near(_ends(values, weights), own)
        for values, own in zip(points.T, centers.T, strict=True)
    )
    return across, along


def within(points: FloatArray, view: View) -> Mask:
    """Whether each point is in a view."""
    low, high = np.array(view).T
    inside: Mask = ((points >= low) & (points <= high)).all(axis=1)
    return inside


def _with_near(ends: tuple[float, float], centers: FloatArray) -> tuple[float, float]:
    """Extend the ends of an axis to all centers within the width of the axis from them."""
    low, high = ends
    width = high - low
    near = centers[(centers > low - width) & (centers < high + width)]
    margin = _CENTER_MARGIN * width
    return (
        float(min(low, (near - margin).min(initial=low))),
        float(max(high, (near + margin).max(initial=high))),
    )


def _coordinates(
    description: Description,
) -> tuple[FloatArray, FloatArray, tuple[str, str], tuple[float, float] | None]:
    d, own = len(description.names), description.own_centers.points
    if d == 1:
        values = (as_dense(description.points) + description.zeros)[:, 0]
        apart = np.abs(values - own[description.labels, 0])
        flat = np.column_stack([own[:, 0], np.zeros(len(own))])
        axes = (description.names[0], "distance from the center")
        return np.column_stack([values, apart]), flat, axes, None
    if d == 2:
        one, other = description.names
        return as_dense(description.points) + description.zeros, own, (one, other), None
    directions, explained = _directions(description)
    scaled = directions / _scale(description)[:, None]
    points, centers = (
        _in_units(product_around(rows, mean, scaled), description)
        for rows, mean in (
            (description.points, description.mean - description.zeros),
            (own, description.mean),
        )
    )
    axes = (_axis("first", explained[0]), _axis("second", explained[1]))
    return points, centers, axes, explained


def _axis(which: str, part: float) -> str:
    shown = f"{100 * part:.0f}" if part >= 0.01 else f"{100 * part:.1g}"
    return f"{which} principal component ({shown} % of the variance)"


def _scale(description: Description) -> FloatArray:
    """The scale of the columns in distances; for a divergence 1/√φ″ at the mean."""
    own, d = description.geometry, len(description.names)
    if own.scale is not None:
        return np.asarray(own.scale)
    if own.squared:
        # A common factor keeps squares within the range of floating point.
        finite = description.deviation[np.isfinite(description.deviation)]
        return np.full(d, max(float(finite.max(initial=0.0)), SMALLEST_SCALE))
    step = 1e-4 * np.maximum(np.abs(description.mean), SMALLEST_SCALE)
    with np.errstate(all="ignore"):
        change = own.divergence.gradient(description.mean + step) - own.divergence.gradient(
            description.mean
        )
        slopes = change / step
    return np.divide(1.0, np.sqrt(slopes), out=np.ones(d), where=np.isfinite(slopes) & (slopes > 0))


def _in_units(points: FloatArray, description: Description) -> FloatArray:
    """Coordinates in the units of distances, unless they would overflow."""
    own = description.geometry
    if own.scale is not None or not own.squared:
        return points
    with np.errstate(over="ignore"):
        wide: FloatArray = points * _scale(description)[0]
    return wide if np.isfinite(wide).all() else points


def _directions(description: Description) -> tuple[FloatArray, tuple[float, float]]:
    """Two principal directions of the weighted points, and their parts of the variance."""
    weights = description.coreset.host_weights / description.coreset.host_weights.sum()
    roots = np.sqrt(weights)
    whole: Any = scaled_around(
        description.points, description.mean - description.zeros, _scale(description)
    )
    sparse = is_sparse(whole)
    rows: Any = whole if sparse else _without_tails(whole, weights)
    mean, d = np.asarray(rows.T @ weights), rows.shape[1]
    if d <= _MOST_COLUMNS and not sparse:
        around = (rows - mean) * roots[:, None]
        directions = eigh(around.T @ around, subset_by_index=[d - 2, d - 1])[1][:, ::-1]
    else:
        directions = _by_iteration(rows, mean, roots)
    directions = directions * _signs(directions)
    # Tails do not choose directions, but they are a part of the variance.
    center, deviation = weighted_moments(whole, weights)
    total = float(deviation @ deviation)
    along = weights @ product_around(whole, center, directions) ** 2
    parts = np.clip(along / total, 0.0, 1.0) if total > 0.0 else np.zeros(2)
    return directions, (float(parts[0]), float(parts[1]))


def _signs(directions: FloatArray) -> FloatArray:
    """Signs that make the largest part of each direction positive, as signs are arbitrary.

    Of parts that differ by rounding alone, which depends on the processor, the first decides.
    """
    sizes = np.abs(directions)
    first = (sizes >= (1.0 - _EQUAL_PARTS) * sizes.max(axis=0)).argmax(axis=0)
    return np.where(directions[first, np.arange(directions.shape[1])] < 0.0, -1.0, 1.0)


def _by_iteration(rows: Any, mean: FloatArray, roots: FloatArray) -> FloatArray:
    """Eigenvectors of the two largest eigenvalues of the covariance, by subspace iteration."""
    d = rows.shape[1]
    basis = np.random.default_rng(0).standard_normal((d, min(_VECTORS, d)))
    for _ in range(_STEPS):
        basis = np.linalg.qr(basis)[0]
        along = roots[:, None] * (rows @ basis - mean @ basis)
        basis = rows.T @ (roots[:, None] * along) - np.outer(mean, roots @ along)
    basis = np.linalg.qr(basis)[0]
    along = roots[:, None] * (rows @ basis - mean @ basis)
    inner = eigh(along.T @ along)[1]
    return np.asarray(basis @ inner[:, [-1, -2]])


def _without_tails(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Rows with the outermost values of each column clipped to its quantiles."""
    low, high = weighted_quantiles(rows, weights, (_TAIL, 1.0 - _TAIL))
    return np.clip(rows, low, high)


def _ends(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Ends of an axis: quantiles of the points, or their extremes if these are not far beyond."""
    low, high = map(float, weighted_quantiles(values, weights, (_OUTSIDE, 1.0 - _OUTSIDE)))
    lowest, highest = float(values.min()), float(values.max())
    if highest - lowest <= 2.0 * (high - low):
        low, high = lowest, highest
    room = _MARGIN * (high - low) or max(abs(low), 1.0) * 0.5
    return low - room, high + room

"""The map of the report: its points, as many of their values as fit into the file, and the figure.

Without a graphics processor, 100,000 points take half a second to draw. While the map is moved, by
mouse, button or key, the page therefore draws a tenth of them, and afterwards all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.device import copied
from lwcs.arrays.rows import some_columns
from lwcs.reporting.figures import new_figure, plain_text
from lwcs.runtime.formatting import shortened

if TYPE_CHECKING:
    import numpy.typing as npt

    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.description import Description
    from lwcs.reporting.figures import Theme


MOST_POINTS = 100_000
MOST_COLUMNS = 8
"""Number of values of a point in a tooltip."""
# Bytes of all arrays of the map in the file, where 3 bytes become 4 letters. The scripts take
# 1.5 MB, and the tables of 500 clusters less than 1 MB: together less than 6 MB.
_BUDGET = 3_600_000
_SEED = 0
# float32 has all integers up to here.
_WHOLE = 2**24


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Columns of the points on the map, in the smallest types that hold their values.

    The heaviest points are first: they are drawn first, so that they do not cover others.
    """

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    clusters: npt.NDArray[Any]
    weights: npt.NDArray[Any]
    rows: npt.NDArray[Any]
    """Row numbers in the data."""
    columns: list[int]
    """Numbers of the columns of `values`, the most telling first."""
    values: list[npt.NDArray[Any]]
    of: int
    """Number of points of the coreset."""

    @classmethod
    def of_description(cls, description: Description) -> MapPoints:
        """Choose the points, and the columns whose values fit."""
        chosen = _chosen(description.coreset.host_weights)
        view = description.projection.view
        x, y = (
            _coordinates(description.projection.points[chosen, axis], view[axis][1] - view[axis][0])
            for axis in (0, 1)
        )
        arrays = (
            x,
            y,
            _smallest(description.labels[chosen], description.k),
            description.coreset.host_weights[chosen].astype(np.float32),
            _smallest(description.coreset.indices[chosen], description.coreset._scanned_rows),
        )
        left = _BUDGET - sum(map(_in_file, arrays))
        columns: list[int] = []
        values: list[npt.NDArray[Any]] = []
        leading = description.telling_columns[:MOST_COLUMNS]
        given_values = some_columns(copied(description.coreset.host_points), leading)[chosen]
        for j, given in zip(leading, given_values.T, strict=True):
            column = _compact(given)
            left -= _in_file(column)
            if left < 0:
                break
            columns.append(int(j))
            values.append(column)
        return cls(*arrays, columns, values, len(description.labels))

    def __len__(self) -> int:
        """Number of points on the map."""
        return len(self.x)


def _chosen(weights: FloatArray) -> IntArray:
    """Up to MOST_POINTS points, the heaviest first; of more, a random choice with a fixed seed."""
    chosen = np.arange(len(weights))
    if len(weights) > MOST_POINTS:
        chosen = np.random.default_rng(_SEED).choice(chosen, MOST_POINTS, replace=False)
        chosen.sort()
    return chosen[np.argsort(-weights[chosen], kind="stable")]


def _in_file(values: npt.NDArray[Any]) -> int:
    """Bytes of an array in the file."""
    return 4 * ((values.nbytes + 2) // 3)


def _smallest(values: IntArray, stop: int) -> npt.NDArray[Any]:
    """Integers from 0 to `stop` in few bytes; JavaScript has no arrays of 64-bit integers."""
    for kind in (np.uint8, np.uint16, np.int32):
        if stop <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.float64)


def _coordinates(values: FloatArray, width: float) -> npt.NDArray[Any]:
    """Coordinates, in single precision if that moves no point visibly."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    error = np.abs(single - values).max(initial=0.0)
    return single if error <= 1e-5 * width else values


def _compact(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values of a column in the smallest type that is exact enough for a tooltip."""
    if values.dtype.kind in "biu" or bool((values == np.trunc(values)).all()):
        least, most = values.min(), values.max()
        for kind in (np.uint8, np.int16, np.int32):
            if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                return values.astype(kind)
    wide = values.astype(np.float64)
    if np.abs(wide).max(initial=0.0) < _WHOLE:
        return wide.astype(np.float32)
    return wide


HEIGHT = 520
_WIDTH = 1_000
"""Width and height of the figure in pixels, the width approximately."""
# Points cover about this part of the map, unless that makes few of them too large.
_COVERED = 0.12
_USUAL, _LARGEST, _SMALLEST = 9.0, 44.0, 2.0
"""Diameters in pixels: of the average point at most, of any point at most, and at least."""
_KNOTS = 96
_LABEL = 32


def map_figure(description: Description, points: MapPoints, theme: Theme) -> Any:
    """Draw the map."""
    from bokeh.models import (
        CDSView,
        ColumnDataSource,
        HoverTool,
        IndexFilter,
        PanTool,
        Range1d,
        TapTool,
        WheelZoomTool,
    )
    from bokeh.transform import linear_cmap, transform

    (left, right), (bottom, top) = description.projection.view
    made = new_figure(
        "map",
        HEIGHT,
        x_range=Range1d(start=left, end=right),
        y_range=Range1d(start=bottom, end=top),
        output_backend="webgl",
    )
    source = ColumnDataSource(
        {
            "x": points.x,
            "y": points.y,
            "cluster": points.clusters,
            "weight": points.weights,
            "row": points.rows,
            **{f"v{j}": values for j, values in enumerate(points.values)},
        },
        name="points",
    )
    places = {"x": "x", "y": "y", "size": transform("weight", _diameters(points.weights))}
    made.scatter(
        **places, source=source, name="others", visible=False, line_color=None, fill_alpha=0.35,
        fill_color=theme.faint, nonselection_fill_alpha=0.35,
    )  # fmt: skip
    colours = linear_cmap("cluster", theme.clusters, low=-0.5, high=description.k - 0.5)
    drawn = made.scatter(
        **places, source=source, name="shown", view=CDSView(filter=IndexFilter(name="alone")),
        line_color=None, fill_alpha=0.6, fill_color=colours, nonselection_fill_alpha=0.6,
    )  # fmt: skip
    wheel = WheelZoomTool(modifiers={"ctrl": True})
    formatted = ("@weight", *(f"@v{j}" for j in range(len(points.values))))
    formatters: Any = dict.fromkeys(formatted, "printf")
    hover = HoverTool(
        renderers=[drawn], tooltips=_tooltips(description, points), formatters=formatters,
        point_policy="snap_to_data", limit=1, attachment="horizontal",
    )  # fmt: skip
    pan = PanTool()
    made.add_tools(pan, wheel, hover, TapTool(renderers=[drawn]))
    made.toolbar.active_drag, made.toolbar.active_scroll = pan, wheel
    for axis, name in zip((made.xaxis, made.yaxis), description.projection.axes, strict=True):
        axis.axis_label = plain_text(shortened(name, 60))
    return made


def _tooltips(description: Description, points: MapPoints) -> list[tuple[str, str]]:
    """The lines of a tooltip; names of columns are not part of its templates."""
    lines = [("row", "@row{0,0}"), (description.called, "@cluster"), ("weight", "@weight{%.4g}")]
    return lines + [
        (shortened(description.names[j], _LABEL), f"@v{place}{{%.7g}}")
        for place, j in enumerate(points.columns)
    ]


def _diameters(weights: Any) -> Any:
    """Diameters of points as a function of their weights, which areas are in proportion to.

    Bokeh interpolates between values that are close to each other, so that the file needs no array
    of diameters.
    """
    from bokeh.models import LinearInterpolator

    weights = weights.astype(np.float64)
    heaviest = float(weights.max(initial=0.0)) or 1.0
    total = float(weights.sum()) or 1.0
    area = _COVERED * _WIDTH * HEIGHT / total
    area = min(area, pi / 4.0 * _USUAL**2 * len(weights) / total, pi / 4.0 * _LARGEST**2 / heaviest)
    factor = 2.0 * sqrt(area / pi)
    lightest = min(max((_SMALLEST / factor) ** 2, 0.0), heaviest)
    knots = np.geomspace(max(lightest, 1e-9 * heaviest), heaviest, _KNOTS)
    if knots[0] >= heaviest:
        return LinearInterpolator(
            x=[0.0, heaviest], y=[_SMALLEST, max(_SMALLEST, factor * sqrt(heaviest))]
        )
    y = np.maximum(factor * np.sqrt(knots), _SMALLEST)
    return LinearInterpolator(x=[0.0, *knots.tolist()], y=[_SMALLEST, *y.tolist()], clip=False)

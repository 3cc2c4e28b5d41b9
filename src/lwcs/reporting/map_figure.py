"""The map: points of the coreset in two dimensions, with an area in proportion to their weight."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.foundation.numerals import shortened
from lwcs.reporting.bokeh_figures import new_figure, plain_text

if TYPE_CHECKING:
    from lwcs.describing import Description
    from lwcs.foundation.types import FloatArray
    from lwcs.reporting.colours import Theme
    from lwcs.reporting.points import Points

HEIGHT = 520
_WIDTH = 1_000
"""About that of the figure, in pixels, as its height."""
# Points cover about this part of the map, unless that makes few of them too large.
_COVERED = 0.12
_USUAL, _LARGEST, _SMALLEST = 9.0, 44.0, 2.0
"""Diameters in pixels: of the average point at most, of any point at most, and at least."""
_KNOTS = 96
_LABEL = 32


def map_figure(found: Description, points: Points, theme: Theme) -> Any:
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

    (left, right), (bottom, top) = found.projection.view
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
    how = {"x": "x", "y": "y", "size": transform("weight", _diameters(points.weights))}
    made.scatter(
        **how, source=source, name="others", visible=False, line_color=None, fill_alpha=0.35,
        fill_color=theme.faint, nonselection_fill_alpha=0.35,
    )  # fmt: skip
    colours = linear_cmap("cluster", theme.clusters, low=-0.5, high=found.k - 0.5)
    drawn = made.scatter(
        **how, source=source, name="shown", view=CDSView(filter=IndexFilter(name="alone")),
        line_color=None, fill_alpha=0.6, fill_color=colours, nonselection_fill_alpha=0.6,
    )  # fmt: skip
    wheel = WheelZoomTool(modifiers={"ctrl": True})
    hover = HoverTool(
        renderers=[drawn], tooltips=_tooltips(found, points), formatters=_formatters(points),
        point_policy="snap_to_data", limit=1, attachment="horizontal",
    )  # fmt: skip
    pan = PanTool()
    made.add_tools(pan, wheel, hover, TapTool(renderers=[drawn]))
    made.toolbar.active_drag, made.toolbar.active_scroll = pan, wheel
    for axis, name in zip((made.xaxis, made.yaxis), found.projection.axes, strict=True):
        axis.axis_label = plain_text(shortened(name, 60))
    return made


def _tooltips(found: Description, points: Points) -> list[tuple[str, str]]:
    """What is shown of a point; names of columns are text, and never a part of a template."""
    own = [("row", "@row{0,0}"), (found.called, "@cluster"), ("weight", "@weight{%.4g}")]
    return own + [
        (shortened(found.names[j], _LABEL), f"@v{place}{{%.7g}}")
        for place, j in enumerate(points.columns)
    ]


def _formatters(points: Points) -> Any:
    return dict.fromkeys(("@weight", *(f"@v{j}" for j in range(len(points.values)))), "printf")


def _diameters(weights: Any) -> Any:
    """The diameter of a point by its weight: its area is in proportion to that.

    Bokeh interpolates between values that are close to each other, so that the file has no second
    array of as many numbers.
    """
    from bokeh.models import LinearInterpolator

    own: FloatArray = weights.astype(np.float64)
    heaviest = float(own.max(initial=0.0)) or 1.0
    total = float(own.sum()) or 1.0
    area = _COVERED * _WIDTH * HEIGHT / total
    area = min(area, pi / 4.0 * _USUAL**2 * len(own) / total, pi / 4.0 * _LARGEST**2 / heaviest)
    factor = 2.0 * sqrt(area / pi)
    lightest = min(max((_SMALLEST / factor) ** 2, 0.0), heaviest)
    knots = np.geomspace(max(lightest, 1e-9 * heaviest), heaviest, _KNOTS)
    if knots[0] >= heaviest:
        return LinearInterpolator(
            x=[0.0, heaviest], y=[_SMALLEST, max(_SMALLEST, factor * sqrt(heaviest))]
        )
    y = np.maximum(factor * np.sqrt(knots), _SMALLEST)
    return LinearInterpolator(x=[0.0, *knots.tolist()], y=[_SMALLEST, *y.tolist()], clip=False)

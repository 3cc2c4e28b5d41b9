"""Histograms of the sizes of clusters, and of the distances of rows from their centers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.description.projection import quantiles
from lwcs.reporting.facts import size_words
from lwcs.reporting.figures import new_figure
from lwcs.runtime.formatting import number

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description
    from lwcs.reporting.figures import Theme

HEIGHT = 300
BARS = 40
"""So many clusters have a bar each; more are counted in a histogram."""
_BINS = 40
# Sizes that span a larger factor are drawn on a log axis.
_WIDE = 30.0
# Distances beyond this quantile are counted in the last bin.
_TAIL = 0.995


@dataclass(frozen=True, eq=False)
class Histogram:
    """Bars between edges, and what they are about."""

    name: str
    label: str
    counted: str
    left: FloatArray
    right: FloatArray
    top: FloatArray
    words: str
    """The same in a sentence."""
    log: bool = False
    clusters: bool = False
    """Whether there is one bar per cluster."""


def of_sizes(found: Description) -> Histogram:
    """Sizes of the clusters: one bar each, or a histogram if there are many."""
    sizes, what = found.size, found.called
    rows = "weight of rows" if found.has_weights else "rows"
    low, middle, high = np.quantile(sizes, [0.0, 0.5, 1.0])
    least, usual, most = (size_words(each, found) for each in (low, middle, high))
    has = f"a weight of {least}" if found.has_weights else f"{least} rows"
    words = f"The smallest {what} has {has}, the median one {usual}, the largest {most}."
    if found.k == 1:
        words = f"The only {what} has all rows."
    if found.k <= BARS:
        at = np.arange(found.k, dtype=np.float64)
        order = np.argsort(-sizes, kind="stable")
        return Histogram(
            "sizes", f"{what}, the largest first", rows, at - 0.4, at + 0.4, sizes[order], words,
            clusters=True,
        )  # fmt: skip
    some = sizes[sizes > 0.0]
    log = bool(some.max() > _WIDE * some.min())
    ends = np.log10(some) if log else some
    low, end = _ends(float(ends.min()), float(ends.max()))
    counts, edges = np.histogram(ends, min(_BINS, 2 * int(np.sqrt(found.k))), (low, end))
    edges = 10.0**edges if log else edges
    return Histogram(
        "sizes", f"{rows} of a {what}", f"{what}s", edges[:-1], edges[1:],
        counts.astype(np.float64), words, log=log,
    )  # fmt: skip


def of_distances(found: Description) -> Histogram:
    """Distances of all rows from their centers, by the weighted points of the coreset."""
    values, label = _distances(found)
    weights = found.coreset.host_weights / found.coreset.host_weights.sum()
    middle, most, end = map(float, quantiles(values, weights, (0.5, 0.95, _TAIL)))
    low, largest = float(values.min()), float(values.max())
    if largest <= 1.5 * end or end <= low:
        end = largest
    low, end = _ends(low, end)
    cut = np.minimum(values, end)
    counts, edges = np.histogram(cut, bins=_BINS, range=(low, end), weights=100.0 * weights)
    words = (
        f"Half of the rows have a {label} of at most {number(middle, 3)}, and "
        f"95\N{NO-BREAK SPACE}% of at most {number(most, 3)}"
    )
    words += (
        f"; the last bar has all above {number(end, 3)}, up to {number(largest, 3)}."
        if end < largest
        else "."
    )
    return Histogram(
        "distances", label, "percent of rows", edges[:-1], edges[1:], counts.astype(np.float64),
        words,
    )  # fmt: skip


def _ends(low: float, high: float) -> tuple[float, float]:
    """Ends of a histogram; values that are equal to rounding are in its middle."""
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    half = 0.5 * abs(low) or 0.5
    return low - half, low + half


def _distances(found: Description) -> tuple[FloatArray, str]:
    """A value for every point of the coreset, and its name."""
    if found.is_mixture:
        return found.costs, "negative log-likelihood"
    own = found.geometry
    return own.lengths(found.costs), f"{own.length_name} from the center"


def histogram_figure(found: Description, histogram: Histogram, theme: Theme) -> Any:
    """Draw a histogram."""
    from bokeh.models import ColumnDataSource, FixedTicker, HoverTool

    own = histogram
    made = new_figure(own.name, HEIGHT, x_axis_type="log" if own.log else "auto")
    source = ColumnDataSource(
        {
            "left": own.left,
            "right": own.right,
            "top": own.top,
            "count": [number(each, 3) for each in own.top],
            "range": [
                f"{number(low, 3)} to {number(high, 3)}"
                for low, high in zip(own.left, own.right, strict=True)
            ],
        }
    )
    drawn = made.quad(
        left="left", right="right", top="top", bottom=0, source=source, name="bars",
        fill_color=theme.bar, line_color=None if own.clusters else theme.bar,
        line_alpha=0.0, fill_alpha=0.9,
    )  # fmt: skip
    first = (found.called, "@cluster") if own.clusters else (own.label, "@range")
    made.add_tools(HoverTool(renderers=[drawn], tooltips=[first, (own.counted, "@count")]))
    made.y_range.start = 0
    made.xgrid.visible = False
    made.xaxis.axis_label, made.yaxis.axis_label = own.label, own.counted
    if own.clusters:
        order = np.argsort(-found.size, kind="stable")
        source.data["cluster"] = order.astype(np.int32)
        made.xaxis.ticker = FixedTicker(ticks=list(range(found.k)))
        made.xaxis.major_label_overrides = {j: str(c) for j, c in enumerate(order)}
    return made

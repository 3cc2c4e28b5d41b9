"""Figures of the report but for the map: histograms and profiles, with their colours and axes.

Every figure has colours for a light and for a dark page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import weighted_quantiles
from lwcs.description.projection import cluster_colours, colour_limit, oklch
from lwcs.reporting.facts import size_words
from lwcs.runtime.formatting import number, shortened, signed

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.description import Description


_HEAT_STEPS = 33


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of figures on a light or on a dark page; those of text are in the style sheet."""

    text: str
    line: str
    grid: str
    bar: str
    faint: str
    """Points of other clusters, while one is shown alone."""
    clusters: list[str]
    heat: list[str]
    """From far below the mean to far above it."""


def themes(k: int) -> dict[str, Theme]:
    """The colours of k clusters on both kinds of page."""
    return {
        "light": Theme(
            "#3f4650", "#b9bfc7", "#e8eaed", "#3b6ea5", "#c9ced6",
            cluster_colours(k), _heat(0.975, 0.50),
        ),
        "dark": Theme(
            "#c3c9d1", "#5b636e", "#2b3138", "#7aa7d9", "#4a515b",
            cluster_colours(k, dark=True), _heat(0.27, 0.72),
        ),
    }  # fmt: skip


def _heat(middle: float, end: float) -> list[str]:
    """A diverging scale: blue below the mean, the colour of the page at it, red above."""
    half = _HEAT_STEPS // 2
    parts = [(j - half) / half for j in range(_HEAT_STEPS)]
    return [
        oklch(middle + (end - middle) * abs(t), 0.17 * abs(t), 255.0 if t < 0.0 else 30.0)
        for t in parts
    ]


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def bokeh() -> Any:
    """Import bokeh, or say how to install it."""
    try:
        import bokeh.plotting
    except ImportError as error:
        raise ImportError(
            "the report needs Bokeh, which is not installed; run pip install 'lwcs[plot]'"
        ) from error
    return bokeh


def scripts() -> list[str]:
    """The scripts of Bokeh that a page needs: the library, and drawing by WebGL."""
    bokeh()
    from bokeh.resources import Resources

    resources = Resources(mode="inline", components=["bokeh", "bokeh-gl"], log_level="error")
    return [each for each in resources.js_raw if not each.startswith("Bokeh.set_log_level")]


def plain_text(text: str) -> Any:
    """Text that is not read as a formula, as Bokeh would read it between dollar signs."""
    from bokeh.models import PlainText

    return PlainText(text=text)


# Labels of a linear axis: as few decimals as the ticks need, and powers of ten as in the text.
_TICK = """
  if (tick === 0) return "0";
  const largest = Math.max(...ticks.map(Math.abs));
  const steps = ticks.slice(1).map((each, i) => Math.abs(each - ticks[i])).filter((by) => by > 0);
  const step = steps.length ? Math.min(...steps) : largest;
  const power = Math.floor(Math.log10(largest) + 1e-9);
  const far = power >= 6 || power < -3;
  const unit = far ? Math.pow(10, power) || 1 : 1;
  const decimals = Math.min(Math.max(-Math.floor(Math.log10(step / unit) + 1e-9), 0), 12);
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const raised = [...String(power)].map((each) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(each)]);
  const text = (Math.abs(tick) / unit).toLocaleString("en", digits);
  return (tick < 0 ? "−" : "") + text + (far ? ` × 10${raised.join("")}` : "");
"""


def new_figure(name: str, height: int, **options: Any) -> Any:
    """An empty figure as wide as the page, which sets its colours for light or dark."""
    bokeh()
    from bokeh.models import CustomJSTickFormatter, LinearAxis
    from bokeh.plotting import figure

    made = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        toolbar_location=None,
        background_fill_alpha=0.0,
        border_fill_alpha=0.0,
        outline_line_color=None,
        min_border=8,
        **{"tools": "", **options},
    )
    for axis in (*made.xaxis, *made.yaxis):
        if isinstance(axis, LinearAxis):
            axis.formatter = CustomJSTickFormatter(code=_TICK)  # type: ignore[assignment]
    made.axis.axis_label_text_font = FONT
    made.axis.major_label_text_font = FONT
    made.axis.axis_label_text_font_style = "normal"
    made.axis.axis_label_text_font_size = "13px"
    made.axis.major_label_text_font_size = "12px"
    made.axis.minor_tick_line_color = None
    made.axis.major_tick_in = 0
    made.axis.major_tick_out = 4
    made.grid.grid_line_width = 1
    return made


HEIGHT = 300
BARS = 40
"""With at most this number of clusters, each has a bar; more are counted in a histogram."""
_BINS = 40
# Sizes that span a larger factor are drawn on a log axis.
_WIDE = 30.0
# Distances beyond this quantile are counted in the last bin.
_TAIL = 0.995


@dataclass(frozen=True, eq=False)
class Histogram:
    """Bars between edges, with labels of the axes and a sentence."""

    name: str
    label: str
    counted: str
    left: FloatArray
    right: FloatArray
    top: FloatArray
    words: str
    """The main numbers in a sentence."""
    log: bool = False
    clusters: bool = False
    """Whether there is one bar per cluster."""


def of_sizes(description: Description) -> Histogram:
    """Sizes of the clusters: one bar each, or a histogram if there are many."""
    sizes, what = description.size, description.called
    rows = "weight of rows" if description.has_weights else "rows"
    low, middle, high = np.quantile(sizes, [0.0, 0.5, 1.0])
    least, usual, most = (size_words(each, description) for each in (low, middle, high))
    has = f"a weight of {least}" if description.has_weights else f"{least} rows"
    words = f"The smallest {what} has {has}, the median one {usual}, the largest {most}."
    if description.k == 1:
        words = f"The only {what} has all rows."
    if description.k <= BARS:
        at = np.arange(description.k, dtype=np.float64)
        order = description.by_size
        return Histogram(
            "sizes", f"{what}, the largest first", rows, at - 0.4, at + 0.4, sizes[order], words,
            clusters=True,
        )  # fmt: skip
    some = sizes[sizes > 0.0]
    log = bool(some.max() > _WIDE * some.min())
    ends = np.log10(some) if log else some
    low, end = _ends(float(ends.min()), float(ends.max()))
    counts, edges = np.histogram(ends, min(_BINS, 2 * int(np.sqrt(description.k))), (low, end))
    edges = 10.0**edges if log else edges
    return Histogram(
        "sizes", f"{rows} of a {what}", f"{what}s", edges[:-1], edges[1:],
        counts.astype(np.float64), words, log=log,
    )  # fmt: skip


def of_distances(description: Description) -> Histogram:
    """Distances of all rows from their centers, by the weighted points of the coreset."""
    values, label = _distances(description)
    weights = description.coreset.host_weights / description.coreset.host_weights.sum()
    middle, most, end = map(float, weighted_quantiles(values, weights, (0.5, 0.95, _TAIL)))
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
    """Ends of a histogram; if all values are equal up to rounding, they are in its middle."""
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    half = 0.5 * abs(low) or 0.5
    return low - half, low + half


def _distances(description: Description) -> tuple[FloatArray, str]:
    """A value for every point of the coreset, and its name."""
    if description.is_mixture:
        return description.costs, "negative log-likelihood"
    geometry = description.geometry
    return geometry.lengths(description.costs), f"{geometry.length_name} from the center"


def histogram_figure(description: Description, histogram: Histogram, theme: Theme) -> Any:
    """Draw a histogram."""
    from bokeh.models import ColumnDataSource, FixedTicker, HoverTool

    made = new_figure(histogram.name, HEIGHT, x_axis_type="log" if histogram.log else "auto")
    source = ColumnDataSource(
        {
            "left": histogram.left,
            "right": histogram.right,
            "top": histogram.top,
            "count": [number(each, 3) for each in histogram.top],
            "range": [
                f"{number(low, 3)} to {number(high, 3)}"
                for low, high in zip(histogram.left, histogram.right, strict=True)
            ],
        }
    )
    drawn = made.quad(
        left="left", right="right", top="top", bottom=0, source=source, name="bars",
        fill_color=theme.bar, line_color=None if histogram.clusters else theme.bar,
        line_alpha=0.0, fill_alpha=0.9,
    )  # fmt: skip
    first = (description.called, "@cluster") if histogram.clusters else (histogram.label, "@range")
    made.add_tools(HoverTool(renderers=[drawn], tooltips=[first, (histogram.counted, "@count")]))
    made.y_range.start = 0
    made.xgrid.visible = False
    made.xaxis.axis_label, made.yaxis.axis_label = histogram.label, histogram.counted
    if histogram.clusters:
        order = description.by_size
        source.data["cluster"] = order.astype(np.int32)
        made.xaxis.ticker = FixedTicker(ticks=list(range(description.k)))
        made.xaxis.major_label_overrides = {j: str(c) for j, c in enumerate(order)}
    return made


MOST_CLUSTERS, MOST_COLUMNS = 40, 30
# Up to 100 clusters have numbers of two digits; fewer clusters with longer numbers fit.
_SHORT, MOST_LONG = 100, 28
_ROW, _NAME = 22, 26


@dataclass(frozen=True, eq=False)
class Profiles:
    """The profiles that are shown: of the largest clusters, in the most telling columns."""

    clusters: IntArray
    columns: IntArray
    values: FloatArray
    """One row per column of the data, one column per cluster, in standard deviations."""
    end: float
    """The difference of the strongest colour; larger ones have it too."""

    @classmethod
    def of(cls, description: Description) -> Profiles:
        """Choose as many clusters and columns as are readable."""
        most = MOST_CLUSTERS if description.k <= _SHORT else MOST_LONG
        clusters, columns = description.by_size[:most], description.telling_columns[:MOST_COLUMNS]
        values = description.profile[np.ix_(clusters, columns)].T
        return cls(clusters, columns, values, colour_limit(values))

    def words(self, description: Description) -> str:
        """Sentences on what is left out, and on the range of the colours."""
        parts = []
        if len(self.clusters) < description.k:
            parts.append(
                f"the {len(self.clusters)} largest of {description.k:,} {description.called}s"
            )
        if len(self.columns) < len(description.names):
            parts.append(
                f"the {len(self.columns)} columns of {len(description.names):,} that tell "
                f"{description.called}s apart best"
            )
        shown = f"Shown are {' and '.join(parts)}. " if parts else ""
        beyond = float(np.abs(self.values).max(initial=0.0)) > self.end * 1.001
        largest = number(np.abs(self.values).max(), 3)
        cut = (
            f"; larger differences, up to {largest}, have the same, so that a {description.called} "
            "far from all others does not make them look alike"
        )
        return f"{shown}The strongest colour is ±{number(self.end, 3)} standard deviations" + (
            f"{cut}." if beyond else "."
        )

    def cells(self, description: Description) -> list[tuple[str, list[str]]]:
        """The profiles as text: the name of every column, and its differences."""
        return [
            (description.names[j], [signed(value) for value in row])
            for j, row in zip(self.columns, self.values, strict=True)
        ]


def profile_figure(description: Description, profiles: Profiles, theme: Theme) -> Any:
    """Draw the profiles as a heat map: one row per column of the data, one column per cluster."""
    from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Range1d
    from bokeh.transform import linear_cmap

    rows, columns = profiles.values.shape
    made = new_figure(
        "profiles", 60 + _ROW * rows, x_range=Range1d(start=-0.5, end=columns - 0.5),
        y_range=Range1d(start=rows - 0.5, end=-0.5), x_axis_location="above",
    )  # fmt: skip
    y, x = np.divmod(np.arange(rows * columns), columns)
    clusters, names = profiles.clusters[x], [description.names[j] for j in profiles.columns]
    values = profiles.values.ravel()
    source = ColumnDataSource(
        {
            "x": x.astype(np.int32),
            "y": y.astype(np.int32),
            "value": np.nan_to_num(values).astype(np.float32),
            "cluster": clusters.astype(np.int32),
            "name": [shortened(names[place], 60) for place in y],
            "difference": [signed(value) for value in values],
            "center": [number(float(description.own_centers.points[c, j]))
                       for c, j in zip(clusters, profiles.columns[y], strict=True)],
        }
    )  # fmt: skip
    colours = linear_cmap("value", theme.heat, low=-profiles.end, high=profiles.end)
    drawn = made.rect(
        "x", "y", 1, 1, source=source, name="cells", fill_color=colours, line_width=1,
        line_color=theme.grid,
    )  # fmt: skip
    made.add_tools(
        HoverTool(
            renderers=[drawn],
            tooltips=[
                ("column", "@name"),
                (description.called, "@cluster"),
                ("difference", "@difference standard deviations"),
                ("center", "@center"),
            ],
        )
    )
    made.xaxis.ticker = FixedTicker(ticks=list(range(columns)))
    made.yaxis.ticker = FixedTicker(ticks=list(range(rows)))
    made.xaxis.major_label_overrides = {j: str(c) for j, c in enumerate(profiles.clusters)}
    made.yaxis.major_label_overrides = {
        j: plain_text(shortened(name, _NAME)) for j, name in enumerate(names)
    }
    made.axis.axis_line_color = None
    made.axis.major_tick_out = 0
    made.grid.visible = False
    made.xaxis.axis_label = description.called
    return made

"""ClusterMapDisplay, and how the points of a coreset are drawn on a map."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.description import describe
from lwcs.description.projection import cluster_colours
from lwcs.plotting.style import (
    INK,
    MUTED,
    SMALL,
    Display,
    axes_of,
    figure_style,
    name_text,
    number_tick,
    number_ticks,
)
from lwcs.runtime.formatting import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description
    from lwcs.description.projection import Projection


# Maximum numbers of clusters: with a legend, with their numbers on the map, named in the remark.
_IN_LEGEND = 10
_NUMBERED = 30
_NAMED = 4
# Minimum distance of numbers, as parts of the width and of the height.
_APART = (0.06, 0.055)
_SIZE = (6.4, 4.4)


class ClusterMapDisplay(Display):
    """Map of the clusters of a model: the points of its coreset, coloured by cluster.

    The area of a point is its weight. Data of two columns is shown as it is; of more columns, two
    principal components are shown. Numbers are at the centers. Create it with `from_model`.

    Parameters
    ----------
    description : Description
        Facts about the clusters, as ``lwcs.description.describe`` gives them.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes with the map.
    points_ : matplotlib PathCollection
        The points.
    text_ : list of matplotlib Text
        The numbers at the centers.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 1, (2_000, 5)) for c in (0, 8, 16)])
    >>> model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    >>> display = lwcs.ClusterMapDisplay.from_model(model)
    >>> [text.get_text() for text in display.text_]
    ['0', '1', '2']
    """

    def __init__(self, description: Description) -> None:
        self.description = description

    @classmethod
    def from_model(cls, model: Any, coreset: Any = None, *, ax: Any = None) -> ClusterMapDisplay:
        """Plot the clusters of a model.

        Parameters
        ----------
        model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
            Fitted model.
        coreset : Coreset or StreamingCoreset, optional
            Summary of the rows to show; the model's own `coreset_` by default. A model that was
            loaded from a file has none.
        ax : matplotlib Axes, optional
            Axes to draw in; a new figure by default.

        Returns
        -------
        ClusterMapDisplay
        """
        return cls(describe(model, coreset)).plot(ax)

    def plot(self, ax: Any = None) -> ClusterMapDisplay:
        """Plot the map again, in a new figure or in the given axes."""
        description = self.description
        self.figure_, self.ax_ = axes_of(ax, _SIZE)
        colours = cluster_colours(description.k)
        shown = projection_of(description)
        with figure_style(ax):
            own = [colours[label] for label in description.labels]
            self.points_ = draw_points(self.ax_, shown, description.coreset.host_weights, own)
            if shown.outside > 0.0:
                remark(self.ax_, f"{percent(shown.outside)} of the weight is outside{_with(shown)}")
            self._number(colours, shown)
            if 1 < description.k <= _IN_LEGEND:
                self._legend(colours)
            self.ax_.set_title(self._title())
        return self

    def _number(self, colours: list[str], shown: Projection) -> None:
        """Draw numbers at the centers in the view, the largest first, unless two would touch."""
        description, kept = self.description, dict[int, Any]()
        ends = np.array(shown.view)
        places = (shown.centers - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
        for cluster in description.by_size:
            place = places[cluster]
            if len(kept) == _NUMBERED or not ((place >= 0.0) & (place <= 1.0)).all():
                continue
            touching = any((np.abs(place - other) < _APART).all() for other in kept.values())
            if description.k <= _IN_LEGEND or not touching:
                kept[int(cluster)] = place
        self.text_ = [self._at_center(each, shown.centers, colours) for each in sorted(kept)]

    def _at_center(self, cluster: int, centers: FloatArray, colours: list[str]) -> Any:
        return self.ax_.text(
            *centers[cluster], str(cluster), ha="center", va="center", fontsize=SMALL,
            fontweight="bold", color=INK, clip_on=True,
            bbox={
                "boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.85,
                "edgecolor": colours[cluster], "linewidth": 1.2,
            },
        )  # fmt: skip

    def _legend(self, colours: list[str]) -> None:
        from matplotlib.lines import Line2D

        description = self.description
        handles = [
            Line2D([], [], linestyle="none", marker="o", markersize=6.0, color=colour)
            for colour in (colours[each] for each in description.by_size)
        ]
        labels = [f"{each}   {percent(description.share[each])}" for each in description.by_size]
        self.ax_.legend(
            handles, labels, title=f"{description.called}, share", loc="center left", frameon=False,
            bbox_to_anchor=(1.01, 0.5), fontsize=SMALL, title_fontsize=SMALL,
        )  # fmt: skip

    def _title(self) -> str:
        description = self.description
        what = f"{description.called}{'s' * (description.k != 1)}"
        words = f"{description.k:,} {what} of {description.n_rows:,} rows"
        if description.k > _IN_LEGEND and len(self.text_) < description.k:
            words += f", {len(self.text_)} of them numbered"
        return words


def _with(shown: Projection) -> str:
    """The part of a remark that names the centers outside of the map."""
    hidden = shown.hidden
    if not hidden:
        return ""
    if len(hidden) > _NAMED:
        return f", with {len(hidden):,} centers"
    return f", with center{'s' * (len(hidden) > 1)} {', '.join(map(str, hidden))}"


# Part of the panel that points would cover without overlap; largest and smallest area in points².
_COVERED = 0.50
_LARGEST, _SMALLEST = 160.0, 1.0
# More points are drawn as pixels in vector formats too, whose files are slow to open otherwise.
_MANY = 3_000
_AXIS_NAME = 60
_GOLDEN = 0.618033988749895


def areas(ax: Any, weights: FloatArray) -> FloatArray:
    """Areas in points² in proportion to the weights, and at least a visible one."""
    figure, box = ax.figure, ax.get_position()
    width, height = figure.get_size_inches() * 72.0
    room = _COVERED * width * box.width * height * box.height
    total, largest = float(weights.sum()), float(weights.max())
    per_weight = min(room / total, _LARGEST / largest) if total > 0.0 else 0.0
    return np.maximum(weights * per_weight, _SMALLEST)


def projection_of(description: Description) -> Projection:
    """The map of a description; rows of one column are spread over the height of the panel."""
    projection = description.projection
    if len(description.names) > 1:
        return projection
    # Multiples of the golden section are evenly spread in any range of points.
    heights = (np.arange(len(projection.points)) * _GOLDEN) % 1.0 * 2.0 - 1.0
    points = np.column_stack([projection.points[:, 0], heights])
    flat = replace(projection, points=points, axes=(projection.axes[0], ""))
    return flat.viewed((projection.view[0], (-1.5, 1.5)), description.coreset.host_weights)


def draw_points(
    ax: Any, shown: Projection, weights: FloatArray, colours: str | Sequence[str]
) -> Any:
    """Draw the points of a projection, the largest first, in the part that has most of them."""
    order = np.argsort(-weights, kind="stable")
    own = colours if isinstance(colours, str) else np.asarray(colours)[order]
    drawn = ax.scatter(
        *shown.points[order].T, s=areas(ax, weights)[order], c=own, alpha=0.6, linewidths=0.0,
        rasterized=len(weights) > _MANY,
    )  # fmt: skip
    (left, right), (low, high) = shown.view
    ax.set(xlim=(left, right), ylim=(low, high))
    for axis, name in zip((ax.xaxis, ax.yaxis), shown.axes, strict=True):
        axis.set_label_text(name_text(name, _AXIS_NAME))
        number_ticks(axis)
        axis.get_major_locator().set_params(nbins=6)
    if not shown.axes[1]:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    return drawn


def weight_legend(ax: Any, weights: FloatArray, colour: str) -> None:
    """Explain the areas by points of some weights, if weights differ."""
    from matplotlib.lines import Line2D

    low, high = np.quantile(weights, (0.05, 1.0))
    if not high > 1.5 * low:
        return
    shown = [_rounded(each) for each in (high, np.sqrt(low * high), low) if each > 0.0]
    shown = sorted(set(shown), reverse=True)
    sizes = np.sqrt(areas(ax, np.append(weights, shown))[len(weights) :])
    handles = [
        Line2D([], [], linestyle="none", marker="o", markersize=size, color=colour, alpha=0.6,
               markeredgewidth=0.0)
        for size in sizes
    ]  # fmt: skip
    ax.legend(
        handles, [number_tick(each) for each in shown], title="weight", loc="upper right",
        frameon=True, framealpha=0.8, edgecolor="none", fontsize=SMALL, title_fontsize=SMALL,
    )  # fmt: skip


def remark(ax: Any, words: str) -> Any:
    """A small remark in the lower right corner."""
    return ax.text(
        0.99, 0.01, words, transform=ax.transAxes, ha="right", va="bottom", fontsize=SMALL - 1.0,
        color=MUTED, zorder=5.0,
        bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _rounded(value: float) -> float:
    """A number with one significant digit."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(round(value / power) * power)

"""CoresetDisplay: which rows a coreset has drawn, on a map and by distance from the mean."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.rows import weighted_quantiles
from lwcs.coreset.coreset import Coreset
from lwcs.description import describe
from lwcs.description.projection import BLUE, ORANGE, view_of, within
from lwcs.estimators.coreset_kmeans import CoresetKMeans
from lwcs.estimators.validation import coreset_of_stream
from lwcs.plotting.cluster_map import draw_points, projection_of, remark, weight_legend
from lwcs.plotting.style import (
    INK,
    MUTED,
    Display,
    figure_style,
    log_ticks,
    number_tick,
    pyplot,
    style_axes,
)
from lwcs.runtime.formatting import percent, plain_percent

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description

_SIZE = (8.2, 4.0)
_BINS = 24
# The part of the weight left of the axis of distances.
_NEAREST = 0.01
# The formula of the paper is drawn if the median weight is off it by at most this part.
_NEAR = 0.02


class CoresetDisplay(Display):
    """What a coreset has drawn: a map of its points, and how weights go with distances.

    Left, the points, whose area is their weight: two columns as they are, or two principal
    components of more. Right, by distance from the mean: which part of the draws and which part of
    all rows is how far out, and the weight of a draw. Far rows are drawn often, with small
    weights. Create it with `from_coreset`.

    Parameters
    ----------
    description : Description
        The coreset as one cluster around its mean.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : array of matplotlib Axes
        The map, the parts of draws and of rows, the weights.
    distances_ : array of shape (r,)
        Distance of every point from the mean, as a multiple of the typical distance: for squared
        distances that of the root of the mean square, for others of the mean.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_t(3, size=(50_000, 4))
    >>> coreset = lwcs.build(X, 1_000, random_state=0)
    >>> display = lwcs.CoresetDisplay.from_coreset(coreset)
    >>> display.axes_.shape, display.distances_.shape == coreset.weights.shape
    ((3,), True)
    """

    def __init__(self, description: Description) -> None:
        self.description = description

    @classmethod
    def from_coreset(cls, coreset: Any) -> CoresetDisplay:
        """Plot a coreset.

        Parameters
        ----------
        coreset : Coreset or StreamingCoreset
            What to plot.

        Returns
        -------
        CoresetDisplay
        """
        coreset = coreset_of_stream(coreset)
        if not isinstance(coreset, Coreset):
            raise TypeError(
                f"coreset is a {type(coreset).__name__}, not a Coreset; pass the result of "
                "lwcs.build, or a model's coreset_"
            )
        return cls(describe(_around_the_mean(coreset), coreset)).plot()

    def plot(self) -> CoresetDisplay:
        """Plot the coreset again."""
        with figure_style():
            self.figure_, panels = pyplot().subplot_mosaic(
                [["map", "parts"], ["map", "weights"]],
                figsize=_SIZE, layout="constrained", width_ratios=(5, 4), height_ratios=(2, 3),
            )  # fmt: skip
            self.axes_ = np.array([panels[name] for name in ("map", "parts", "weights")])
            for ax in self.axes_:
                style_axes(ax)
            self._map(self.axes_[0])
            self.distances_ = self._distances()
            if self.distances_.any():
                self._by_distance(*self.axes_[1:])
            else:
                for ax in self.axes_[1:]:
                    ax.set_axis_off()
                self.axes_[1].text(0.5, 0.5, "all points are at the mean", ha="center", color=MUTED)
        return self

    def _map(self, ax: Any) -> None:
        coreset, shown = self.description.coreset, projection_of(self.description)
        if shown.axes[1]:
            # The view has most of the draws, many of which may be far from most of the weight.
            drawn = coreset.counts.astype(np.float64)
            shown = shown.viewed(view_of(shown.points, shown.centers, drawn), coreset.host_weights)
        draw_points(ax, shown, coreset.host_weights, BLUE)
        ax.plot(*shown.centers.T, marker="+", color=INK, markersize=9.0)
        weight_legend(ax, coreset.host_weights, BLUE)
        if shown.outside > 0.0:
            outside = ~within(shown.points, shown.view)
            draws = percent(coreset.counts[outside].sum() / coreset.size)
            remark(ax, f"outside: {draws} of the draws, {percent(shown.outside)} of the weight")
        if coreset.exact:
            ax.set_title(f"all {self.description.n_rows:,} rows")
        else:
            of = f"{self.description.n_rows:,} rows, {coreset.method}"
            ax.set_title(f"{coreset.size:,} draws of {of}")

    def _distances(self) -> FloatArray:
        """Distances from the mean, as multiples of the typical one."""
        description = self.description
        coreset = description.coreset
        typical = float(coreset.host_weights @ description.costs / coreset.host_weights.sum())
        if coreset.total_cost:
            typical = coreset.total_cost / coreset.total_weight
        if not typical > 0.0:
            return np.zeros(len(description.costs))
        parts = np.maximum(description.costs, 0.0) / typical
        return description.geometry.lengths(parts)

    def _by_distance(self, parts: Any, weights: Any) -> None:
        coreset = self.description.coreset
        (low,) = map(float, weighted_quantiles(self.distances_, coreset.host_weights, (_NEAREST,)))
        high = float(self.distances_.max())
        low = min(max(low, 1e-6 * high), high / 1.5)
        x = np.maximum(self.distances_, low)
        edges = np.geomspace(low * 0.999, high * 1.001, _BINS + 1)
        counted = coreset.counts / coreset.counts.sum()
        weighed = coreset.host_weights / coreset.host_weights.sum()
        parts.hist(x, edges, weights=counted, color=BLUE, alpha=0.5, label="share of the draws")
        parts.hist(
            x, edges, weights=weighed, histtype="step", color=ORANGE, linewidth=1.5,
            label="share of all rows",
        )  # fmt: skip
        parts.set(xscale="log", xlim=(edges[0], edges[-1]))
        parts.yaxis.set_major_formatter(lambda value, _: plain_percent(value))
        parts.yaxis.get_major_locator().set_params(nbins=4)
        # Above the panel, where it covers nothing.
        parts.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)
        self._weights(weights, x, edges)
        for ax in (parts, weights):
            log_ticks(ax.xaxis, number_tick)
        parts.tick_params(labelbottom=False)

    def _weights(self, ax: Any, x: FloatArray, edges: FloatArray) -> None:
        """Draw weights of draws against distances, with the formula of the paper."""
        coreset = self.description.coreset
        each = coreset.host_weights / coreset.counts
        uniform = coreset.total_weight / coreset.size
        formula = self._formula(edges)
        if formula is not None:
            ax.plot(
                edges, formula, color=ORANGE, linewidth=6.0, alpha=0.4, label="formula of the paper"
            )
        ax.scatter(
            x, each, s=6.0, color=BLUE, alpha=0.5, linewidths=0.0, rasterized=len(x) > 3_000,
            zorder=2.5, label="draws",
        )  # fmt: skip
        ax.axhline(uniform, color=INK, linestyle=":", linewidth=1.2, label="if drawn uniformly")
        ax.set(xscale="log", xlim=(edges[0], edges[-1]))
        if each.min() > 0.0:
            ax.set_yscale("log")
            low, high = min(each.min(), uniform), max(each.max(), uniform)
            ax.set_ylim(low / 1.4, high * 1.4)
            log_ticks(ax.yaxis, number_tick)
        ax.set_ylabel("weight of a draw")
        ax.set_xlabel("distance from the mean / typical distance")
        ax.legend(loc="lower left")

    def _formula(self, x: FloatArray) -> FloatArray | None:
        """2·(W/m)/(1 + d/mean d), the weight of lightweight draws; None if the draws lack it."""
        description = self.description
        coreset = description.coreset

        def weight(distances: FloatArray) -> FloatArray:
            parts = description.geometry.of_lengths(distances)
            return 2.0 * coreset.total_weight / coreset.size / (1.0 + parts)

        positive = coreset.host_weights > 0.0
        each = (coreset.host_weights / coreset.counts)[positive]
        errors = np.abs(np.log(each / weight(self.distances_[positive])))
        near = bool(np.isfinite(errors).all()) and float(np.median(errors)) < _NEAR
        return weight(x) if near and not coreset.exact else None


def _around_the_mean(coreset: Coreset) -> CoresetKMeans:
    """A model with one cluster, whose center is the mean."""
    model = CoresetKMeans(1, coreset_size=max(coreset.size, 1), divergence=coreset.divergence)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(coreset)

"""Weighted points on a map: their area is their weight, and nothing hides what is small."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.plotting.style import MUTED, SMALL, name_text, number_tick, number_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description, Projection

# Part of the panel that the points would cover if they did not overlap; areas in points².
_COVERED = 0.50
_LARGEST, _SMALLEST = 160.0, 1.0
# More points are drawn as pixels also in files of vectors, which would be slow to open otherwise.
_MANY = 3_000
_AXIS_NAME = 60
_GOLDEN = 0.618033988749895


def areas(ax: Any, weights: FloatArray) -> FloatArray:
    """Areas in points², in proportion to the weights; no point is so small that it is not seen."""
    figure, box = ax.figure, ax.get_position()
    width, height = figure.get_size_inches() * 72.0
    room = _COVERED * width * box.width * height * box.height
    total, largest = float(weights.sum()), float(weights.max())
    per_weight = min(room / total, _LARGEST / largest) if total > 0.0 else 0.0
    return np.maximum(weights * per_weight, _SMALLEST)


def projection_of(found: Description) -> Projection:
    """The map of a description; rows of one column are spread over the height of the panel."""
    own = found.projection
    if len(found.names) > 1:
        return own
    # Multiples of the golden section are spread evenly, wherever one looks.
    heights = (np.arange(len(own.points)) * _GOLDEN) % 1.0 * 2.0 - 1.0
    points = np.column_stack([own.points[:, 0], heights])
    flat = replace(own, points=points, axes=(own.axes[0], ""))
    return flat.viewed((own.view[0], (-1.5, 1.5)), found.coreset.host_weights)


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
    """Say which area is which weight, if weights differ."""
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

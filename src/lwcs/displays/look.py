"""The one look of all figures: sizes, lines, what a figure has around its data."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lwcs.displays import figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

INK, MUTED, FAINT = "#222222", "#666666", "#DDDDDD"
"""Colours of text, of what accompanies it, and of grids."""
SMALL = 8.5
"""Font size of tick labels, legends and remarks, in points."""

# Of the user's own style, these are kept.
_KEPT = ("figure.dpi", "font.family", "font.sans-serif", "font.serif", "font.monospace")
_LOOK = {
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.6,
}


@contextmanager
def look(ax: Any = None) -> Iterator[None]:
    """Draw in the look of this library, with the fonts of the user; in `ax`, in its own look."""
    plt = figures.pyplot()
    if ax is not None:
        yield
        return
    kept = {name: plt.rcParams[name] for name in _KEPT}
    with plt.style.context(["default", kept, _LOOK]):
        yield


def subplots(
    n_rows: int = 1, n_columns: int = 1, *, size: tuple[float, float], **options: Any
) -> tuple[Any, Any]:
    """A figure of this size in inches, and an array of its axes, in the look of this library."""
    with look():
        figure, axes = figures.pyplot().subplots(
            n_rows, n_columns, figsize=size, squeeze=False, layout="constrained", **options
        )
    for ax in axes.flat:
        dress(ax)
    return figure, axes


def axes_of(ax: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    """The figure and the axes to draw in: those that were given, or others of this size."""
    if ax is None:
        figure, found = subplots(size=size)
        return figure, found[0, 0]
    if not hasattr(ax, "get_figure"):
        raise TypeError(
            f"ax is a {type(ax).__name__}, not matplotlib Axes; pass one of those that "
            "plt.subplots returns, or leave it out"
        )
    return ax.figure, ax


def dress(ax: Any, grid: str | None = "both") -> None:
    """Set ticks and grid: matplotlib makes them late, in the style that it finds then."""
    ax.tick_params(which="both", labelsize=SMALL, color=MUTED, labelcolor=INK)
    ax.tick_params(which="major", length=3.0, width=0.8)
    ax.tick_params(which="minor", length=2.0, width=0.5)
    ax.grid(False, which="both")
    if grid is not None:
        ax.grid(True, which="major", axis=grid, color=FAINT, linewidth=0.6)


def legend_columns(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend fit into a width in inches."""
    # A character takes about 0.56 of the font size; handle and gaps take 4.5 of it.
    entry = (0.56 * max(map(len, labels)) + 4.5) * SMALL / 72.0
    columns = max(1, min(len(labels), int(width / entry)))
    rows = -(-len(labels) // columns)
    return -(-len(labels) // rows)

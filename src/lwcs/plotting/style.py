"""The style of all figures: fonts, colours, axes, ticks and legends; and how figures are saved."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.runtime.formatting import shortened
from lwcs.storage.atomic_write import explaining, replacing
from lwcs.storage.locations import DEFAULT, Access

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence


INK, MUTED, FAINT = "#222222", "#666666", "#DDDDDD"
"""Colours of text, of what accompanies it, and of grids."""
SMALL = 8.5
"""Font size of tick labels, legends and remarks, in points."""

# Parameters of the user's style that are kept.
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
def figure_style(ax: Any = None) -> Iterator[None]:
    """Draw in the style of this library with the user's fonts; axes `ax` keep their own style."""
    plt = pyplot()
    if ax is not None:
        yield
        return
    kept = {name: plt.rcParams[name] for name in _KEPT}
    with plt.style.context(["default", kept, _LOOK]):
        yield


def subplots(
    n_rows: int = 1, n_columns: int = 1, *, size: tuple[float, float], **options: Any
) -> tuple[Any, Any]:
    """A figure of `size` inches in the style of this library, and an array of its axes."""
    with figure_style():
        figure, axes = pyplot().subplots(
            n_rows, n_columns, figsize=size, squeeze=False, layout="constrained", **options
        )
    for ax in axes.flat:
        style_axes(ax)
    return figure, axes


def axes_of(ax: Any, size: tuple[float, float]) -> tuple[Any, Any]:
    """The figure and axes to draw in: those of `ax`, or new ones of this size."""
    if ax is None:
        figure, axes = subplots(size=size)
        return figure, axes[0, 0]
    if not hasattr(ax, "get_figure"):
        raise TypeError(
            f"ax is a {type(ax).__name__}, not matplotlib Axes; pass one of those that "
            "plt.subplots returns, or leave it out"
        )
    return ax.figure, ax


def style_axes(ax: Any, grid: str | None = "both") -> None:
    """Set ticks and grid: matplotlib makes them when it draws, in the style of that moment."""
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


LONGEST = 28
"""Maximum number of characters of a name."""
_MOST_TICKS = 6
# Minimum distance of two labels, as a part of the range of their axis.
_LEAST_GAP = 0.15
_REPLACEMENT = "□"


def name_text(name: object, longest: int = LONGEST) -> str:
    """A name from the data as text for matplotlib, which takes nothing in it for mathematics.

    Names that are too long are cut in the middle. Characters that the font lacks, such as emoji,
    become an empty box.
    """
    text = re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in str(name))).strip()
    text = shortened(text, longest)
    known = _characters(tuple(pyplot().rcParams["font.family"]))
    shown = "".join(c if ord(c) in known or c == " " else _REPLACEMENT for c in text)
    return shown.replace("$", r"\$")


@lru_cache(maxsize=8)
def _characters(families: tuple[str, ...]) -> frozenset[int]:
    """All characters that the fonts of these families have."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = (get_font(findfont(FontProperties(family=[family]))) for family in families)
    return frozenset(code for font in fonts for code in font.get_charmap())


def number_tick(value: float, digits: int = 3) -> str:
    """A number in few characters."""
    if value == 0.0:
        return "0"
    if 1e-3 <= abs(value) < 1e7:
        text = f"{value:,.0f}" if abs(value) >= 10.0**digits else f"{value:.{digits}g}"
    else:
        text = f"{value:.{digits - 1}g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return text.replace("-", "−") if value < 0.0 else text


def number_ticks(axis: Any) -> None:
    """Label a linear axis with numbers of as many digits as make its ticks distinct."""
    from matplotlib.ticker import FuncFormatter

    class TickNumbers(FuncFormatter):
        def format_ticks(self, values: Any) -> list[str]:
            for digits in range(3, 12):
                shown = [number_tick(value, digits) for value in values]
                if len(set(shown)) == len(shown):
                    break
            return shown

    axis.set_major_formatter(TickNumbers(lambda value, _: number_tick(value)))


def log_ticks(axis: Any, text: Callable[[float], str]) -> None:
    """Label a logarithmic axis with round numbers, at most six of them.

    Call it once the limits of the axis are set, which it depends on.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low)
    fitting = [
        subs
        for subs in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7))
        if _room_between(low, high, subs, text)
    ]
    if decades > _MOST_TICKS - 1:
        axis.set_major_locator(LogLocator(numticks=_MOST_TICKS))
    elif fitting:
        axis.set_major_locator(LogLocator(subs=fitting[-1], numticks=99))
    else:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())


def _room_between(
    low: float, high: float, subs: Sequence[int], text: Callable[[float], str]
) -> bool:
    """Whether two to six numbers sub · 10ⁿ are in a range, with room for their labels."""
    powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.sort(np.outer(10.0**powers, subs), axis=None)
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    if not 2 <= len(ticks) <= _MOST_TICKS:
        return False
    gaps = np.diff(np.log(ticks)) / np.log(high / low)
    return bool(gaps.min() >= _least_gap([text(tick) for tick in ticks]))


def _least_gap(labels: Sequence[str]) -> float:
    """Minimum distance of two of these labels, as a part of the range of their axis."""
    return 0.02 * (max(map(len, labels)) + 1)


def thinned(values: Sequence[float]) -> list[float]:
    """Values that can be labelled on a logarithmic axis without touching, with both ends."""
    if len(values) < 2:
        return list(values)
    positions = np.log(np.asarray(values, dtype=np.float64))
    gap = _least_gap([number_tick(each) for each in values]) * (positions[-1] - positions[0])
    kept = [len(values) - 1]
    for each in range(len(values) - 2, -1, -1):
        if positions[kept[-1]] - positions[each] >= gap:
            kept.append(each)
    kept[-1] = 0
    return [values[each] for each in reversed(kept)]


def pyplot() -> Any:
    """Import matplotlib.pyplot, or say how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "figures need matplotlib, which is not installed; run pip install 'lwcs[plot]'"
        ) from error
    return plt


ENDINGS = ("png", "svg", "pdf")
"""Formats that figures are saved in."""


def save_figure(figure: Any, path: str | os.PathLike[str], access: Access = DEFAULT) -> None:
    """Save a figure atomically, in the format of the path's ending (.svg, .png, .pdf)."""
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in ENDINGS:
        raise ValueError(
            f"{str(path)!r} does not end like a figure; choose a name that ends in "
            f"{', '.join(f'.{each}' for each in ENDINGS[:-1])} or .{ENDINGS[-1]}"
        )
    # No date and no random ids: the same figure gives the same file.
    metadata = {"Date": None} if ending == "svg" else None
    with (
        replacing(path, access) as temporary,
        pyplot().rc_context({"svg.hashsalt": "lwcs"}),
        explaining(access.place(path)),
    ):
        figure.savefig(temporary, format=ending, dpi=150, bbox_inches="tight", metadata=metadata)


class Display:
    """Base of all displays: a figure in `figure_`, which can be saved."""

    figure_: Any

    def save(
        self,
        *paths: str | os.PathLike[str],
        filesystem: Any = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Save the figure to each path, in the format of its ending (.svg, .png, .pdf).

        Paths may be URIs; `filesystem` and `storage_options` are those of `Coreset.save`.
        """
        for path in paths:
            save_figure(self.figure_, path, Access(filesystem, storage_options))

"""Figures 1 and 2 of the paper for any comparison: error against size or against time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs.comparing.methods import FULL, sized, title
from lwcs.displays import figures
from lwcs.foundation.checks import check_choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.comparing.result import Cell, CompareResult

# Colour and marker per method; solutions with polish steps are drawn dashed.
_STYLE = {
    "uniform": (figures.BLACK, "s"),
    "lightweight": (figures.BLUE, "o"),
    "sensitivity": (figures.ORANGE, "^"),
    "refined": (figures.GREEN, "D"),
    "auto": (figures.SKY, "*"),
    "minibatch": (figures.RED, "P"),
    "faiss": (figures.PINK, "X"),
}
# Smaller errors are drawn at this value, since a log axis has no zero.
_FLOOR = 1e-3


class CompareDisplay(figures.Display):
    """Plot of error against size (Figure 1) or time (Figure 2), one panel per data set and k.

    Create it with `from_result`.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : array of matplotlib Axes
        One row per data set, one column per number of clusters.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_t(2, size=(5_000, 4))
    >>> result = lwcs.compare(X, 5, sizes=[200, 500], methods=["full", "lightweight"], repeats=2)
    >>> display = lwcs.CompareDisplay.from_result(result)
    >>> display.axes_.shape
    (1, 1)
    """

    def __init__(self, result: CompareResult, x: str, *, holdout: bool = False) -> None:
        self.result, self.x, self.holdout = result, x, holdout

    @classmethod
    def from_result(
        cls,
        result: CompareResult,
        *,
        x: Literal["size", "time"] = "size",
        holdout: bool = False,
        methods: Sequence[str] | None = None,
    ) -> CompareDisplay:
        """Plot the result of a comparison.

        Parameters
        ----------
        result : CompareResult
            Result of `lwcs.compare`.
        x : {"size", "time"}, default="size"
            Quantity on the x axis: the coreset size m, or the seconds to build and solve.
        holdout : bool, default=False
            Whether to plot the error on held-out rows.
        methods : list of str, optional
            Methods to plot; all by default.

        Returns
        -------
        CompareDisplay
        """
        check_choice(x, "x", ("size", "time"))
        return cls(result, x, holdout=holdout).plot(methods)

    def plot(self, methods: Sequence[str] | None = None) -> CompareDisplay:
        """Plot the comparison again."""
        plt = figures.pyplot()
        names = self.result.data
        if not names:
            raise ValueError("the comparison is empty, so there is nothing to draw")
        ks = sorted({k for name in names for k in self.result.clusters(name)})
        self.figure_, self.axes_ = plt.subplots(
            len(names),
            len(ks),
            figsize=(5.0 * len(ks), 3.6 * len(names)),
            squeeze=False,
            layout="constrained",
        )
        drawn: dict[str, Any] = {}
        for row, name in zip(self.axes_, names, strict=True):
            for ax, k in zip(row, ks, strict=True):
                drawn |= self._panel(ax, name, k, methods)
        self.figure_.legend(
            drawn.values(), drawn.keys(), loc="outside lower center", ncols=4, frameon=False
        )
        plt.close(self.figure_)
        return self

    def _panel(self, ax: Any, name: str, k: int, methods: Sequence[str] | None) -> dict[str, Any]:
        lines: dict[tuple[str, int], list[Cell]] = {}
        for cell in self.result.cells(name, k, holdout=self.holdout):
            own = cell.key.method
            if own not in FULL and (methods is None or own in methods):
                lines.setdefault((own, cell.key.polish), []).append(cell)
        drawn = {title(*key): self._line(ax, key, cells) for key, cells in lines.items()}
        ax.set(xscale="log", yscale="log", title=f"{name}, k = {k}")
        ax.set_xlabel("size m" if self.x == "size" else "seconds to build and solve")
        where = "held-out rows" if self.holdout else "all rows"
        ax.set_ylabel(f"error against full, {where}")
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        ax.yaxis.set_minor_formatter(lambda *_: "")
        if self.x == "size":
            sizes = self.result.sizes()
            ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
            ax.minorticks_off()
        ax.grid(alpha=0.3, which="major")
        return drawn

    def _line(self, ax: Any, key: tuple[str, int], cells: list[Cell]) -> Any:
        method, polish = key
        colour, marker = _STYLE[method]
        errors = np.array([max(cell.error, _FLOOR) for cell in cells])
        half = np.nan_to_num(np.array([cell.interval for cell in cells]))
        if not sized(method) and self.x == "size":
            # These methods have no size: draw a horizontal line.
            return ax.axhline(errors[0], color=colour, linestyle=":", linewidth=1.5)
        x = [cell.key.size if self.x == "size" else cell.seconds for cell in cells]
        low, high = np.maximum(errors - half, _FLOOR), errors + half
        ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        (line,) = ax.plot(
            x,
            errors,
            color=colour,
            marker=marker,
            linestyle="--" if polish else "-",
            markerfacecolor="white" if polish else colour,
            linewidth=1.5,
            markersize=5,
        )
        return line

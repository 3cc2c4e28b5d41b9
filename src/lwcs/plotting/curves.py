"""CompareDisplay, figures 1 and 2 of the paper for any comparison, and ElbowDisplay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lwcs.arrays.checks import check_choice
from lwcs.comparing.methods import FULL, TITLES, sized
from lwcs.comparing.result import CompareResult
from lwcs.description.projection import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY
from lwcs.evaluation.k_selection_result import KChoice
from lwcs.plotting.style import (
    INK,
    MUTED,
    Display,
    figure_style,
    legend_columns,
    log_ticks,
    name_text,
    number_tick,
    number_ticks,
    subplots,
    thinned,
)
from lwcs.runtime.formatting import plain_percent, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.comparing.result import Cell


# Colour and marker per method.
_STYLE = {
    "uniform": (BLACK, "s"),
    "lightweight": (BLUE, "o"),
    "sensitivity": (ORANGE, "^"),
    "refined": (GREEN, "D"),
    "auto": (SKY, "*"),
    "minibatch": (RED, "P"),
    "faiss": (PINK, "X"),
}
# Lines by rank of the number of polish steps; solutions that were polished have hollow markers.
_LINES = ("-", "--", ":", "-.")
# Smaller errors are drawn at this value, since a log axis has no zero.
_FLOOR = 1e-3
# Shorter error bars (in natural logarithms) are hidden by their marker.
_LONGEST_HIDDEN_BAR = 0.03
# Distance between lines with the same x, in points.
_LINE_SHIFT = 2.4
_PANEL = (4.2, 2.9)
_INTERVAL = "95 % interval"


class CompareDisplay(Display):
    """Plot of error against size (Figure 1) or time (Figure 2), one panel per data set and k.

    Bars are 95 % confidence intervals of the mean error, where they are larger than the marker.
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
        methods: str | Sequence[str] | None = None,
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
        methods : str or list of str, optional
            Methods to plot, out of those that were compared; all by default.

        Returns
        -------
        CompareDisplay
        """
        if not isinstance(result, CompareResult):
            raise TypeError(
                f"result is a {type(result).__name__}, not a CompareResult; pass the result of "
                "lwcs.compare"
            )
        check_choice(x, "x", ("size", "time"))
        return cls(result, x, holdout=holdout).plot(methods)

    def plot(self, methods: str | Sequence[str] | None = None) -> CompareDisplay:
        """Plot the comparison again, of all methods or of those that are named."""
        names = self.result.data
        if not names:
            raise ValueError("the comparison is empty, so there is nothing to draw")
        drawn = _methods_to_draw(methods, self.result)
        ks = sorted({k for name in names for k in self.result.clusters(name)})
        size = (_PANEL[0] * len(ks), _PANEL[1] * len(names))
        alone = len(ks) == 1
        # Beside a single column of panels there is room for a legend, below it there is not.
        self.figure_, self.axes_ = subplots(
            len(names), len(ks), size=(size[0] + 1.8 * alone, size[1] + 0.6 * (not alone))
        )
        self._steps = sorted({t.key.polish for t in self.result.trials if t.key.method in drawn})
        with figure_style():
            for row, name in zip(self.axes_, names, strict=True):
                for ax, k in zip(row, ks, strict=True):
                    self._panel(ax, name, k, drawn)
            for ax in self.axes_[:, 0]:
                where = ", on held-out rows" if self.holdout else ""
                ax.set_ylabel(f"error against clustering all rows{where}")
            for ax in self.axes_[-1]:
                ax.set_xlabel(
                    "number of draws m" if self.x == "size" else "time to build and solve"
                )
            self._legend(drawn, None if alone else size[0])
        return self

    def _panel(self, ax: Any, name: str, k: int, methods: Sequence[str]) -> None:
        from matplotlib.transforms import ScaledTranslation

        ax.set_title(f"{name_text(name)}, k = {k:,}")
        if k not in self.result.clusters(name):
            ax.set_axis_off()
            return
        lines: dict[tuple[str, int], list[Cell]] = {}
        for cell in self.result.cells(name, k, holdout=self.holdout):
            if cell.key.method in methods and np.isfinite(cell.error):
                lines.setdefault((cell.key.method, cell.key.polish), []).append(cell)
        ax.set(xscale="log", yscale="log")
        # Limits are set below: matplotlib finds none for shifted lines.
        ax.autoscale(False)
        xs: list[float] = []
        n_sized = sum(sized(method) for method, _ in lines)
        for number, (key, cells) in enumerate(lines.items()):
            # Lines with the same x are drawn side by side, so that their bars do not overlap.
            shift = _LINE_SHIFT * (number - 0.5 * (n_sized - 1)) if self.x == "size" else 0.0
            aside = ScaledTranslation(shift / 72.0, 0.0, ax.figure.dpi_scale_trans)
            xs += self._line(ax, key, cells, ax.transData + aside)
        if xs:
            pad = max((max(xs) / min(xs)) ** 0.06, 1.05)
            ax.set_xlim(min(xs) / pad, max(xs) * pad)
        self._ticks(ax)

    def _line(
        self, ax: Any, key: tuple[str, int], cells: list[Cell], transform: Any
    ) -> list[float]:
        """Draw a method with its intervals; return its values of x."""
        method, polish = key
        colour, _ = _STYLE[method]
        errors = np.array([max(cell.error, _FLOOR) for cell in cells])
        if not sized(method) and self.x == "size":
            # These methods have no size: draw a horizontal line.
            ax.axhline(errors[0], color=colour, linestyle=(0, (1, 2)), linewidth=1.5)
            return []
        # A clock may be so coarse that a solution takes no time.
        x = [
            float(cell.key.size) if self.x == "size" else max(cell.seconds, 1e-6) for cell in cells
        ]
        half = np.nan_to_num(np.array([cell.interval for cell in cells]))
        low = np.maximum(np.minimum(errors - half, errors), 0.1 * _FLOOR)
        visible = np.log((errors + half) / low) > _LONGEST_HIDDEN_BAR
        if visible.any():
            ax.vlines(
                np.asarray(x)[visible], low[visible], (errors + half)[visible], transform=transform,
                color=colour, alpha=0.45, linewidth=1.1, zorder=1.5,
            )  # fmt: skip
        ax.plot(x, errors, transform=transform, **self._line_style(method, polish))
        return x

    def _line_style(self, method: str, polish: int) -> dict[str, Any]:
        colour, marker = _STYLE[method]
        return {
            "color": colour,
            "marker": marker,
            "linestyle": _LINES[self._steps.index(polish) % len(_LINES)],
            "markerfacecolor": "white" if polish else colour,
            "linewidth": 1.4,
            "markersize": 7.0 if marker == "*" else 4.5,
        }

    def _ticks(self, ax: Any) -> None:
        """Set limits that show every mean, though not every bar, and ticks at round numbers."""
        means = [y for line in ax.lines for y in line.get_ydata()]
        bars = [y for bar in ax.collections for part in bar.get_segments() for y in part[:, 1]]
        if not means:
            return
        low, high = min(means), max([*means, *bars])
        pad = (high / low) ** 0.06
        ax.set_ylim(max(low / pad / 1.05, 0.8 * _FLOOR), high * pad * 1.05)
        log_ticks(ax.yaxis, lambda y: f"{'≤ ' if y <= _FLOOR else ''}{plain_percent(y)}")
        if self.x == "size":
            sizes = self.result.sizes()
            shown = thinned(sizes)
            ax.set_xticks(shown, [f"{size:,}" for size in shown])
            ax.set_xticks(sizes, minor=True)
            ax.xaxis.set_minor_formatter(lambda *_: "")
        else:
            log_ticks(ax.xaxis, seconds)

    def _legend(self, methods: Sequence[str], width: float | None) -> None:
        """Explain lines and markers: at the right, or below the panels in this width."""
        from matplotlib.lines import Line2D

        entries = {}
        for method in methods:
            as_line = not sized(method) and self.x == "size"
            style = self._line_style(method, 0 if 0 in self._steps else self._steps[0])
            dotted = {"color": style["color"], "linestyle": (0, (1, 2)), "linewidth": 1.5}
            entries[TITLES[method]] = Line2D([], [], **(dotted if as_line else style))
        for polish in self._steps:
            if polish:
                style = self._line_style("uniform", polish) | {"color": MUTED, "marker": "o"}
                label = f"+ {polish} step{'s' * (polish > 1)} on all rows"
                entries[label] = Line2D([], [], **style)
        if any(ax.collections for ax in self.axes_.flat):
            entries[_INTERVAL] = Line2D(
                [], [], color=MUTED, linestyle="none", marker="|", markersize=9.0
            )
        columns = 1 if width is None else legend_columns(list(entries), width)
        self.figure_.legend(
            entries.values(), entries.keys(), ncols=columns,
            loc="outside right center" if width is None else "outside lower center",
        )  # fmt: skip


def _methods_to_draw(methods: str | Sequence[str] | None, result: CompareResult) -> list[str]:
    """Return the methods in the order of tables; refuse names that were not compared."""
    compared = {trial.key.method for trial in result.trials}
    known = [method for method in TITLES if method in compared and method not in FULL]
    if methods is None:
        return known
    chosen = [methods] if isinstance(methods, str) else list(methods)
    for method in chosen:
        if method in FULL:
            raise ValueError(
                f"methods={method!r} is what errors are relative to, so it is not drawn; choose "
                f"from {', '.join(map(repr, known))}"
            )
        check_choice(method, "methods", known)
    if not chosen:
        raise ValueError(f"methods is empty; choose from {', '.join(map(repr, known))}")
    return [method for method in known if method in chosen]


# Costs that span a larger factor are drawn on a log axis.
_WIDE = 30.0


class ElbowDisplay(Display):
    """Plot of the cost against the number of clusters, with silhouette and stability below.

    The recommended number of clusters is marked; bars show how often resamples choose each. For
    mixtures, the log-likelihood is plotted, with BIC below. Create it with `from_choice`.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : array of matplotlib Axes
        The panels, from top to bottom.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 1, (1_000, 2)) for c in (0, 8, 16)])
    >>> choice = lwcs.choose_k(X, range(2, 7), random_state=0)
    >>> display = lwcs.ElbowDisplay.from_choice(choice)
    >>> display.axes_.shape
    (2,)
    """

    def __init__(self, choice: KChoice) -> None:
        self.choice = choice

    @classmethod
    def from_choice(cls, choice: KChoice) -> ElbowDisplay:
        """Plot the result of `lwcs.choose_k`.

        Parameters
        ----------
        choice : KChoice
            Result of `lwcs.choose_k`.

        Returns
        -------
        ElbowDisplay
        """
        if not isinstance(choice, KChoice):
            raise TypeError(
                f"choice is a {type(choice).__name__}, not a KChoice; pass the result of "
                "lwcs.choose_k"
            )
        return cls(choice).plot()

    def plot(self) -> ElbowDisplay:
        """Plot the curves again."""
        self.figure_, axes = subplots(2, size=(6.4, 4.6), sharex=True, height_ratios=(3, 2))
        self.axes_ = axes[:, 0]
        with figure_style():
            self._draw(*self.axes_)
        return self

    def _draw(self, top: Any, below: Any) -> None:
        if self.choice.model_kind == "mixture":
            self._band(top, "log_likelihood", "log-likelihood per row")
            self._line(below, "bic", ORANGE, "s", "BIC")
            below.set_ylabel("BIC (lower is better)")
            number_ticks(below.yaxis)
        else:
            self._band(top, "cost", "cost of all rows")
            self._indices(below)
        self._mark(top, below)
        below.set_xlabel("number of clusters k")
        below.xaxis.get_major_locator().set_params(integer=True)
        if len(self.choice.rows) == 1:
            below.set_xlim(self.choice.rows[0].k - 1, self.choice.rows[0].k + 1)

    def _band(self, ax: Any, name: str, label: str) -> None:
        """Draw an estimate with its interval."""
        ks, values = self._known(name)
        low, high = ([getattr(value, end) for value in values] for end in ("low", "high"))
        estimates = [value.value for value in values]
        if not estimates:
            return
        if len(ks) > 1:
            ax.fill_between(ks, low, high, color=BLUE, alpha=0.2, linewidth=0, label=_INTERVAL)
        else:
            ax.vlines(ks, low, high, color=BLUE, alpha=0.4, label=_INTERVAL)
        ax.plot(ks, estimates, color=BLUE, marker="o")
        if name == "cost" and min(low) > 0.0 and max(estimates) > _WIDE * min(estimates):
            ax.set_yscale("log")
            log_ticks(ax.yaxis, number_tick)
        else:
            number_ticks(ax.yaxis)
        ax.set_ylabel(label)
        if any(a < b for a, b in zip(low, high, strict=True)):
            ax.legend(loc="best")

    def _indices(self, ax: Any) -> None:
        """Draw indices and resamples, and mark the k whose clusters are all told apart."""
        ks, shares = self._known("chosen")
        ax.bar(ks, shares, width=0.6, color=MUTED, alpha=0.25, label="chosen in resamples")
        self._line(ax, "silhouette", GREEN, "D", "silhouette")
        self._line(ax, "stability", RED, "*", "stability")
        apart = [row.k for row in self.choice.rows if row.separated]
        if apart:
            ax.plot(
                apart, np.full(len(apart), -0.06), color=INK, marker="o", markersize=3.5,
                linestyle="none", label="all told apart",
            )  # fmt: skip
        ax.set_ylim(-0.12, 1.05)
        ax.set_ylabel("index (1 is best)")
        if ax.lines:
            # Above the panel, where it covers nothing.
            ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2)

    def _line(self, ax: Any, name: str, colour: str, marker: str, label: str) -> None:
        ks, values = self._known(name)
        if not len(ks):
            return
        # The stability is known for a few k only, so its markers are not connected.
        size, style = (10.0, "none") if marker == "*" else (4.0, "-")
        ax.plot(
            ks, values, color=colour, marker=marker, markersize=size, linestyle=style, label=label
        )

    def _known(self, name: str) -> tuple[FloatArray, list[Any]]:
        """The values of a column, and the k for which it is known."""
        known = [(row.k, getattr(row, name)) for row in self.choice.rows]
        known = [(k, value) for k, value in known if value is not None]
        return np.array([k for k, _ in known], dtype=np.float64), [value for _, value in known]

    def _mark(self, top: Any, below: Any) -> None:
        """Mark the recommended k by a line; without one, the title says why."""
        k = self.choice.k
        title = self.choice.reason.split(":")[0]
        if k is not None:
            part = 100.0 * self.choice.resamples.get(k, 0.0)
            title = f"recommended: k = {k}, in {part:.0f} % of resamples"
        top.set_title(title)
        if k is not None:
            for ax in (top, below):
                ax.axvline(k, color=MUTED, linestyle=":", linewidth=1.2, zorder=0)

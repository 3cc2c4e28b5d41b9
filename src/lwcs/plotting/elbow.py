"""The curves of `choose_k`: cost, silhouette and stability, or BIC, against k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.description.projection import BLUE, GREEN, ORANGE, RED
from lwcs.evaluation.k_choice import KChoice
from lwcs.plotting import style as figures
from lwcs.plotting.style import INK, MUTED, log_ticks, look, number_tick, number_ticks, subplots

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray

# Costs that span a larger factor are drawn on a log axis.
_WIDE = 30.0


class ElbowDisplay(figures.Display):
    """Plot of the cost against the number of clusters, with silhouette and stability below.

    The recommended number of clusters is marked. For mixtures, the log-likelihood is plotted, with
    BIC below. Create it with `from_choice`.

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
        with look():
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
        """An estimate with its interval."""
        ks, values = self._known(name)
        low, high = ([getattr(value, end) for value in values] for end in ("low", "high"))
        found = [value.value for value in values]
        if not found:
            return
        if len(ks) > 1:
            ax.fill_between(
                ks, low, high, color=BLUE, alpha=0.2, linewidth=0, label="95 % interval"
            )
        else:
            ax.vlines(ks, low, high, color=BLUE, alpha=0.4, label="95 % interval")
        ax.plot(ks, found, color=BLUE, marker="o")
        if name == "cost" and min(low) > 0.0 and max(found) > _WIDE * min(found):
            ax.set_yscale("log")
            log_ticks(ax.yaxis, number_tick)
        else:
            number_ticks(ax.yaxis)
        ax.set_ylabel(label)
        if any(a < b for a, b in zip(low, high, strict=True)):
            ax.legend(loc="best")

    def _indices(self, ax: Any) -> None:
        """Silhouette and stability, and which numbers of clusters are told apart."""
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
            # Above the panel, where it hides nothing.
            ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.2)

    def _line(self, ax: Any, name: str, colour: str, marker: str, label: str) -> None:
        ks, values = self._known(name)
        if not len(ks):
            return
        # The stability is known of a few numbers of clusters, so there is nothing to connect.
        size, style = (10.0, "none") if marker == "*" else (4.0, "-")
        ax.plot(
            ks, values, color=colour, marker=marker, markersize=size, linestyle=style, label=label
        )

    def _known(self, name: str) -> tuple[FloatArray, list[Any]]:
        """Where a column is known, and its values."""
        known = [(row.k, getattr(row, name)) for row in self.choice.rows]
        known = [(k, value) for k, value in known if value is not None]
        return np.array([k for k, _ in known], dtype=np.float64), [value for _, value in known]

    def _mark(self, top: Any, below: Any) -> None:
        """A line at the recommended number of clusters, or a title that says why none is."""
        k = self.choice.k
        title = self.choice.reason.split(":")[0] if k is None else f"recommended: k = {k}"
        top.set_title(title)
        if k is not None:
            for ax in (top, below):
                ax.axvline(k, color=MUTED, linestyle=":", linewidth=1.2, zorder=0)

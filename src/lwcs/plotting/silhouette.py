"""How well the points of a coreset sit in their clusters: silhouettes, cluster by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_count
from lwcs.description import describe
from lwcs.description.projection import cluster_colours
from lwcs.plotting import style as figures
from lwcs.plotting.style import INK, MUTED, SMALL, axes_of, dress, look
from lwcs.runtime.formatting import percent

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description

_SIZE = (6.0, 4.6)
# Space between clusters, and the least between two of their labels, as parts of the axis.
_GAP, _BETWEEN_LABELS = 0.012, 0.031


class SilhouetteDisplay(figures.Display):
    """Silhouettes of the points of a coreset: one block per cluster, the largest cluster on top.

    The height of a block is the weight of its rows; within a block the points are sorted. The
    silhouette is the simplified one, (b − a)/max(a, b), where a is the distance of a point to its
    own center and b to the next one: 1 at its center, 0 halfway to another. The dashed line is the
    weighted mean over all rows. Create it with `from_model`.

    Parameters
    ----------
    description : Description
        Result of `lwcs.description.describe`.
    clusters : int, default=30
        Maximum number of clusters to show, the largest ones.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes with the silhouettes.
    mean_ : float
        Weighted mean of the silhouette over all rows.
    cluster_means_ : array of shape (n_clusters,)
        The same for every cluster; nan for a cluster without points.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 1, (2_000, 2)) for c in (0, 8, 16)])
    >>> model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    >>> display = lwcs.SilhouetteDisplay.from_model(model)
    >>> round(display.mean_, 1)
    0.9
    """

    def __init__(self, description: Description, clusters: int = 30) -> None:
        self.description, self.clusters = description, clusters

    @classmethod
    def from_model(
        cls, model: Any, coreset: Any = None, *, clusters: int = 30, ax: Any = None
    ) -> SilhouetteDisplay:
        """Plot the silhouettes of the clusters of a model.

        Parameters
        ----------
        model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
            Fitted model with at least two clusters. For a mixture, distances are those from the
            means of the components, in standard deviations of the columns.
        coreset : Coreset or StreamingCoreset, optional
            Summary of the rows; the model's own `coreset_` by default. A model that was loaded
            from a file has none.
        clusters : int, default=30
            Maximum number of clusters to show, the largest ones.
        ax : matplotlib Axes, optional
            Axes to draw in; a new figure by default.

        Returns
        -------
        SilhouetteDisplay
        """
        check_count(clusters, "clusters")
        return cls(describe(model, coreset), clusters).plot(ax)

    def plot(self, ax: Any = None) -> SilhouetteDisplay:
        """Plot the silhouettes again, in a new figure or in the given axes."""
        found = self.description
        if found.k < 2:
            raise ValueError(
                "this model has one cluster, and a silhouette compares the own center with the "
                "next one; fit a model with at least two clusters"
            )
        weights, values = found.coreset.host_weights, found.silhouette
        totals = np.bincount(found.labels, weights, found.k).astype(np.float64, copy=False)
        sums = np.bincount(found.labels, weights * values, found.k)
        self.mean_ = float(sums.sum() / totals.sum())
        self.cluster_means_: FloatArray = np.divide(
            sums, totals, out=np.full(found.k, np.nan), where=totals > 0.0
        )
        self.figure_, self.ax_ = axes_of(ax, _SIZE)
        order = np.argsort(-totals, kind="stable")[: self.clusters]
        shown = [int(each) for each in order if totals[each] > 0.0]
        with look(ax):
            self._blocks(shown, totals)
            self._mark(len(shown))
        return self

    def _blocks(self, shown: list[int], totals: FloatArray) -> None:
        """One block per cluster, from top to bottom, with its label where there is room."""
        found, colours = self.description, cluster_colours(self.description.k)
        total = float(totals[shown].sum())
        top, ticks, names, last = 0.0, [], [], -1.0
        span = 1.0 + _GAP * (len(shown) - 1)
        for cluster in shown:
            own = np.flatnonzero(found.labels == cluster)
            own = own[np.argsort(-found.silhouette[own], kind="stable")]
            height = np.concatenate([[0.0], np.cumsum(found.coreset.host_weights[own])]) / total
            self.ax_.fill_betweenx(
                top + height, 0.0, np.append(found.silhouette[own], found.silhouette[own[-1]]),
                step="post", facecolor=colours[cluster], alpha=0.85, linewidth=0.0,
            )  # fmt: skip
            middle = top + 0.5 * height[-1]
            if last < 0.0 or middle - last >= _BETWEEN_LABELS * span:
                ticks.append(middle)
                names.append(f"{cluster}   {percent(found.share[cluster])}")
                last = middle
            top += height[-1] + _GAP
        self.ax_.set_ylim(top - _GAP + 0.005, -0.005)
        self.ax_.set_yticks(ticks, names)

    def _mark(self, shown: int) -> None:
        ax, found = self.ax_, self.description
        what = found.called
        ax.axvline(self.mean_, color=INK, linestyle="--", linewidth=1.1)
        low = min(0.0, float(found.silhouette.min()))
        ax.set_xlim(low - 0.02 * (low < 0.0), 1.0)
        ax.set_xlabel("simplified silhouette (1: at its center, 0: halfway to the next)")
        ax.set_ylabel(f"{what} and its share")
        cut = f", the {shown:,} largest of {found.k:,} {what}s" if shown < found.k else ""
        ax.set_title(f"mean silhouette {self.mean_:.2f}{cut}")
        dress(ax, grid="x")
        ax.tick_params(axis="y", length=0.0)
        ax.spines["left"].set_visible(False)
        ax.axvline(0.0, color=MUTED, linewidth=0.8)
        ax.yaxis.get_label().set_fontsize(SMALL)

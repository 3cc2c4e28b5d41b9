"""The clusters of a model on a map of its coreset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.description import describe
from lwcs.description.projection import cluster_colours
from lwcs.plotting import style as figures
from lwcs.plotting.points import draw_points, projection_of, remark
from lwcs.plotting.style import INK, SMALL, axes_of, look
from lwcs.runtime.formatting import percent

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description, Projection

# More clusters have no legend, and no more have their number on the map.
_IN_LEGEND = 10
_NUMBERED = 30
_NAMED = 4
# How far numbers are apart at least, as parts of the width and of the height.
_APART = (0.06, 0.055)
_SIZE = (6.4, 4.4)


class ClusterMapDisplay(figures.Display):
    """Map of the clusters of a model: the points of its coreset, coloured by cluster.

    The area of a point is its weight. Data of two columns is shown as it is; of more columns, two
    principal components are shown. Numbers are at the centers. Create it with `from_model`.

    Parameters
    ----------
    description : Description
        Result of `lwcs.description.describe`.

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
        found = self.description
        self.figure_, self.ax_ = axes_of(ax, _SIZE)
        colours = cluster_colours(found.k)
        shown = projection_of(found)
        with look(ax):
            own = [colours[label] for label in found.labels]
            self.points_ = draw_points(self.ax_, shown, found.coreset.host_weights, own)
            if shown.outside > 0.0:
                remark(self.ax_, f"{percent(shown.outside)} of the weight is outside{_with(shown)}")
            self._number(colours, shown)
            if 1 < found.k <= _IN_LEGEND:
                self._legend(colours)
            self.ax_.set_title(self._title())
        return self

    def _number(self, colours: list[str], shown: Projection) -> None:
        """Numbers at the centers in the view, the largest first, as far as they do not touch."""
        found, kept = self.description, dict[int, Any]()
        ends = np.array(shown.view)
        places = (shown.centers - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
        for cluster in np.argsort(-found.share, kind="stable"):
            own = places[cluster]
            if len(kept) == _NUMBERED or not ((own >= 0.0) & (own <= 1.0)).all():
                continue
            touching = any((np.abs(own - other) < _APART).all() for other in kept.values())
            if found.k <= _IN_LEGEND or not touching:
                kept[int(cluster)] = own
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

        found = self.description
        handles = [
            Line2D([], [], linestyle="none", marker="o", markersize=6.0, color=colour)
            for colour in colours
        ]
        labels = [f"{cluster}   {percent(part)}" for cluster, part in enumerate(found.share)]
        self.ax_.legend(
            handles, labels, title=f"{found.called}, share", loc="center left", frameon=False,
            bbox_to_anchor=(1.01, 0.5), fontsize=SMALL, title_fontsize=SMALL,
        )  # fmt: skip

    def _title(self) -> str:
        found = self.description
        what = f"{found.called}{'s' * (found.k != 1)}"
        words = f"{found.k:,} {what} of {found.n_rows:,} rows"
        if found.k > _IN_LEGEND and len(self.text_) < found.k:
            words += f", {len(self.text_)} of them numbered"
        return words


def _with(shown: Projection) -> str:
    """Which centers are not on the map, as far as there is room."""
    hidden = shown.hidden
    if not hidden:
        return ""
    if len(hidden) > _NAMED:
        return f", with {len(hidden):,} centers"
    return f", with center{'s' * (len(hidden) > 1)} {', '.join(map(str, hidden))}"

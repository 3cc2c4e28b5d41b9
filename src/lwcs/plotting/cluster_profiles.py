"""ProfileDisplay and SilhouetteDisplay: how clusters differ from the mean and from each other."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import check_choice, check_count
from lwcs.description import describe
from lwcs.description.projection import cluster_colours, colour_limit
from lwcs.plotting.style import (
    INK,
    MUTED,
    SMALL,
    Display,
    axes_of,
    figure_style,
    name_text,
    style_axes,
)
from lwcs.runtime.formatting import percent, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description


# The strongest colour stands for at most this many standard deviations.
_MOST_DEVIATIONS = 3.0
# Maximum number of clusters with values in cells, and with shares below their numbers.
_WRITTEN, _SHARES = 12, 12
_CELL, _ROW = 0.44, 0.26
# With fewer columns, the label of the colour bar has two lines.
_LOW = 8


class ProfileDisplay(Display):
    """Heat map of the centers against the overall mean, in standard deviations of each column.

    Clusters are in the order of their size, the largest first; columns of the data are from top to
    bottom, those that tell the clusters apart best first. Create it with `from_model`.

    Parameters
    ----------
    description : Description
        Facts about the clusters, as ``lwcs.description.describe`` gives them.
    columns : list of int
        Columns of the data to show.
    clusters : list of int
        Clusters to show.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes with the heat map.
    im_ : matplotlib AxesImage
        The heat map; its array has one row per column of the data, one column per cluster.
    text_ : list of matplotlib Text
        The values, if there are few.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(c, 1, (2_000, 3)) for c in ((0, 0, 0), (0, 9, 0))])
    >>> model = lwcs.CoresetKMeans(2, random_state=0).fit(X)
    >>> display = lwcs.ProfileDisplay.from_model(model)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['column 1', 'column 0', 'column 2']
    """

    def __init__(
        self, description: Description, columns: Sequence[int], clusters: Sequence[int]
    ) -> None:
        self.description, self.columns, self.clusters = description, columns, clusters

    @classmethod
    def from_model(
        cls,
        model: Any,
        coreset: Any = None,
        *,
        features: int | Sequence[str] | Sequence[int] = 20,
        clusters: int | Sequence[int] = 20,
        ax: Any = None,
    ) -> ProfileDisplay:
        """Plot the profiles of the clusters of a model.

        Parameters
        ----------
        model : CoresetKMeans, CoresetMixture, or model of scikit-learn with `cluster_centers_`
            Fitted model.
        coreset : Coreset or StreamingCoreset, optional
            Summary of the rows; the model's own `coreset_` by default. A model that was loaded
            from a file has none.
        features : int, or list of names or numbers of columns, default=20
            How many columns to show, or which, from top to bottom.
        clusters : int or list of int, default=20
            How many clusters to show, or which, from left to right.
        ax : matplotlib Axes, optional
            Axes to draw in; a new figure by default.

        Returns
        -------
        ProfileDisplay
        """
        description = describe(model, coreset)
        columns = _chosen_columns(features, description)
        return cls(description, columns, _chosen_clusters(clusters, description)).plot(ax)

    def plot(self, ax: Any = None) -> ProfileDisplay:
        """Plot the heat map again, in a new figure or in the given axes."""
        description = self.description
        values = description.profile[np.ix_(self.clusters, self.columns)].T
        size = (
            min(max(_CELL * len(self.clusters) + 3.0, 4.2), 9.0),
            max(_ROW * len(self.columns) + 1.2, 2.6),
        )
        self.figure_, self.ax_ = axes_of(ax, size)
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
        limit = min(colour_limit(values), _MOST_DEVIATIONS)
        with figure_style(ax):
            self.im_ = self.ax_.imshow(
                values, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto",
                interpolation="nearest",
            )  # fmt: skip
            self._label()
            self._write(values, limit)
            self._colorbar(largest > limit, limit)
            self.ax_.set_title(self._title())
        return self

    def _label(self) -> None:
        ax, description = self.ax_, self.description
        if len(self.clusters) <= _SHARES:
            labels = [f"{each}\n{percent(description.share[each])}" for each in self.clusters]
        else:
            labels = [str(each) for each in self.clusters]
        crowded = len(labels) > 30
        ax.set_xticks(range(len(labels)), labels, rotation=90 if crowded else 0)
        names = [name_text(description.names[each]) for each in self.columns]
        ax.set_yticks(range(len(names)), names)
        order = " and its share" if len(self.clusters) <= _SHARES else ", largest first"
        ax.set_xlabel(f"{description.called}{order}")
        style_axes(ax, grid=None)
        ax.tick_params(which="both", length=0.0)
        ax.spines[:].set_visible(False)
        # Thin lines between cells.
        ax.set_xticks(np.arange(len(labels) - 1) + 0.5, minor=True)
        ax.set_yticks(np.arange(len(names) - 1) + 0.5, minor=True)
        ax.grid(True, which="minor", color="white", linewidth=0.8)
        ax.tick_params(which="minor", length=0.0)

    def _write(self, values: Any, limit: float) -> None:
        """Write the values into the cells, if there is room."""
        self.text_ = []
        if values.shape[1] > _WRITTEN:
            return
        for (row, column), value in np.ndenumerate(values):
            text = self.ax_.text(
                column, row, signed(value, 1), ha="center", va="center",
                fontsize=SMALL - 1.0, color="white" if abs(value) > 0.7 * limit else INK,
            )  # fmt: skip
            self.text_.append(text)

    def _colorbar(self, beyond: bool, limit: float) -> None:
        bar = self.figure_.colorbar(
            self.im_, ax=self.ax_, extend="both" if beyond else "neither", pad=0.02, aspect=30
        )
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=SMALL, length=2.0, color=MUTED)
        ticks = np.linspace(-limit, limit, 5)
        bar.set_ticks(ticks, labels=[signed(value, 1) for value in ticks])
        low = len(self.columns) < _LOW
        bar.set_label(f"standard deviations{chr(10) if low else ' '}from the mean", fontsize=SMALL)

    def _title(self) -> str:
        """The numbers of columns and clusters that are shown, of all."""
        description = self.description
        parts = []
        for shown, all_of, name in (
            (len(self.columns), len(description.names), "column"),
            (len(self.clusters), description.k, description.called),
        ):
            of = f" of {all_of:,}" if shown < all_of else ""
            parts.append(f"{shown:,}{of} {name}{'s' * (max(all_of, shown) != 1)}")
        return ", ".join(parts)


def _chosen_columns(features: Any, description: Description) -> list[int]:
    """Numbers of the columns to show."""
    if isinstance(features, Integral):
        n = check_count(features, "features")
        return [int(each) for each in description.telling_columns[:n]]
    wanted = [features] if isinstance(features, str) else _listed(features, "features")
    return [_column(each, description) for each in wanted]


def _column(wanted: Any, description: Description) -> int:
    if isinstance(wanted, Integral):
        return check_count(wanted, "features", least=0, most=len(description.names) - 1)
    if wanted not in description.names:
        # With very many columns, the error lists those that tell clusters apart best.
        telling = description.telling_columns[:200]
        check_choice(wanted, "features", [description.names[each] for each in telling])
    return description.names.index(wanted)


def _chosen_clusters(clusters: Any, description: Description) -> list[int]:
    """Clusters to show, the largest first unless they are listed."""
    if isinstance(clusters, Integral):
        n = check_count(clusters, "clusters")
        return [int(each) for each in description.by_size[:n]]
    most = description.k - 1
    return [check_count(j, "clusters", least=0, most=most) for j in _listed(clusters, "clusters")]


def _listed(values: Any, name: str) -> list[Any]:
    """Return a list of at least one value."""
    try:
        listed = list(values)
    except TypeError:
        raise TypeError(f"{name}={values!r} is not allowed; pass a number or a list") from None
    if not listed:
        raise ValueError(f"{name} is empty; pass at least one, or a number of them")
    return listed


_SIZE = (6.0, 4.6)
# Space between clusters, and minimum distance of two labels, as parts of the axis.
_GAP, _BETWEEN_LABELS = 0.012, 0.031


class SilhouetteDisplay(Display):
    """Silhouettes of the points of a coreset: one block per cluster, the largest cluster on top.

    The height of a block is the weight of its rows; within a block the points are sorted. The
    silhouette is the simplified one, (b − a)/max(a, b), where a is the distance of a point to its
    own center and b to the next one: 1 at its center, 0 halfway to another. The dashed line is the
    weighted mean over all rows. Create it with `from_model`.

    Parameters
    ----------
    description : Description
        Facts about the clusters, as ``lwcs.description.describe`` gives them.
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
        description = self.description
        if description.k < 2:
            raise ValueError(
                "this model has one cluster, and a silhouette compares the own center with the "
                "next one; fit a model with at least two clusters"
            )
        weights, values = description.coreset.host_weights, description.silhouette
        totals = np.bincount(description.labels, weights, description.k).astype(
            np.float64, copy=False
        )
        sums = np.bincount(description.labels, weights * values, description.k)
        self.mean_ = float(sums.sum() / totals.sum())
        self.cluster_means_: FloatArray = np.divide(
            sums, totals, out=np.full(description.k, np.nan), where=totals > 0.0
        )
        self.figure_, self.ax_ = axes_of(ax, _SIZE)
        shown = [int(each) for each in description.by_size if totals[each] > 0.0][: self.clusters]
        with figure_style(ax):
            self._blocks(shown, totals)
            self._mark(len(shown))
        return self

    def _blocks(self, shown: list[int], totals: FloatArray) -> None:
        """Draw one block per cluster, from top to bottom, with a label where there is room."""
        description, colours = self.description, cluster_colours(self.description.k)
        total = float(totals[shown].sum())
        top, ticks, names, last = 0.0, [], [], -1.0
        span = 1.0 + _GAP * (len(shown) - 1)
        for cluster in shown:
            rows = np.flatnonzero(description.labels == cluster)
            rows = rows[np.argsort(-description.silhouette[rows], kind="stable")]
            values = description.silhouette[rows]
            height = (
                np.concatenate([[0.0], np.cumsum(description.coreset.host_weights[rows])]) / total
            )
            self.ax_.fill_betweenx(
                top + height, 0.0, np.append(values, values[-1]),
                step="post", facecolor=colours[cluster], alpha=0.85, linewidth=0.0,
            )  # fmt: skip
            middle = top + 0.5 * height[-1]
            if last < 0.0 or middle - last >= _BETWEEN_LABELS * span:
                ticks.append(middle)
                names.append(f"{cluster}   {percent(description.share[cluster])}")
                last = middle
            top += height[-1] + _GAP
        self.ax_.set_ylim(top - _GAP + 0.005, -0.005)
        self.ax_.set_yticks(ticks, names)

    def _mark(self, shown: int) -> None:
        ax, description = self.ax_, self.description
        what = description.called
        ax.axvline(self.mean_, color=INK, linestyle="--", linewidth=1.1)
        low = min(0.0, float(description.silhouette.min()))
        ax.set_xlim(low - 0.02 * (low < 0.0), 1.0)
        ax.set_xlabel("simplified silhouette (1: at its center, 0: halfway to the next)")
        ax.set_ylabel(f"{what} and its share")
        cut = (
            f", the {shown:,} largest of {description.k:,} {what}s" if shown < description.k else ""
        )
        ax.set_title(f"mean silhouette {self.mean_:.2f}{cut}")
        style_axes(ax, grid="x")
        ax.tick_params(axis="y", length=0.0)
        ax.spines["left"].set_visible(False)
        ax.axvline(0.0, color=MUTED, linewidth=0.8)
        ax.yaxis.get_label().set_fontsize(SMALL)

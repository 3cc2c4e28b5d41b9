"""The profiles: how far the center of each cluster is from the overall mean, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.reporting.figures import new_figure, plain_text
from lwcs.runtime.formatting import number, shortened, signed

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray, IntArray
    from lwcs.description import Description
    from lwcs.reporting.figures import Theme

MOST_CLUSTERS, MOST_COLUMNS = 40, 30
# So many clusters have numbers of two digits; fewer with longer ones fit side by side.
_SHORT, MOST_LONG = 100, 28
_ROW, _NAME = 22, 26
# The largest colour stands for this quantile of the differences, and at least for one deviation.
_SATURATED = 0.98
# Unless the largest difference is no more than this many times as large.
_FAR = 1.5


@dataclass(frozen=True, eq=False)
class Profiles:
    """The part of the profiles that is shown: the largest clusters, the most telling columns."""

    clusters: IntArray
    columns: IntArray
    values: FloatArray
    """One row per column of the data, one column per cluster, in standard deviations."""
    end: float
    """The difference of the strongest colour; larger ones have it too."""

    @classmethod
    def of(cls, found: Description) -> Profiles:
        """Choose what is readable."""
        most = MOST_CLUSTERS if found.k <= _SHORT else MOST_LONG
        heavy = np.argsort(-found.share, kind="stable")[:most]
        clusters, columns = np.sort(heavy), found.telling_columns[:MOST_COLUMNS]
        values = found.profile[np.ix_(clusters, columns)].T
        sizes = np.abs(values[np.isfinite(values)])
        largest = float(sizes.max(initial=1.0))
        end = float(np.quantile(sizes, _SATURATED)) if sizes.size else largest
        return cls(clusters, columns, values, largest if largest < _FAR * end else max(end, 1.0))

    def words(self, found: Description) -> str:
        """What is left out, and which colours are cut."""
        said = []
        if len(self.clusters) < found.k:
            said.append(f"the {len(self.clusters)} largest of {found.k:,} {found.called}s")
        if len(self.columns) < len(found.names):
            said.append(
                f"the {len(self.columns)} columns of {len(found.names):,} that tell "
                f"{found.called}s apart best"
            )
        shown = f"Shown are {' and '.join(said)}. " if said else ""
        beyond = float(np.abs(self.values).max(initial=0.0)) > self.end * 1.001
        cut = f"; larger differences, up to {number(np.abs(self.values).max(), 3)}, have the same"
        return f"{shown}The strongest colour is ±{number(self.end, 3)} standard deviations" + (
            f"{cut}." if beyond else "."
        )

    def cells(self, found: Description) -> list[tuple[str, list[str]]]:
        """The same as text: the name of every column, and its differences."""
        return [
            (found.names[j], [signed(value) for value in row])
            for j, row in zip(self.columns, self.values, strict=True)
        ]


def profile_figure(found: Description, profiles: Profiles, theme: Theme) -> Any:
    """Draw the profiles as a heat map: one row per column of the data, one column per cluster."""
    from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, Range1d
    from bokeh.transform import linear_cmap

    rows, columns = profiles.values.shape
    made = new_figure(
        "profiles", 60 + _ROW * rows, x_range=Range1d(start=-0.5, end=columns - 0.5),
        y_range=Range1d(start=rows - 0.5, end=-0.5), x_axis_location="above",
    )  # fmt: skip
    y, x = np.divmod(np.arange(rows * columns), columns)
    clusters, names = profiles.clusters[x], [found.names[j] for j in profiles.columns]
    values = profiles.values.ravel()
    source = ColumnDataSource(
        {
            "x": x.astype(np.int32),
            "y": y.astype(np.int32),
            "value": np.nan_to_num(values).astype(np.float32),
            "cluster": clusters.astype(np.int32),
            "name": [shortened(names[place], 60) for place in y],
            "difference": [signed(value) for value in values],
            "center": [number(float(found.own_centers.points[c, j]))
                       for c, j in zip(clusters, profiles.columns[y], strict=True)],
        }
    )  # fmt: skip
    colours = linear_cmap("value", theme.heat, low=-profiles.end, high=profiles.end)
    drawn = made.rect(
        "x", "y", 1, 1, source=source, name="cells", fill_color=colours, line_width=1,
        line_color=theme.grid,
    )  # fmt: skip
    made.add_tools(
        HoverTool(
            renderers=[drawn],
            tooltips=[
                ("column", "@name"),
                (found.called, "@cluster"),
                ("difference", "@difference standard deviations"),
                ("center", "@center"),
            ],
        )
    )
    made.xaxis.ticker = FixedTicker(ticks=list(range(columns)))
    made.yaxis.ticker = FixedTicker(ticks=list(range(rows)))
    made.xaxis.major_label_overrides = {j: str(c) for j, c in enumerate(profiles.clusters)}
    made.yaxis.major_label_overrides = {
        j: plain_text(shortened(name, _NAME)) for j, name in enumerate(names)
    }
    made.axis.axis_line_color = None
    made.axis.major_tick_out = 0
    made.grid.visible = False
    made.xaxis.axis_label = found.called
    return made

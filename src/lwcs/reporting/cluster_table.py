"""Tables of the report: the clusters, their centers in units of the data, and typical rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from lwcs.arrays.device import copied
from lwcs.arrays.rows import some_columns
from lwcs.estimators.mixture_predict import densities
from lwcs.estimators.summary import ClusterSummary
from lwcs.evaluation.typical_rows_result import Chosen
from lwcs.reporting.facts import size_words
from lwcs.runtime.formatting import aligned, interval, number, percent, shortened, signed

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description
    from lwcs.reporting.figures import Profiles, Theme

TELLING = 3
TYPICAL, TYPICAL_CLUSTERS = 3, 20
"""Number of typical rows of a cluster, and of clusters that have some."""
_NAME = 60


@dataclass(frozen=True, slots=True)
class TableCell:
    """The text of a cell, the number that it is sorted by, and a smaller line of text below."""

    text: str
    value: float
    below: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, with a sentence about it."""

    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Telling:
    """A column of the data that tells a cluster apart."""

    name: str
    amount: str
    above: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: a cluster with its colours on light and dark pages."""

    number: int
    name: str
    """Its name, in plain words."""
    light: str
    dark: str
    cells: list[TableCell]
    telling: list[Telling]


@dataclass(frozen=True, slots=True)
class Table:
    """The columns, and a row per cluster."""

    columns: list[Column]
    rows: list[Row]


def table_of(description: Description, themes: dict[str, Theme]) -> Table:
    """Make the table of a description, the largest clusters first."""
    columns, names = dict(_columns(description)), ClusterSummary(description).names
    light, dark = themes["light"].clusters, themes["dark"].clusters
    cells = list(zip(*columns.values(), strict=True))
    rows = [
        Row(j, names[j], light[j], dark[j], list(cells[j]), _telling(description, j))
        for j in map(int, description.by_size)
    ]
    return Table(list(columns), rows)


@dataclass(frozen=True, slots=True)
class CenterRow:
    """A column of the data: per cluster its center, and its median and range, as text."""

    name: str
    cells: list[tuple[str, str, str]]


def centers_of(description: Description, profiles: Profiles) -> list[CenterRow]:
    """The centers in units of the data, of the columns and clusters of the heat map."""
    rows = []
    for j in profiles.columns:
        known = [description.quantiles_of(each, j) for each in profiles.clusters]
        # All numbers in a row have as many decimals as their median needs.
        values = [*description.centers[profiles.clusters, j], *(v for q in known if q for v in q)]
        texts = aligned([float(each) for each in values])
        centers, others = texts[: len(known)], iter(texts[len(known) :])
        cells = []
        for center, quantiles in zip(centers, known, strict=True):
            low, median, high = (next(others) if quantiles else "" for _ in range(3))
            cells.append((center, median, f"{low} – {high}" if quantiles else ""))
        rows.append(CenterRow(shortened(description.names[j], _NAME), cells))
    return rows


@dataclass(frozen=True, slots=True)
class TypicalRow:
    """A row near the center of its cluster, with its values in the columns that tell it apart."""

    row: str
    far: str
    values: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TypicalRows:
    """The rows nearest to the center of a cluster."""

    number: int
    name: str
    rows: list[TypicalRow]


def typical_of(description: Description) -> list[TypicalRows]:
    """The rows of the coreset that are nearest to the centers of the largest clusters."""
    coreset, names = description.coreset, ClusterSummary(description).names
    points = copied(coreset.host_points)
    far = description.geometry.lengths(description.costs)
    if description.is_mixture:
        far = -densities(description.model.mixture_, points, 0)[1]
    chosen = Chosen(description.labels, far, coreset.indices, points)
    chosen = chosen[chosen.best(TYPICAL, 1.0)]
    found = []
    for cluster in map(int, description.by_size[:TYPICAL_CLUSTERS]):
        columns = [each.column for each in description.telling(cluster, TELLING)]
        at = np.flatnonzero(chosen.labels == cluster)
        values = some_columns(chosen.points[at], np.array(columns, dtype=np.int64))
        titles = [shortened(description.names[j], _NAME) for j in columns]
        rows = [
            TypicalRow(
                f"{chosen.rows[place]:,}",
                number((-1.0 if description.is_mixture else 1.0) * chosen.distances[place], 3),
                list(zip(titles, map(number, map(float, row)), strict=True)),
            )
            for place, row in zip(at, values, strict=True)
        ]
        found.append(TypicalRows(cluster, names[cluster], rows))
    return [each for each in found if each.rows]


def _telling(description: Description, cluster: int) -> list[Telling]:
    return [
        Telling(shortened(each.name, _NAME), signed(each.deviations), each.deviations > 0.0)
        for each in description.telling(cluster, TELLING)
    ]


def _columns(description: Description) -> list[tuple[Column, list[TableCell]]]:
    """The columns of numbers, each with a cell per cluster."""
    mixture = description.is_mixture
    low, high = description.share_interval
    shares = [
        TableCell(percent(share), float(share), "" if one == other else interval(one, other))
        for share, one, other in zip(description.share, low, high, strict=True)
    ]
    counted = not description.share_error.any()
    made = [
        (
            Column(
                "Weight of rows" if description.has_weights else "Rows",
                "Of all rows." if counted else "Estimated by the coreset.",
            ),
            [TableCell(size_words(size, description), float(size)) for size in description.size],
        ),
        (
            Column(
                "Weight" if mixture else "Share",
                "Part of all rows" + ("." if counted else ", with its 95 % interval below."),
            ),
            shares,
        ),
        _likelihood(description) if mixture else _cost(description),
        (
            Column("Spread", "Typical distance of a row from its center."),
            _numbers(description.spread),
        ),
    ]
    if description.score is not None:
        about = "Overlap with the best match in bootstrap coresets: above 0.85 is stable."
        scores = [TableCell(f"{each:.2f}", float(each)) for each in description.score]
        made.append((Column("Stability", about), scores))
    if description.k > 1:
        made.append(_nearest(description))
    return made


def _cost(description: Description) -> tuple[Column, list[TableCell]]:
    total = float(description.cost.sum())
    parts = description.cost / total if total > 0.0 else np.zeros(description.k)
    cells = [
        TableCell(percent(part), float(cost), number(cost, 3))
        for part, cost in zip(parts, description.cost, strict=True)
    ]
    return Column("Cost", "Part of the cost of all clusters, and the cost itself below."), cells


def _likelihood(description: Description) -> tuple[Column, list[TableCell]]:
    size = np.bincount(description.labels, description.coreset.host_weights, description.k)
    means = np.divide(-description.cost, size, out=np.full(description.k, np.nan), where=size > 0.0)
    return Column("Log-likelihood", "Mean of the rows that most likely belong to it."), _numbers(
        means
    )


def _numbers(values: FloatArray) -> list[TableCell]:
    """Cells of numbers; unknown ones are sorted as 0."""
    return [
        TableCell(text, float(value) if isfinite(value) else 0.0)
        for value, text in zip(values, aligned(values.tolist()), strict=True)
    ]


def _nearest(description: Description) -> tuple[Column, list[TableCell]]:
    cells = [
        TableCell(str(other), float(apart), f"{text} away")
        for other, apart, text in zip(
            description.nearest, description.apart, aligned(description.apart.tolist()), strict=True
        )
    ]
    far = f"the {description.geometry.length_name} of the own center from it"
    about = f"The other {description.called} whose center is nearest, and {far}."
    return Column("Nearest", about), cells

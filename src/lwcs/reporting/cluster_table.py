"""The table of clusters: what is printed of each, and what it is sorted by."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from lwcs.reporting.facts import size_words
from lwcs.runtime.formatting import aligned, interval, number, percent, shortened, signed

if TYPE_CHECKING:
    from lwcs.arrays.types import FloatArray
    from lwcs.description import Description
    from lwcs.reporting.figures import Theme

TELLING = 3
_NAME = 60


@dataclass(frozen=True, slots=True)
class TableCell:
    """What is printed, in a smaller line below it, and the number that is sorted by."""

    text: str
    value: float
    below: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, with a sentence on what it shows."""

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
    """A cluster."""

    number: int
    light: str
    dark: str
    cells: list[TableCell]
    telling: list[Telling]


@dataclass(frozen=True, slots=True)
class Table:
    """All clusters."""

    columns: list[Column]
    rows: list[Row]


def table_of(found: Description, themes: dict[str, Theme]) -> Table:
    """Make the table of a description."""
    columns = dict(_columns(found))
    own = list(columns.values())
    light, dark = themes["light"].clusters, themes["dark"].clusters
    rows = [
        Row(j, light[j], dark[j], [cells[j] for cells in own], _telling(found, j))
        for j in range(found.k)
    ]
    return Table(list(columns), rows)


def _telling(found: Description, cluster: int) -> list[Telling]:
    return [
        Telling(shortened(each.name, _NAME), signed(each.deviations), each.deviations > 0.0)
        for each in found.telling(cluster, TELLING)
    ]


def _columns(found: Description) -> list[tuple[Column, list[TableCell]]]:
    """The columns of numbers, each with a cell per cluster."""
    mixture = found.is_mixture
    low, high = found.share_interval
    shares = [
        TableCell(percent(share), float(share), "" if one == other else interval(one, other))
        for share, one, other in zip(found.share, low, high, strict=True)
    ]
    counted = not found.share_error.any()
    made = [
        (
            Column(
                "Weight of rows" if found.has_weights else "Rows",
                "Of all rows." if counted else "Estimated by the coreset.",
            ),
            [TableCell(size_words(size, found), float(size)) for size in found.size],
        ),
        (
            Column(
                "Weight" if mixture else "Share",
                "Part of all rows" + ("." if counted else ", with its 95 % interval below."),
            ),
            shares,
        ),
        _likelihood(found) if mixture else _cost(found),
        (
            Column("Spread", "Typical distance of a row from its center."),
            _numbers(found.spread),
        ),
    ]
    if found.score is not None:
        about = "Overlap with the best match in bootstrap coresets: above 0.85 is stable."
        scores = [TableCell(f"{each:.2f}", float(each)) for each in found.score]
        made.append((Column("Stability", about), scores))
    if found.k > 1:
        made.append(_nearest(found))
    return made


def _cost(found: Description) -> tuple[Column, list[TableCell]]:
    total = float(found.cost.sum())
    parts = found.cost / total if total > 0.0 else np.zeros(found.k)
    cells = [
        TableCell(percent(part), float(cost), number(cost, 3))
        for part, cost in zip(parts, found.cost, strict=True)
    ]
    return Column("Cost", "Part of the cost of all clusters, and the cost itself below."), cells


def _likelihood(found: Description) -> tuple[Column, list[TableCell]]:
    size = np.bincount(found.labels, found.coreset.host_weights, found.k)
    means = np.divide(-found.cost, size, out=np.full(found.k, np.nan), where=size > 0.0)
    return Column("Log-likelihood", "Mean of the rows that most likely belong to it."), _numbers(
        means
    )


def _numbers(values: FloatArray) -> list[TableCell]:
    """Cells of plain numbers; those that are not known are sorted as 0."""
    return [
        TableCell(text, float(value) if isfinite(value) else 0.0)
        for value, text in zip(values, aligned(values.tolist()), strict=True)
    ]


def _nearest(found: Description) -> tuple[Column, list[TableCell]]:
    cells = [
        TableCell(str(other), float(apart), f"at {text}")
        for other, apart, text in zip(
            found.nearest, found.apart, aligned(found.apart.tolist()), strict=True
        )
    ]
    far = f"the {found.geometry.length_name} of the own center from it"
    about = f"The other {found.called} whose center is nearest, and {far}."
    return Column("Nearest", about), cells

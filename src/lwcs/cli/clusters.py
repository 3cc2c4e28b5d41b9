"""The clusters of a model, as `lwcs inspect` shows them: where, how large, how costly, how real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lwcs.runtime.formatting import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

CLUSTERS = "table_of_clusters"
PAIRS = "pairs_not_told_apart"
CENTERS = "centers"
SHAPES = (CLUSTERS, PAIRS, CENTERS)
"""Facts that are shown as tables of their own."""
_STABILITY = ("score", "jaccard", "center_error")
_LONGEST_NAME = 16
# What a cell of a table takes beside its text.
_AROUND_CELL = 3


def clusters_of(model: Any) -> dict[str, Any]:
    """What a model knows of its clusters: centers, one list per column, pairs that may be one."""
    stability, columns = getattr(model, "stability_", None), _record_columns(model)
    facts: dict[str, Any] = {}
    if stability is not None:
        names = ("share", "share_error", *_STABILITY)
        columns |= {name: getattr(stability, name).tolist() for name in names}
        facts["n_bootstrap"] = stability.n_bootstrap
        facts[PAIRS] = [list(pair) for pair in stability.pairs]
    if columns:
        facts[CLUSTERS] = columns
    return {**facts, CENTERS: _centers(model).tolist()}


def _centers(model: Any) -> Any:
    """Centers, or the means of the components."""
    return model.mixture_.family.means if hasattr(model, "mixture_") else model.host_centers()


def _record_columns(model: Any) -> dict[str, list[float]]:
    """Sizes, shares and costs, from what a model remembers; files of old versions have none."""
    record = model.fitted_on_
    if record is None:
        return {}
    unweighted = record.rows.counted_by(record.total_weight)
    columns = {
        "rows" if unweighted else "weight": (record.shares * record.total_weight).tolist(),
        "share": record.shares.tolist(),
        "share_error": (record.share_variances**0.5).tolist(),
    }
    if record.cost_shares is not None:
        columns["cost"] = (record.cost_shares * model.inertia_).tolist()
        columns["cost_share"] = record.cost_shares.tolist()
    return columns


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table: its title and its cells."""

    title: str
    cells: list[str]

    @property
    def width(self) -> int:
        from rich.cells import cell_len

        return max(map(cell_len, (self.title, *self.cells))) + _AROUND_CELL


def show_clusters(facts: dict[str, Any], console: Console) -> None:
    """Print a table of them: the least stable first, or the largest if nothing is known of that."""
    from rich.table import Table
    from rich.text import Text

    from lwcs.sizing.stability_result import SHOWN, pair_words

    if CENTERS not in facts:
        return
    columns, centers = facts.get(CLUSTERS, {}), facts[CENTERS]
    order = _order(columns, len(centers))
    shown = order[:SHOWN]
    called = "component" if facts["kind"] == "mixture" else "cluster"
    known, left_out = _fitting(
        [_Column(called, [str(each) for each in shown]), *_known(columns, shown)], console.width
    )
    features = _features(facts, shown, console.width - sum(each.width for each in known) - 1)
    table = Table()
    for column in (*known, *features):
        table.add_column(Text(column.title), justify="right", no_wrap=True)
    for cells in zip(*(column.cells for column in (*known, *features)), strict=True):
        table.add_row(*map(Text, cells))
    console.print(table)
    if left_out:
        console.print(f"A wider terminal also shows {', '.join(left_out)}; --json has all.")
    if len(order) > SHOWN:
        console.print(f"and {len(order) - SHOWN} more, which {_rest(columns, order[SHOWN])}")
    if len(features) < len(centers[0]):
        console.print(
            f"The columns of the table end with the first {len(features)} of the "
            f"{len(centers[0]):,} columns of the centers; a wider terminal shows more, and --json "
            "all of them."
            if features
            else f"The {len(centers[0]):,} columns of the centers do not fit beside that; a wider "
            "terminal shows some, and --json all of them."
        )
    if PAIRS in facts:
        console.print(pair_words(facts[PAIRS]))


def _fitting(columns: list[_Column], room: int) -> tuple[list[_Column], list[str]]:
    """The columns for which there is room, and the titles of the others: the last ones go first."""
    found = list(columns)
    while len(found) > 1 and sum(each.width for each in found) + 1 > room:
        found.pop()
    return found, [each.title for each in columns[len(found) :]]


def _order(columns: dict[str, list[float]], k: int) -> list[int]:
    if "score" in columns:
        return sorted(range(k), key=columns["score"].__getitem__)
    shares = columns.get("share", [0.0] * k)
    return sorted(range(k), key=lambda each: -shares[each])


def _rest(columns: dict[str, list[float]], first: int) -> str:
    """What is said of clusters that are not shown."""
    if "score" in columns:
        return f"score {columns['score'][first]:.2f} or more"
    return "are no larger" if "share" in columns else "--json has"


def _known(columns: dict[str, list[float]], shown: Sequence[int]) -> list[_Column]:
    """What is known of the clusters that are shown, but for their centers."""
    from lwcs.sizing.stability_result import share_words

    found = [
        _Column(name, [f"{columns[name][each]:,.0f}" for each in shown])
        for name in ("rows", "weight")
        if name in columns
    ]
    if "share" in columns:
        words = [share_words(columns["share"][i], columns["share_error"][i]) for i in shown]
        found.append(_Column("share", words))
    if "cost" in columns:
        costs = [f"{columns['cost'][i]:.4g} ({columns['cost_share'][i]:.1%})" for i in shown]
        found.append(_Column("cost", costs))
    for name, form in zip(_STABILITY, ("{:.2f}", "{:.2f}", "{:.3g}"), strict=True):
        if name in columns:
            cells = [form.format(columns[name][each]) for each in shown]
            found.append(_Column(name.replace("_", " "), cells))
    return found


def _features(facts: dict[str, Any], shown: Sequence[int], room: int) -> list[_Column]:
    """As many columns of the centers as there is room for."""
    centers, found = facts[CENTERS], []
    names = facts["features"] if len(facts["features"]) == len(centers[0]) else None
    for j in range(len(centers[0])):
        name = (
            f"column {j}" if names is None else shortened(" ".join(names[j].split()), _LONGEST_NAME)
        )
        column = _Column(name, [f"{centers[each][j]:.4g}" for each in shown])
        room -= column.width
        if room < 0:
            break
        found.append(column)
    return found

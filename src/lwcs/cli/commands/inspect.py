"""`lwcs inspect`: describe the contents of a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from lwcs.cli import options
from lwcs.cli.inputs import (
    NAME,
    access_to,
    keywords,
    open_rows,
    saved_file,
    standard_input,
)
from lwcs.cli.logs import is_set, progress
from lwcs.cli.models import CostOnAllRows, cost_on_all_rows
from lwcs.runtime.formatting import plain_percent, shortened
from lwcs.runtime.journal import TIMINGS, Journal, without_timings
from lwcs.sources.base import gathered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lwcs.cli.terminal import Terminal
    from lwcs.runtime.journal import Timings
    from lwcs.sources import Block


DIAGNOSIS, WORDS, ON_ALL = "diagnosis", "words", "cost_on_all_rows"
_PARTS_OF_COST = ("sampling_error", "sampling_error_bound")


@click.command()
@options.file
@options.selection
@options.output
def inspect(file: str, **reading: Any) -> None:
    """Describe data, or a file saved by lwcs.

    FILE holds rows (also a folder or a glob pattern of files), a coreset, a model, a stream or a
    comparison; - is standard input. The options
    for columns, missing values and CSV are those of the other commands, and show how these would
    read the rows.
    """
    from lwcs.sources.remote.paths import file_name

    name, journal = (NAME if file == "-" else file_name(file)), Journal(progress())
    if file == "-" and standard_input(reading["format"]).path is None:
        facts = _rows(file, reading, journal)
    else:
        facts = _facts(saved_file(file), reading, journal)
    if is_set("as_json"):
        click.echo(json.dumps(facts))
    elif not is_set("quiet"):
        from rich.table import Table
        from rich.text import Text

        from lwcs.cli.terminal import Terminal

        console = Terminal()
        show_clusters(facts, console)
        # As Text: in a plain string, rich would take a column [b] for markup.
        table = Table(title=Text(name, style="table.title"), show_header=False)
        for _ in range(2):
            # Words that are too long for a narrow terminal are broken, and none is cut.
            table.add_column(overflow="fold")
        for name, value in facts.items():
            if name in _IN_OWN_TABLE:
                continue
            if name == DIAGNOSIS:
                value = value[WORDS]
            if name == "cost" and ON_ALL in facts:
                continue  # which is that of the rows that were drawn
            if name == ON_ALL:
                value = _cost_words(facts)
            if name in _PARTS_OF_COST and facts["kind"] == "model":
                value = plain_percent(value, 2)
            if name == TIMINGS:
                name = "seconds"
                value = {stage: round(each["seconds"], 3) for stage, each in value.items()}
            if value in ([], {}):
                continue
            # Without separators between thousands: a seed is copied.
            text = str(value) if name == "seed" else _value_text(value)
            table.add_row(Text(name.replace("_", " ")), Text(text))
        console.print(table)


def _cost_words(facts: dict[str, Any]) -> str:
    """The cost on all rows, or the estimate of it, as `lwcs fit` has said it."""
    known = CostOnAllRows(**facts[ON_ALL])
    if facts[DIAGNOSIS]["on_all_rows"]:
        return f"{known.value:.6g}"
    return known.words("" if _PARTS_OF_COST[0] in facts else " by chance alone")


def _value_text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(str, value[:8])) + (f", … ({len(value)})" if len(value) > 8 else "")
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value_text(each)}" for key, each in value.items())
    return str(value)


def _facts(file: str, reading: dict[str, Any], journal: Journal) -> dict[str, Any]:
    import lwcs
    from lwcs.estimators.model_io import saved_errors
    from lwcs.storage.persistence import is_ours

    if not is_ours(file, access_to(file)):
        return _rows(file, reading, journal)
    saved = lwcs.load(file, **keywords(file))
    _refuse_reading(reading, file, saved)
    if isinstance(saved, lwcs.CompareResult):
        return {
            "kind": "comparison",
            "data": saved.data,
            "solutions": len(saved.trials),
            "sizes": saved.sizes(),
        }
    if isinstance(saved, lwcs.Coreset):
        return {
            "kind": "coreset",
            "method": saved.method,
            "divergence": repr(saved.divergence),
            "draws": saved.size,
            "rows": len(saved.host_weights),
            "of_rows": saved.n_samples,
            "total_weight": saved.total_weight,
            "sum_of_weights": float(saved.host_weights.sum()),
            "cost_of_the_mean": saved.total_cost,
            "features": _features(saved),
            "scaled": saved.scale is not None,
            "seed": saved.seed,
            "depth": saved.depth,
            "details": without_timings(saved.details),
            **_known_timings(saved.details.get(TIMINGS)),
        }
    if isinstance(saved, lwcs.StreamingCoreset):
        return {
            "kind": "stream",
            "method": saved.method,
            "divergence": repr(saved.divergence),
            "draws": saved.size,
            "of_rows": saved.n_samples,
            "features": _features(saved),
            "coresets_that_arrived": saved.arrived,
            "seed": saved.seed,
        }
    names = getattr(saved, "feature_names_in_", [f"{saved.n_features_in_} without names"])
    features, iterations = [str(name) for name in names], int(saved.n_iter_)
    errors = {name: each for name, each in saved_errors(saved).items() if each is not None}
    if isinstance(saved, lwcs.CoresetMixture):
        fitted = saved.mixture_.family
        return {
            "kind": "mixture",
            "family": fitted.name,
            **{name: getattr(fitted, name) for name in fitted.options},
            "components": len(saved.weights_),
            "features": features,
            "log_likelihood": saved.lower_bound_,
            **errors,
            "iterations": iterations,
            "converged": saved.converged_,
            **_known_timings(saved.timings_),
            **clusters_of(saved),
        }
    diagnosis, on_all = saved.diagnosis_, cost_on_all_rows(saved)
    return {
        "kind": "model",
        "divergence": repr(saved.geometry_.divergence),
        "clusters": len(saved.cluster_centers_),
        "features": features,
        "cost": saved.inertia_,
        **({} if on_all is None else {ON_ALL: on_all._asdict()}),
        **errors,
        "iterations": iterations,
        "scaled": saved.scale_ is not None,
        **({} if diagnosis is None else {DIAGNOSIS: {WORDS: str(diagnosis), **diagnosis.saved()}}),
        **_known_timings(saved.timings_),
        **clusters_of(saved),
    }


def _features(source: Any) -> list[str]:
    """Names of the columns, or how many there are."""
    return list(source.feature_names or [f"{source.n_features} without names"])


def _known_timings(timings: Timings | None) -> dict[str, Timings]:
    """The time of every stage, if it is known."""
    return {TIMINGS: timings} if timings else {}


def _refuse_reading(reading: dict[str, Any], file: str, saved: object) -> None:
    """Refuse the options for rows, for a file that lwcs saved."""
    for name, value in reading.items():
        if value not in (None, "error", ()) and name != "storage_option":
            flag = "header/--no-header" if name == "header" else name
            raise click.UsageError(
                f"--{flag} is for rows, but {file!r} is a saved {type(saved).__name__}; leave it "
                "out"
            )


def _rows(file: str, reading: dict[str, Any], journal: Journal) -> dict[str, Any]:
    """Describe rows; those with gaps, which other commands refuse, are counted."""
    given = reading["missing"]
    source = open_rows((file,), **reading | {"missing": "drop" if given == "error" else given})
    counted = source.n_rows is None or given == "drop"
    if counted:
        for _ in gathered(source, _read, "counting", journal=journal, n_jobs=1):
            pass
    return {
        "kind": "rows",
        "rows": source.n_rows,
        "features": _features(source),
        "left_out": list(source.skipped),
        **({"rows_with_missing_values": source.dropped} if counted and given == "error" else {}),
        "dropped": source.dropped if given == "drop" else 0,
    }


def _read(blocks: Iterator[Block], partition: int) -> int:
    """A task that reads all rows, after which the source knows how many were dropped."""
    for _ in blocks:
        pass
    return partition


CLUSTERS = "table_of_clusters"
PAIRS = "pairs_not_told_apart"
CENTERS = "centers"
_IN_OWN_TABLE = (CLUSTERS, PAIRS, CENTERS)
_STABILITY = ("score", "jaccard", "center_error")
_LONGEST_NAME, _NAME = 16, 40
# The width of a cell of a table beside its text.
_CELL_PADDING = 3


def clusters_of(model: Any) -> dict[str, Any]:
    """Centers of a model, one list per known column of its clusters, pairs that may be one."""
    from lwcs.estimators.cluster_facts import known_facts
    from lwcs.estimators.summary import ClusterSummary

    stability, columns = getattr(model, "stability_", None), _record_columns(model)
    facts: dict[str, Any] = {}
    if (known := known_facts(model)) is not None:
        columns["name"] = list(ClusterSummary(known).names)
    if stability is not None:
        # Sizes and shares are those of one source, the record of the fit, where there is one.
        shares = () if "share" in columns else ("share", "share_error")
        columns |= {name: getattr(stability, name).tolist() for name in (*shares, *_STABILITY)}
        facts["n_bootstrap"] = stability.n_bootstrap
        facts[PAIRS] = [list(pair) for pair in stability.pairs]
    if columns:
        facts[CLUSTERS] = columns
    is_mixture = hasattr(model, "mixture_")
    centers = model.mixture_.family.means if is_mixture else model.host_centers()
    return {**facts, CENTERS: centers.tolist()}


def _record_columns(model: Any) -> dict[str, Any]:
    """Sizes, shares and costs of clusters, from the record of the fit."""
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
class _TableColumn:
    """A column of the table: its title and its cells."""

    title: str
    cells: list[str]
    justify: Literal["left", "right"] = "right"

    @property
    def width(self) -> int:
        from rich.cells import cell_len

        return max(map(cell_len, (self.title, *self.cells))) + _CELL_PADDING


def show_clusters(facts: dict[str, Any], console: Terminal) -> None:
    """Print a table of clusters, the largest first, and what its columns mean."""
    from rich.table import Table
    from rich.text import Text

    from lwcs.sizing.stability import COLUMN_WORDS, SHOWN, pair_words

    if CENTERS not in facts:
        return
    columns, centers = facts.get(CLUSTERS, {}), facts[CENTERS]
    order = _order(columns, len(centers))
    shown = order[:SHOWN]
    called = "component" if facts["kind"] == "mixture" else "cluster"
    known = [_TableColumn(called, [str(each) for each in shown]), *_known(columns, shown)]
    # Columns without room are in further tables, so that a narrow terminal cuts none of them.
    *tables, last = _side_by_side(known, console.width)
    features = _feature_columns(facts, shown, console.width - sum(each.width for each in last) - 1)
    for columns_of_table in (*tables, [*last, *features]):
        table = Table()
        for column in columns_of_table:
            wrapped = column.justify == "left"
            table.add_column(Text(column.title), justify=column.justify, no_wrap=not wrapped)
        for cells in zip(*(column.cells for column in columns_of_table), strict=True):
            table.add_row(*map(Text, cells))
        console.print(table)
    if len(order) > SHOWN:
        rest = "are no larger" if "share" in columns else "--json has"
        console.print(f"and {len(order) - SHOWN} more, which {rest}")
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
        console.print(Text(pair_words(facts[PAIRS])))
        console.print(Text(COLUMN_WORDS))
    if "name" in columns:
        console.print(Text("`lwcs summary` has more of each: medians, ranges, neighbours."))


def _side_by_side(columns: list[_TableColumn], width: int) -> list[list[_TableColumn]]:
    """Tables of as many of the columns as fit beside the first one, which each of them has."""
    first, *others = columns
    tables = [[first]]
    for column in others:
        if len(tables[-1]) > 1 and sum(each.width for each in (*tables[-1], column)) >= width:
            tables.append([first])
        tables[-1].append(column)
    return tables


def _order(columns: dict[str, list[Any]], k: int) -> list[int]:
    shares = columns.get("share", [0.0] * k)
    return sorted(range(k), key=lambda each: -shares[each])


def _known(columns: dict[str, list[Any]], shown: Sequence[int]) -> list[_TableColumn]:
    """Columns of what is known of the clusters that are shown, without their centers."""
    from lwcs.estimators.summary import name_within
    from lwcs.sizing.stability import share_words

    known = [
        _TableColumn(name, [f"{columns[name][each]:,.0f}" for each in shown])
        for name in ("rows", "weight")
        if name in columns
    ]
    if "share" in columns:
        words = [share_words(columns["share"][i], columns["share_error"][i]) for i in shown]
        known.append(_TableColumn("share", words))
    if "cost" in columns:
        costs = [f"{columns['cost'][i]:.4g} ({columns['cost_share'][i]:.1%})" for i in shown]
        known.append(_TableColumn("cost", costs))
    for name, form in zip(_STABILITY, ("{:.2f}", "{:.2f}", "{:.3g}"), strict=True):
        if name in columns:
            cells = [form.format(columns[name][each]) for each in shown]
            known.append(_TableColumn(name.replace("_", " "), cells))
    if "name" in columns:
        names = [name_within(columns["name"][i], _NAME) for i in shown]
        known.insert(2, _TableColumn("name", names, "left"))
    return known


def _feature_columns(facts: dict[str, Any], shown: Sequence[int], room: int) -> list[_TableColumn]:
    """As many columns of the centers as there is room for."""
    centers, names, fitting = facts[CENTERS], facts["features"], []
    if len(names) != len(centers[0]):
        names = [f"column {j}" for j in range(len(centers[0]))]
    for j, name in enumerate(names):
        title = shortened(" ".join(name.split()), _LONGEST_NAME)
        column = _TableColumn(title, [f"{centers[each][j]:.4g}" for each in shown])
        room -= column.width
        if room < 0:
            break
        fitting.append(column)
    return fitting

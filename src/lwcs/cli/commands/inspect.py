"""`lwcs inspect`: describe the contents of a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lwcs.cli.inputs import NAME, access_to, keywords, open_rows, saved_file, standard_input
from lwcs.cli.logs import progress
from lwcs.cli.options import choosing, saying
from lwcs.runtime.formatting import shortened
from lwcs.runtime.journal import TIMINGS, Journal, without_timings
from lwcs.sources.watching import gathered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from lwcs.runtime.journal import Timings
    from lwcs.sources import Block


DIAGNOSIS, WORDS = "diagnosis", "words"


@click.command()
@click.argument("file")
@choosing
@saying
def inspect(file: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Describe data, or a file saved by lwcs.

    FILE holds rows (also a folder or a glob pattern of files), a coreset, a model, a stream or a
    comparison; - is standard input. The options
    for columns, missing values and CSV are those of the other commands, and show how these would
    read the rows.
    """
    from lwcs.sources.remote.paths import file_name

    name, journal = (NAME if file == "-" else file_name(file)), Journal(progress(quiet))
    if file == "-" and standard_input(options["format"]).path is None:
        facts = _rows(file, options, journal)
    else:
        facts = _facts(saved_file(file), options, journal)
    if as_json:
        click.echo(json.dumps(facts))
    elif not quiet:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        # As Text: in a plain string, rich would take a column [b] for markup.
        table = Table(title=Text(name, style="table.title"), show_header=False)
        for name, value in facts.items():
            if name in SHAPES:
                continue
            if name == DIAGNOSIS:
                value = value[WORDS]
            if name == TIMINGS:
                name, value = "seconds", _seconds(value)
            if value in ([], {}):
                continue
            # A seed is a name rather than a number: it is copied.
            text = str(value) if name == "seed" else _shown(value)
            table.add_row(Text(name.replace("_", " ")), Text(text))
        console = Console()
        console.print(table)
        show_clusters(facts, console)


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(str, value[:8])) + (f", … ({len(value)})" if len(value) > 8 else "")
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    return str(value)


def _facts(file: str, options: dict[str, Any], journal: Journal) -> dict[str, Any]:
    import lwcs
    from lwcs.storage.persistence import is_ours

    if not is_ours(file, access_to(file)):
        return _rows(file, options, journal)
    found = lwcs.load(file, **keywords(file))
    _refuse_choices(options, file, found)
    if isinstance(found, lwcs.Coreset):
        return {
            "kind": "coreset",
            "method": found.method,
            "divergence": repr(found.divergence),
            "draws": found.size,
            "rows": len(found.host_weights),
            "of_rows": found.n_samples,
            "total_weight": found.total_weight,
            "sum_of_weights": float(found.host_weights.sum()),
            "cost_of_the_mean": found.total_cost,
            "features": list(found.feature_names or [f"{found.n_features} without names"]),
            "scaled": found.scale is not None,
            "seed": found.seed,
            "depth": found.depth,
            "details": without_timings(found.details),
            **_known_timings(found.details.get(TIMINGS)),
        }
    if isinstance(found, lwcs.StreamingCoreset):
        return {
            "kind": "stream",
            "method": found.method,
            "divergence": repr(found.divergence),
            "draws": found.size,
            "of_rows": found.n_samples,
            "features": list(found.feature_names or [f"{found.n_features} without names"]),
            "coresets_that_arrived": found.arrived,
            "seed": found.seed,
        }
    if isinstance(found, lwcs.CompareResult):
        return {
            "kind": "comparison",
            "data": found.data,
            "solutions": len(found.trials),
            "sizes": found.sizes(),
        }
    names = getattr(found, "feature_names_in_", [f"{found.n_features_in_} without names"])
    if isinstance(found, lwcs.CoresetMixture):
        fitted = found.mixture_.family
        return {
            "kind": "mixture",
            "family": fitted.name,
            **{name: getattr(fitted, name) for name in fitted.options},
            "components": len(found.weights_),
            "features": [str(name) for name in names],
            "log_likelihood": found.lower_bound_,
            **_known_errors(found),
            "iterations": int(found.n_iter_),
            "converged": found.converged_,
            **_known_timings(found.timings_),
            **clusters_of(found),
        }
    return {
        "kind": "model",
        "divergence": repr(found.geometry_.divergence),
        "clusters": len(found.cluster_centers_),
        "features": [str(name) for name in names],
        "cost": found.inertia_,
        **_known_errors(found),
        "iterations": int(found.n_iter_),
        "scaled": found.scale_ is not None,
        **_known_diagnosis(found),
        **_known_timings(found.timings_),
        **clusters_of(found),
    }


def _known_errors(model: Any) -> dict[str, Any]:
    """How far a model is off, if that is known."""
    from lwcs.estimators.model_io import saved_errors

    return {name: value for name, value in saved_errors(model).items() if value is not None}


def _known_diagnosis(model: Any) -> dict[str, Any]:
    """Which method was used and why, in words and in numbers, if that is known."""
    known = model.diagnosis_
    return {} if known is None else {DIAGNOSIS: {WORDS: str(known), **known.saved()}}


def _known_timings(timings: Timings | None) -> dict[str, Timings]:
    """Where the time went, if that is known."""
    return {TIMINGS: timings} if timings else {}


def _seconds(timings: Timings) -> dict[str, float]:
    """The time of every stage."""
    return {stage: round(each["seconds"], 3) for stage, each in timings.items()}


def _refuse_choices(options: dict[str, Any], file: str, found: object) -> None:
    """Refuse the options for rows, for a file that lwcs saved."""
    given = [name for name, value in options.items() if value not in (None, "error", ())]
    given = [name for name in given if name != "storage_option"]
    if given:
        flag = "header/--no-header" if given[0] == "header" else given[0]
        raise click.UsageError(
            f"--{flag} is for rows, but {file!r} is a saved {type(found).__name__}; leave it out"
        )


def _rows(file: str, options: dict[str, Any], journal: Journal) -> dict[str, Any]:
    """Describe rows; those with gaps, which other commands refuse, are counted."""
    given = options["missing"]
    source = open_rows((file,), **options | {"missing": "drop" if given == "error" else given})
    counted = source.n_rows is None or given == "drop"
    if counted:
        for _ in gathered(source, _number, "counting", journal=journal, n_jobs=1):
            pass
    return {
        "kind": "rows",
        "rows": source.n_rows,
        "features": list(source.feature_names or [f"{source.n_features} without names"]),
        "left_out": list(source.skipped),
        **({"rows_with_missing_values": source.dropped} if counted and given == "error" else {}),
        "dropped": source.dropped if given == "drop" else 0,
    }


def _number(blocks: Iterator[Block], partition: int) -> int:
    """A task that goes through all rows, after which it is known how many were dropped."""
    for _ in blocks:
        pass
    return partition


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
class _TableColumn:
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

    from lwcs.sizing.stability import SHOWN, pair_words

    if CENTERS not in facts:
        return
    columns, centers = facts.get(CLUSTERS, {}), facts[CENTERS]
    order = _order(columns, len(centers))
    shown = order[:SHOWN]
    called = "component" if facts["kind"] == "mixture" else "cluster"
    known, left_out = _fitting(
        [_TableColumn(called, [str(each) for each in shown]), *_known(columns, shown)],
        console.width,
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


def _fitting(columns: list[_TableColumn], room: int) -> tuple[list[_TableColumn], list[str]]:
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


def _known(columns: dict[str, list[float]], shown: Sequence[int]) -> list[_TableColumn]:
    """What is known of the clusters that are shown, but for their centers."""
    from lwcs.sizing.stability import share_words

    found = [
        _TableColumn(name, [f"{columns[name][each]:,.0f}" for each in shown])
        for name in ("rows", "weight")
        if name in columns
    ]
    if "share" in columns:
        words = [share_words(columns["share"][i], columns["share_error"][i]) for i in shown]
        found.append(_TableColumn("share", words))
    if "cost" in columns:
        costs = [f"{columns['cost'][i]:.4g} ({columns['cost_share'][i]:.1%})" for i in shown]
        found.append(_TableColumn("cost", costs))
    for name, form in zip(_STABILITY, ("{:.2f}", "{:.2f}", "{:.3g}"), strict=True):
        if name in columns:
            cells = [form.format(columns[name][each]) for each in shown]
            found.append(_TableColumn(name.replace("_", " "), cells))
    return found


def _features(facts: dict[str, Any], shown: Sequence[int], room: int) -> list[_TableColumn]:
    """As many columns of the centers as there is room for."""
    centers, found = facts[CENTERS], []
    names = facts["features"] if len(facts["features"]) == len(centers[0]) else None
    for j in range(len(centers[0])):
        name = (
            f"column {j}" if names is None else shortened(" ".join(names[j].split()), _LONGEST_NAME)
        )
        column = _TableColumn(name, [f"{centers[each][j]:.4g}" for each in shown])
        room -= column.width
        if room < 0:
            break
        found.append(column)
    return found

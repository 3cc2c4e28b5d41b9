"""`lwcs assign`: the cluster of every row, written out partition by partition."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow as pa

import lwcs
from lwcs.arrays.checks import BadValueError
from lwcs.cli import options
from lwcs.cli.folders import Partitioned, PerFile
from lwcs.cli.logs import progress
from lwcs.cli.models import in_order, load_model, open_for
from lwcs.cli.outputs import TableOutput
from lwcs.cli.parameter_types import NAMES, PATH
from lwcs.passes import measured
from lwcs.runtime.journal import Journal
from lwcs.sources.base import gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from lwcs.arrays.types import FloatArray
    from lwcs.cli.outputs import Format
    from lwcs.sources import Block, Source


def schema_of(model: lwcs.CoresetKMeans | lwcs.CoresetMixture) -> pa.Schema:
    """Columns of the output; the last one has the name of its quantity."""
    if isinstance(model, lwcs.CoresetMixture):
        quantity = "log_likelihood"
    else:
        quantity = model.geometry_.distance_name
    return pa.schema([("row", pa.int64()), ("label", pa.int32()), (quantity, pa.float64())])


@click.command()
@options.data
@options.model
@click.option(
    "-o",
    "--output",
    required=True,
    type=PATH,
    help="Output file: .parquet, .feather, .csv or .tsv, these two also compressed (.csv.gz); "
    "- for CSV on standard output. With --partition-by or --per-file, a folder, whose ending is "
    "that of its files.",
)
@click.option(
    "--keep",
    type=NAMES,
    help="Names or patterns of columns of DATA to copy into the output, separated by commas.",
)
@click.option(
    "--partition-by",
    type=NAMES,
    metavar="COLUMN,…",
    help="Write a folder for each value of these columns of the output, such as label=3/.",
)
@click.option(
    "--per-file",
    is_flag=True,
    help="Write one file per file of DATA, with rows numbered from 0 in each.",
)
@options.device
@options.reading
@options.output
def assign(
    data: tuple[str, ...],
    model: str,
    output: str,
    keep: list[str] | None,
    partition_by: list[str] | None,
    per_file: bool,
    device: str | None,
    jobs: int | None,
    **reading: Any,
) -> None:
    """Assign every row of DATA to a cluster of MODEL.

    DATA are files, a folder, a glob pattern, or - for standard input. MODEL is a file written by
    `lwcs fit` or `lwcs mixture`, or - if that is standard input.

    Example: lwcs assign "events/*.parquet" model.parquet --keep id -o labels.parquet

    The output has one line per row: the row number, the label of the nearest center, and the
    squared distance to it (or the divergence, if the model was fitted with one). For a mixture,
    the label is that of the most likely component, followed by the log-likelihood. Columns that
    are kept follow. A row that was dropped because of a missing value has no label.

    With --partition-by label, rows are in files such as OUTPUT/label=3/part-0.parquet, which have
    all columns but that one. With --per-file, the rows of sub/a.csv are in OUTPUT/sub/a.parquet.
    """
    start = time.perf_counter()
    if partition_by is not None and per_file:
        raise click.UsageError("--partition-by and --per-file are both given; pass one of them")
    data, model = in_order(data, model)
    target: TableOutput | Partitioned | PerFile
    if partition_by is not None:
        target = Partitioned.of(output, partition_by, data)
    else:
        target = PerFile.of(output, data) if per_file else TableOutput.of(output, (*data, model))
    fitted = _on_device(load_model(model, data), device)
    kept = () if keep is None else keep
    source = open_for(fitted, data, keep=kept, **reading)
    schema = _with_kept(schema_of(fitted), source, target.format)
    task = LabellingTask(_labeller(fitted, source))
    rows, dropped, cost = 0, 0, 0.0
    with _writing(target, schema, source) as write, source.explaining():
        journal = Journal(progress())
        for part in gathered(source, task, "assigning", journal=journal, n_jobs=jobs):
            write(part.table(rows, schema))
            rows += len(part.labels)
            cost += part.cost
            dropped += int(part.dropped.sum())
    seconds = time.perf_counter() - start
    total_of = "log_likelihood" if isinstance(fitted, lwcs.CoresetMixture) else "cost"
    facts = {"rows": rows, total_of: cost, "dropped": dropped, "seconds": round(seconds, 3)}
    options.print_summary(
        facts,
        f"Assigned {options.rows_text(rows, dropped)} in {seconds:.1f} s, "
        f"{total_of.replace('_', '-')} {cost:.6g}"
        + options.dropped_text(dropped)
        + options.wrote_text(output),
    )


def _writing(
    target: TableOutput | Partitioned | PerFile, schema: pa.Schema, source: Source
) -> AbstractContextManager[Callable[[pa.Table], None]]:
    return target.writing(schema, source) if isinstance(target, PerFile) else target.writing(schema)


def _on_device(
    model: lwcs.CoresetKMeans | lwcs.CoresetMixture, device: str | None
) -> lwcs.CoresetKMeans | lwcs.CoresetMixture:
    """Return a model that computes on the device of this command, not on that of its fit."""
    if isinstance(model, lwcs.CoresetKMeans):
        return model.set_params(device=device)
    if device is not None:
        raise click.UsageError(
            f"--device {device} is for models that `lwcs fit` wrote; a mixture is computed on the "
            "CPU: leave it out"
        )
    return model


def _with_kept(schema: pa.Schema, source: Source, form: Format) -> pa.Schema:
    """Add the columns that are kept to those of the output; refuse two of one name."""
    kept: pa.Schema | None = getattr(source, "kept", None)
    if not kept:
        return schema
    for name in kept.names:
        if name in schema.names:
            raise click.UsageError(
                f"--keep {name}: the output has a column {name!r} of its own; rename the column "
                "of DATA, or leave it out"
            )
    form.check(kept)
    return pa.schema([*schema, *kept])


def _labeller(
    model: lwcs.CoresetKMeans | lwcs.CoresetMixture, source: Source
) -> Callable[[Block], tuple[Any, FloatArray]]:
    """Return a function from a block to the label and distance (or log-likelihood) of each row."""
    if isinstance(model, lwcs.CoresetMixture):
        from lwcs.estimators.mixture_predict import labelled

        mixture = model.mixture_
        return lambda block: labelled(mixture, block)
    centers = model.measured_centers(source)
    return lambda block: measured(block, centers).nearest(centers)


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Labels and distances of a partition, its kept columns, its dropped rows and its cost."""

    labels: Any
    distances: FloatArray
    dropped: Any
    kept: pa.Table | None
    cost: float

    def table(self, first_row: int, schema: pa.Schema) -> pa.Table:
        """Return the output table, with rows numbered from `first_row`."""
        mask = self.dropped if self.dropped.any() else None
        columns = [
            pa.array(np.arange(first_row, first_row + len(self.labels))),
            pa.array(self.labels, mask=mask),
            pa.array(self.distances, mask=mask),
            *([] if self.kept is None else self.kept.columns),
        ]
        return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class LabellingTask:
    """Task that labels the rows of a partition."""

    label: Callable[[Block], tuple[Any, FloatArray]]
    """Returns the label and the distance of every row of a block."""

    def __call__(self, blocks: Iterator[Block], partition: int) -> LabelledRows:
        """Label the rows of one partition, block by block."""
        labels, distances, dropped, kept, cost = [], [], [], [], 0.0
        for block in blocks:
            with BadValueError.in_partition(partition):
                block_labels, block_distances = self.label(block)
            labels.append(block_labels)
            distances.append(block_distances)
            none = np.zeros(len(block_labels), dtype=bool)
            dropped.append(none if block.dropped is None else block.dropped)
            if block.beside is not None:
                kept.append(block.beside)
            weights = block.weights
            cost += float(block_distances.sum() if weights is None else weights @ block_distances)
        return LabelledRows(
            np.concatenate(labels),
            np.concatenate(distances),
            np.concatenate(dropped),
            pa.concat_tables(kept) if kept else None,
            cost,
        )

"""`lwcs assign`: the cluster of every row, written as it is found."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow as pa

import lwcs
from lwcs import kernels
from lwcs.cli.options import check_output, open_rows, reading, say, saying, within_memory
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.progress import track
from lwcs.foundation.storage import replacing
from lwcs.solvers.assignment import nearest_in
from lwcs.sources.base import PARTITION_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lwcs.foundation.types import FloatArray
    from lwcs.sources import Block, Source


def schema_of(model: lwcs.CoresetKMeans | lwcs.CoresetMixture) -> pa.Schema:
    """What is written of every row; the last column says what it is."""
    if isinstance(model, lwcs.CoresetMixture):
        what = "log_likelihood"
    else:
        what = "squared_distance" if model.measure_.squared else "divergence"
    return pa.schema([("row", pa.int64()), ("label", pa.int32()), (what, pa.float64())])


@click.command()
@click.argument("data", nargs=-1)
@click.argument("model")
@click.option("-o", "--output", required=True, help="Parquet, .csv by its ending, - for CSV.")
@reading
@saying
def assign(
    data: tuple[str, ...],
    model: str,
    output: str,
    jobs: int | None,
    memory: int | None,
    quiet: bool,
    as_json: bool,
    columns: str | None,
    **options: Any,
) -> None:
    """Label every row of DATA by the nearest center, or the likeliest component, of MODEL.

    lwcs assign "events/*.parquet" model.parquet -o labels.parquet

    Writes the row number, the label and the squared distance to its center (or the divergence, or
    of a mixture the log-likelihood). A row that was left out for a missing value has no label.
    """
    start = time.perf_counter()
    check_output(output)
    fitted = lwcs.load(model)
    if not isinstance(fitted, lwcs.CoresetKMeans | lwcs.CoresetMixture):
        raise ValueError(f"{model!r} holds a {type(fitted).__name__}, and no model")
    if columns is None and hasattr(fitted, "feature_names_in_"):
        source = open_rows(data, columns=_columns(fitted.feature_names_in_), quiet=quiet, **options)
    else:
        source = open_rows(data, columns=columns, quiet=quiet, **options)
    if source.n_features != fitted.n_features_in_:
        raise ValueError(
            f"the data has {source.n_features} columns, but the model {fitted.n_features_in_}; "
            "choose them with --columns"
        )
    threads = within_memory(source, memory, jobs)
    task, schema = Assign(_finder(fitted, source)), schema_of(fitted)
    rows, cost = 0, 0.0
    with _writer(output, schema) as write, source.explaining():
        parts = source.gather(task, n_jobs=threads)
        total = source.known_partitions
        for part in track(parts, "assigning", total, show=not quiet, rows=PARTITION_ROWS):
            write(part.table(rows, schema))
            rows, cost = rows + len(part.labels), cost + part.cost
    seconds = time.perf_counter() - start
    what = "log_likelihood" if isinstance(fitted, lwcs.CoresetMixture) else "cost"
    facts = {"rows": rows, what: cost, "seconds": round(seconds, 3)}
    say(
        facts,
        f"{rows:,} rows in {seconds:.1f} s, {what.replace('_', '-')} {cost:.6g}"
        + ("" if output == "-" else f": {output}"),
        quiet=quiet,
        as_json=as_json and output != "-",
    )


def _finder(
    model: lwcs.CoresetKMeans | lwcs.CoresetMixture, source: Source
) -> Callable[[Block], tuple[Any, FloatArray]]:
    """What gives every row its label and distance, or log-likelihood."""
    if isinstance(model, lwcs.CoresetMixture):
        from lwcs.estimators.mixture_rows import labelled

        found = model.mixture_
        return lambda block: labelled(found.family, found.weights, block)
    centers, measure = model.cluster_centers_.astype(np.float64), model.measure_
    own, kernel = measure.divergence.inward(centers), kernels.choose(source.n_values)
    return lambda block: nearest_in(block, own, measure, kernel)


def _columns(names: Any) -> list[str]:
    """The columns that features came from; those of a vector, v[0], v[1] …, came from one."""
    own = [str(name) for name in names]
    stem = own[0].removesuffix("[0]")
    if own == [f"{stem}[{j}]" for j in range(len(own))]:
        return [stem]
    return own


@dataclass(frozen=True, slots=True)
class Assigned:
    """Labels and distances of a partition; the rows that have none; its cost."""

    labels: Any
    distances: FloatArray
    dropped: Any
    cost: float

    def table(self, first_row: int, schema: pa.Schema) -> pa.Table:
        """As it is written."""
        mask = self.dropped if self.dropped.any() else None
        columns = [
            pa.array(np.arange(first_row, first_row + len(self.labels))),
            pa.array(self.labels, mask=mask),
            pa.array(self.distances, mask=mask),
        ]
        return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class Assign:
    """Label the rows of a partition."""

    find: Callable[[Block], tuple[Any, FloatArray]]
    """The label and the distance of every row of a block."""

    def __call__(self, blocks: Iterator[Block], partition: int) -> Assigned:
        """Block by block."""
        labels, distances, dropped, cost = [], [], [], 0.0
        for block in blocks:
            with BadValueError.in_partition(partition):
                own, far = self.find(block)
            labels.append(own)
            distances.append(far)
            gone = np.zeros(len(own), dtype=bool) if block.dropped is None else block.dropped
            dropped.append(gone)
            cost += float(far.sum() if block.weights is None else block.weights @ far)
        return Assigned(
            np.concatenate(labels), np.concatenate(distances), np.concatenate(dropped), cost
        )


@contextmanager
def _writer(output: str, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Write tables one after the other; the file appears when all are there."""
    if output == "-":
        from pyarrow import csv

        with csv.CSVWriter(sys.stdout.buffer, schema) as writer:
            yield writer.write_table
        return
    with replacing(output) as temporary:
        if Path(output).suffix == ".csv":
            from pyarrow import csv

            with csv.CSVWriter(temporary, schema) as writer:
                yield writer.write_table
        else:
            import pyarrow.parquet as pq

            with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
                yield writer.write_table

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

from lwcs.cli.options import check_output, open_rows, reading, say, saying, within_memory
from lwcs.foundation.checks import BadValueError
from lwcs.foundation.progress import track
from lwcs.foundation.storage import replacing
from lwcs.solvers.assignment import nearest_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lwcs.divergences import Measure
    from lwcs.foundation.types import FloatArray
    from lwcs.kernels import KernelName
    from lwcs.sources import Block

SCHEMA = pa.schema([("row", pa.int64()), ("label", pa.int32()), ("squared_distance", pa.float64())])


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
    """Label every row of DATA by the nearest center of MODEL.

    lwcs assign "events/*.parquet" model.parquet -o labels.parquet

    Writes the row number, the label and the squared distance to its center. A row that was left
    out for a missing value has no label.
    """
    import lwcs
    from lwcs import kernels
    from lwcs.sources.base import PARTITION_ROWS

    start = time.perf_counter()
    check_output(output)
    fitted = lwcs.load(model)
    if not isinstance(fitted, lwcs.CoresetKMeans):
        raise ValueError(f"{model!r} holds a {type(fitted).__name__}, and no model")
    if columns is None and hasattr(fitted, "feature_names_in_"):
        source = open_rows(data, columns=_columns(fitted.feature_names_in_), quiet=quiet, **options)
    else:
        source = open_rows(data, columns=columns, quiet=quiet, **options)
    if source.n_features != len(fitted.cluster_centers_[0]):
        raise ValueError(
            f"the data has {source.n_features} columns, but the model "
            f"{len(fitted.cluster_centers_[0])}; choose them with --columns"
        )
    threads = within_memory(source, memory, jobs)
    kernel = kernels.choose(source.n_values)
    centers = fitted.cluster_centers_.astype(np.float64)
    measure = fitted.measure_
    task = Assign(measure.divergence.inward(centers), measure, kernel)
    rows, cost = 0, 0.0
    with _writer(output) as write, source.explaining():
        parts = source.gather(task, n_jobs=threads)
        total = source.known_partitions
        for part in track(parts, "assigning", total, show=not quiet, rows=PARTITION_ROWS):
            write(part.table(rows))
            rows, cost = rows + len(part.labels), cost + part.cost
    seconds = time.perf_counter() - start
    facts = {"rows": rows, "cost": cost, "seconds": round(seconds, 3)}
    say(
        facts,
        f"{rows:,} rows in {seconds:.1f} s, cost {cost:.6g}"
        + ("" if output == "-" else f": {output}"),
        quiet=quiet,
        as_json=as_json and output != "-",
    )


def _columns(names: Any) -> list[str]:
    """The columns that features came from; those of a vector, v[0], v[1] …, came from one."""
    own = [str(name) for name in names]
    stem = own[0].removesuffix("[0]")
    if own == [f"{stem}[{j}]" for j in range(len(own))]:
        return [stem]
    return own


@dataclass(frozen=True, slots=True)
class Assigned:
    """Labels and squared distances of a partition; the rows that have none; its cost."""

    labels: Any
    distances: FloatArray
    dropped: Any
    cost: float

    def table(self, first_row: int) -> pa.Table:
        """As it is written."""
        mask = self.dropped if self.dropped.any() else None
        columns = [
            pa.array(np.arange(first_row, first_row + len(self.labels))),
            pa.array(self.labels, mask=mask),
            pa.array(self.distances, mask=mask),
        ]
        return pa.Table.from_arrays(columns, schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Assign:
    """Label the rows of a partition."""

    centers: FloatArray
    measure: Measure
    kernel: KernelName

    def __call__(self, blocks: Iterator[Block], partition: int) -> Assigned:
        """Block by block."""
        labels, distances, dropped, cost = [], [], [], 0.0
        for block in blocks:
            with BadValueError.in_partition(partition):
                own, far = nearest_in(block, self.centers, self.measure, self.kernel)
            labels.append(own)
            distances.append(far)
            gone = np.zeros(len(own), dtype=bool) if block.dropped is None else block.dropped
            dropped.append(gone)
            cost += float(far.sum() if block.weights is None else block.weights @ far)
        return Assigned(
            np.concatenate(labels), np.concatenate(distances), np.concatenate(dropped), cost
        )


@contextmanager
def _writer(output: str) -> Iterator[Callable[[pa.Table], None]]:
    """Write tables one after the other; the file appears when all are there."""
    if output == "-":
        from pyarrow import csv

        with csv.CSVWriter(sys.stdout.buffer, SCHEMA) as writer:
            yield writer.write_table
        return
    with replacing(output) as temporary:
        if Path(output).suffix == ".csv":
            from pyarrow import csv

            with csv.CSVWriter(temporary, SCHEMA) as writer:
                yield writer.write_table
        else:
            import pyarrow.parquet as pq

            with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
                yield writer.write_table

"""`lwcs inspect`: describe the contents of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lwcs.cli.options import saying
from lwcs.cli.standard_input import NAME, saved_file
from lwcs.foundation.progress import track
from lwcs.foundation.storage import NotOursError
from lwcs.sources.base import PARTITION_ROWS


@click.command()
@click.argument("file")
@saying
def inspect(file: str, quiet: bool, as_json: bool) -> None:
    """Describe a data file, or a file saved by lwcs.

    FILE holds rows, a coreset, a model, a stream or a comparison; - is standard input.
    """
    name, file = (NAME if file == "-" else Path(file).name), saved_file(file)
    facts = _facts(file, progress=not quiet)
    if as_json:
        click.echo(json.dumps(facts))
    elif not quiet:
        from rich.console import Console
        from rich.table import Table

        table = Table(title=name, show_header=False)
        for name, value in facts.items():
            table.add_row(name.replace("_", " "), _shown(value))
        Console().print(table)


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


def _facts(file: str, *, progress: bool) -> dict[str, Any]:
    import lwcs

    try:
        found = lwcs.load(file)
    except NotOursError:
        return _rows(file, progress=progress)
    if isinstance(found, lwcs.Coreset):
        return {
            "kind": "coreset",
            "method": found.method,
            "divergence": repr(found.divergence),
            "draws": found.size,
            "rows": len(found.weights),
            "of_rows": found.n_samples,
            "total_weight": found.total_weight,
            "sum_of_weights": float(found.weights.sum()),
            "cost_of_the_mean": found.total_cost,
            "features": list(found.feature_names or [f"{found.n_features} without names"]),
            "scaled": found.scale is not None,
            "seed": found.seed,
            "depth": found.depth,
            "details": dict(found.details),
        }
    if isinstance(found, lwcs.StreamingCoreset):
        return {
            "kind": "stream",
            "method": found.method,
            "divergence": repr(found.divergence),
            "draws": found.size,
            "of_rows": found.n_samples,
            "features": found.n_features,
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
            "iterations": int(found.n_iter_),
            "converged": found.converged_,
        }
    return {
        "kind": "model",
        "divergence": repr(found.geometry_.divergence),
        "clusters": len(found.cluster_centers_),
        "features": [str(name) for name in names],
        "cost": found.inertia_,
        "iterations": int(found.n_iter_),
        "scaled": found.scale_ is not None,
    }


def _rows(file: str, *, progress: bool) -> dict[str, Any]:
    import lwcs

    source = lwcs.scan(file)
    if source.n_rows is None:
        parts = source.gather(_number, n_jobs=1)
        for _ in track(parts, "counting", None, show=progress, rows=PARTITION_ROWS):
            pass
    return {
        "kind": "rows",
        "rows": source.n_rows,
        "features": list(source.feature_names or [f"{source.n_features} without names"]),
        "left_out": list(getattr(source, "skipped", ())),
    }


def _number(_: Any, partition: int) -> int:
    """A task that looks at no row; the number of rows is known once all are read."""
    return partition

"""Targets of fuzzing: each makes one input from a generator, and judges the outcome."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from contextlib import chdir
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import scipy.sparse as sp
from click.testing import CliRunner

import lwcs
from lwcs import theory
from lwcs.arrays.rows import same_rows
from lwcs.sources.streams import open_pipe
from lwcs.storage import persistence as storage
from tests.fuzz import mutations as mutate
from tests.fuzz.outcomes import attempt, demand
from tests.fuzz.saved import objects, same, table_of

Rng = np.random.Generator
Target = Callable[[Rng, Path], None]


@cache
def _saved(kind: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table_of(objects()[kind]), sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def load_bytes(rng: Rng, folder: Path) -> None:
    """A saved file whose bytes are damaged is refused, or gives an equal object."""
    kind = mutate.pick(rng, list(objects()))
    path = folder / "saved.parquet"
    path.write_bytes(mutate.damaged_bytes(rng, _saved(kind)))
    succeeded, found = attempt(lambda: lwcs.load(path))
    if succeeded:
        demand(same(found, objects()[kind]), f"another object was loaded: {found!r}")
    else:
        demand("saved.parquet" in str(found), f"the file is not named: {found}")


def load_fields(rng: Rng, folder: Path) -> None:
    """A file with strange fields and a right checksum is refused, or gives an object that works."""
    kind = mutate.pick(rng, list(objects()))
    table = table_of(objects()[kind])
    record = json.loads(table.schema.metadata[b"lwcs"])
    if rng.integers(2):
        record = mutate.damaged_record(rng, record)
    else:
        table = mutate.damaged_table(rng, table)
    path = folder / "saved.parquet"
    try:
        pq.write_table(storage.sealed(table, record), path)
    except (pa.ArrowException, ValueError, TypeError, AttributeError):
        return  # no Parquet file is like that
    succeeded, found = attempt(lambda: lwcs.load(path))
    if not succeeded:
        return
    attempt(lambda: _use(found))
    again = folder / "again.parquet"
    pq.write_table(table_of(found), again)
    demand(same(lwcs.load(again), found), "saved again, it is another object")


def _use(found: Any) -> None:
    """Do to an object what it is for."""
    X = np.random.default_rng(0).gamma(2.0, size=(5, 3))
    if isinstance(found, lwcs.Coreset):
        if found.n_features < 100:
            found.cost(np.ones((2, found.n_features)))
        found.reduce(1, random_state=0)
    elif isinstance(found, lwcs.StreamingCoreset):
        if found.size < 1e5:
            found.coreset()
    elif isinstance(found, lwcs.CoresetKMeans | lwcs.CoresetMixture):
        found.predict(X)
    else:
        found.to_markdown()


ROWS = np.random.default_rng(1).gamma(2.0, size=(50, 3)).round(3)


@cache
def _data(form: str) -> bytes:
    table = pa.table({f"c{j}": ROWS[:, j] for j in range(3)})
    if form.startswith("lists"):
        table = pa.table({"v": pa.array(list(ROWS), pa.list_(pa.float64(), 3))})
    sink = io.BytesIO()
    if form.endswith("parquet"):
        pq.write_table(table, sink)
    elif form.endswith("feather"):
        pa.feather.write_feather(table, sink)
    elif form == "csv":
        pa.csv.write_csv(table, sink)
    elif form == "npy":
        np.save(sink, ROWS)
    elif form == "stored.npz":
        np.savez(sink, ROWS)
    elif form == "packed.npz":
        np.savez_compressed(sink, ROWS)
    elif form == "sparse.npz":
        sp.save_npz(sink, sp.csr_array(np.where(ROWS > 2, ROWS, 0.0)))
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def _reference(form: str, data: bytes) -> Any:
    """What the library below reads from the same bytes, or None if it does not."""
    source = io.BytesIO(data)
    try:
        if form.endswith("parquet"):
            return pq.read_table(source)
        if form.endswith("feather"):
            return pa.ipc.open_file(source).read_all()
        if form.startswith("pipe"):
            return pa.ipc.open_stream(source).read_all()
        if form == "sparse.npz":
            return sp.load_npz(source)
        if form == "npy":
            return np.load(source)
        # np.load wants the archive at the very start of the file, other readers do not.
        with zipfile.ZipFile(source) as packed:
            (name,) = packed.namelist()
            return np.load(io.BytesIO(packed.read(name)))
    except Exception:
        return None


def read(form: str, rng: Rng, folder: Path) -> None:
    """A damaged file of rows is refused, or is read as the library below reads it."""
    data = mutate.damaged_bytes(rng, _data(form))
    path = folder / f"rows.{form}"
    path.write_bytes(data)

    def build() -> Any:
        source = open_pipe(io.BytesIO(data), "arrow") if form.startswith("pipe") else path
        return lwcs.build(source, 5, random_state=0)

    succeeded, found = attempt(build)
    if not succeeded:
        named = any(word in str(found) for word in ("rows.", "column", "row ", "standard input"))
        demand(named, f"neither file nor column is named: {found}")
        return
    if form == "csv":
        return  # what a text means is for other tests to say
    expected = _reference(form, data)
    demand(expected is not None, "read, but the library below refuses it")
    passes: Any = 2 if isinstance(expected, pa.Table) and not form.startswith("pipe") else 1
    if form.startswith("lists"):
        expected = np.array(expected.column(0).to_pylist(), dtype=np.float64)
    if form.startswith("pipe"):
        expected = iter(expected.to_batches())
    agreed, other = attempt(lambda: lwcs.build(expected, 5, random_state=0, passes=passes))
    demand(agreed and _alike(found, other), f"another answer: {found!r}, not {other!r}")


def _alike(one: lwcs.Coreset, other: lwcs.Coreset) -> bool:
    """Whether two coresets have the same rows and weights; names depend on the container."""
    return (
        np.array_equal(one.indices, other.indices)
        and np.array_equal(one.weights, other.weights)
        and same_rows(one.points, other.points)
    )


OPTIONS = [
    "-k", "--size", "--seed", "--passes", "--method", "--columns", "--weight", "--missing",
    "--scale", "--divergence", "--json", "-q", "--cost", "--polish", "--family", "-n", "--repeats",
    "--exclude", "--help", "--sizes", "--distances",
]  # fmt: skip
VALUES = ["0", "1", "2", "5", "-1", "x", "", "1e400", "99999999999999999999", "nan", "c0", "c*",
          "[", "kl", "drop", "lightweight", "refined", "standard", "gaussian", "full"]  # fmt: skip
FILES = ("rows.parquet", "rows.csv", "rows.npy", "coreset.parquet", "model.parquet", "nothing")


def command(rng: Rng, folder: Path) -> None:
    """A command with damaged files and strange options ends with a line and an exit code."""
    for name in FILES[:-1]:
        kind = {"model.parquet": "kmeans", "coreset.parquet": "coreset"}.get(name)
        data = _data(name.split(".")[1]) if kind is None else _saved(kind)
        damage = rng.integers(3) == 0
        (folder / name).write_bytes(mutate.damaged_bytes(rng, data) if damage else data)
    files = [str(folder / name) for name in FILES]
    which = mutate.pick(rng, ["build", "fit", "assign", "inspect", "mixture", "compare"])
    arguments = [which, mutate.pick(rng, files)]
    if which == "assign":
        arguments.append(mutate.pick(rng, [files[4], files[4], files[3]]))
    arguments += {"build": ["--size", "5"], "fit": ["-k", "2", "--size", "5"],
                  "mixture": ["-n", "2", "--size", "5"],
                  "compare": ["-k", "2", "--sizes", "5", "--repeats", "1", "--methods",
                              "full,uniform"]}.get(which, [])  # fmt: skip
    if which != "inspect":
        end = mutate.pick(rng, ["parquet", "csv", "parquet"])
        arguments += ["-o", str(folder / f"out.{end}")]
    for _ in range(int(rng.choice([0, 0, 1, 1, 2]))):
        at = int(rng.integers(1, len(arguments) + 1))
        arguments[at:at] = [mutate.pick(rng, OPTIONS)]
        if rng.integers(3):
            arguments.insert(at + 1, mutate.pick(rng, VALUES))
    before = {path.name for path in folder.iterdir()}
    with chdir(folder):
        # An option in the place of an output is a path from here.
        result = CliRunner().invoke(lwcs.cli.main, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    demand(result.exit_code in (0, 1, 2), f"exit code {result.exit_code}")
    said = result.stderr + result.stdout
    demand(result.exit_code == 0 or bool(said.strip()), f"no words for {arguments}")
    left = {path.name for path in folder.iterdir()} - before
    demand(not any(name.startswith(".lwcs-") for name in left), f"left behind: {left}")
    for name in left:
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()


def _finite(value: Any) -> bool:
    return bool(np.isfinite(np.asarray(value, dtype=np.float64)).all())


METHODS = ["lightweight", "uniform", "sensitivity", "refined"]
DIVERGENCES = ["sqeuclidean", "sqeuclidean", "kl", "itakura_saito", "cosine", "kl_simplex",
               "logistic", "exponential"]  # fmt: skip


# Who asks for 10¹² draws or clusters gets them, as far as memory goes.
SMALL = [each for each in mutate.STRANGE if not isinstance(each, int | float) or each < 1e5]


def build(rng: Rng, folder: Path) -> None:
    """Strange arrays, weights and parameters: a clear error or a coreset of finite numbers."""
    del folder
    X = mutate.rows(rng)
    options: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "n_clusters": 2}
    options["method"] = mutate.pick(rng, METHODS)
    options["divergence"] = mutate.pick(rng, DIVERGENCES)
    options["sample_weight"] = mutate.weights(rng, _length(X))
    size: Any = int(rng.integers(1, 9))
    if rng.integers(6) == 0:
        options[mutate.pick(rng, [*options, "passes"])] = mutate.pick(rng, SMALL)
    if rng.integers(12) == 0:
        size = mutate.pick(rng, SMALL)
    succeeded, found = attempt(lambda: lwcs.build(X, size, **options))
    if succeeded:
        demand(_finite(found.weights) and found.weights.min() >= 0, f"weights {found.weights}")
        demand(found.size == size, f"{found.size} draws")
        for each in (found.mean, found.total_cost):
            demand(each is None or _finite(each), f"mean {found.mean}, cost {found.total_cost}")


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") and X.shape else 7


def estimator(rng: Rng, folder: Path) -> None:
    """Strange arrays and parameters: a clear error, or labels and centers that are numbers."""
    del folder
    X = mutate.rows(rng)
    mixture = rng.integers(4) == 0
    options: dict[str, Any] = {"random_state": 0, "n_jobs": 1, "max_iter": 20}
    if mixture:
        options["family"] = mutate.pick(rng, ["gaussian", "poisson", "gamma", "bernoulli"])
        options["covariance_type"] = mutate.pick(rng, ["full", "diag"])
        options["n_components"] = 2
    else:
        options["divergence"] = mutate.pick(rng, DIVERGENCES)
        options["coreset_size"] = mutate.pick(rng, ["auto", 5])
        options["n_clusters"] = 2
    if rng.integers(4) == 0:
        options[mutate.pick(rng, list(options))] = mutate.pick(rng, SMALL)
    weight = mutate.weights(rng, _length(X))
    kind: Any = lwcs.CoresetMixture if mixture else lwcs.CoresetKMeans
    succeeded, model = attempt(lambda: kind(**options).fit(X, sample_weight=weight))
    if not succeeded:
        return
    demand(_finite(model.means_ if mixture else model.cluster_centers_), "centers are not finite")
    other = mutate.rows(rng)
    succeeded, labels = attempt(lambda: model.predict(other))
    if succeeded:
        k = len(model.means_ if mixture else model.cluster_centers_)
        demand(all(0 <= label < k for label in np.ravel(labels)), f"labels {labels}")


def stream(rng: Rng, folder: Path) -> None:
    """A batch that is refused leaves a stream as it was, whatever it holds."""
    del folder
    own = lwcs.StreamingCoreset(
        4, random_state=0, method=mutate.pick(rng, ["lightweight", "uniform"])
    )
    own.update(ROWS[:, : int(rng.integers(1, 4))])
    for _ in range(3):
        before = table_of(own)
        batch = mutate.rows(rng)
        weight = mutate.weights(rng, _length(batch))
        succeeded, _ = attempt(lambda batch=batch, weight=weight: own.update(batch, weight))
        if not succeeded:
            demand(table_of(own).equals(before, check_metadata=True), "a refused batch changed it")
        drawn, coreset = attempt(own.coreset)
        demand(drawn, f"no coreset after such a batch: {coreset}")
        demand(_finite(coreset.weights), f"weights {coreset.weights}")


THEORY: dict[str, int] = {
    "coreset_size": 4, "epsilon_for": 4, "bregman_size": 5, "statistical_sample_size": 5,
    "solution_bound": 3, "reduced_epsilon": 2, "calibrated_size": 2,
}  # fmt: skip
SENSIBLE = [0.1, 0.5, 1, 2, 10, 1.0]


def bounds(rng: Rng, folder: Path) -> None:
    """Absurd arguments of theory: a clear error or a number that is not NaN."""
    del folder
    name = mutate.pick(rng, list(THEORY))
    given = [
        mutate.pick(rng, mutate.STRANGE + mutate.NUMBERS if rng.integers(3) == 0 else SENSIBLE)
        for _ in range(THEORY[name])
    ]
    succeeded, found = attempt(lambda: getattr(theory, name)(*given))
    if succeeded:
        demand(found >= 0, f"{name}{tuple(given)} = {found}")


def kurtosis(rng: Rng, folder: Path) -> None:
    """Kurtosis is at least 1, or there is a clear error."""
    del folder
    X = mutate.rows(rng)
    weight = mutate.weights(rng, _length(X))
    succeeded, found = attempt(lambda: theory.kurtosis(X, sample_weight=weight, n_jobs=1))
    if succeeded:
        demand(found >= 1.0 - 1e-6, f"kurtosis {found}")


TARGETS: dict[str, tuple[Target, float]] = {
    "load-bytes": (load_bytes, 0.30),
    "load-fields": (load_fields, 0.20),
    **{
        f"read-{form}": (partial(read, form), 0.024)
        for form in ("parquet", "feather", "csv", "npy", "stored.npz", "packed.npz", "sparse.npz",
                     "pipe", "lists.parquet", "lists.feather")
    },
    "build": (build, 0.09),
    "estimator": (estimator, 0.05),
    "stream": (stream, 0.03),
    "bounds": (bounds, 0.04),
    "kurtosis": (kurtosis, 0.03),
    "command": (command, 0.02),
}  # fmt: skip
"""Targets by name, and the part of all cases that each one gets."""

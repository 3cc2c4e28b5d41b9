"""Files that are damaged or made to harm: an error that names the file, or an equal object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.storage import persistence as storage
from tests.fuzz.saved import objects, same, table_of

KINDS = list(objects())
HUGE = 10**400


def metadata_of(table: pa.Table) -> dict[str, Any]:
    return json.loads(table.schema.metadata[b"lwcs"])


def changed(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A record with one field changed; "a.b" is the field b within a, and ... removes it."""
    first, _, rest = path.partition(".")
    new = dict(record)
    if rest:
        new[first] = changed(record[first], rest, value)
    elif value is ...:
        del new[first]
    else:
        new[first] = value
    return new


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    return table.set_column(table.column_names.index(name), name, column)


def loaded(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "f.parquet")
    return lwcs.load(folder / "f.parquet")


def refused(table: pa.Table, folder: Path, what: str) -> None:
    with pytest.raises(ValueError, match=r"f\.parquet' (is damaged|was saved|contains)") as error:
        pytest.fail(f"loaded {loaded(table, folder)!r} in spite of {what}")
    assert what in str(error.value) or "=" in what
    assert len(str(error.value)) < 700


@pytest.mark.parametrize("kind", KINDS)
def test_an_honest_object_is_loaded_as_it_was(kind, tmp_path):
    assert same(loaded(table_of(objects()[kind]), tmp_path), objects()[kind])


COUNTS = [-1, 1.5, None, "x", True, HUGE, [], ...]
NUMBERS = [-1.0, None, "x", True, HUGE, [], ...]
TEXTS = [7, None, [], ...]
VECTORS = ["x", [1.0], [1.0, 2.0, None], [1.0, 2.0, "x"], [1.0, 2.0, HUGE], [[1.0], 2.0, 3.0], ...]
NAMES = ["abc", ["a", "b"], ["a", "b", "b"], ["a", "b", 3], ["a", "b", None], ...]
FLAGS = [0, None, "yes", ...]
OBJECTS = [None, [], "x", 3]
FIELDS: dict[str, dict[str, list[Any]]] = {
    "coreset": {
        "n_samples": [*COUNTS, 0],
        "n_features": [*COUNTS, 0, 2, 4, 10**9, 10**12],
        "depth": [*COUNTS, 10**12],
        "total_weight": [*NUMBERS, 0.0],
        "total_cost": [each for each in NUMBERS if each is not None],
        "seed": [-1, 1.5, "x", True, []],
        "method": TEXTS,
        "mean": VECTORS,
        "scale": [*VECTORS, [1.0, 0.0, 1.0], [1.0, -1.0, 1.0]],
        "feature_names": NAMES,
        "sparse": [*FLAGS, True],
        "columns": [*OBJECTS, ..., {}, {"index": "index", "weight": "weight", "count": "weight"}],
        "columns.weight": ["nowhere", "x0", 3, None, ...],
        "divergence": [7, None, "horoscope", "mahalanobis"],
        "divergence_parameters": [{"wrong": 3}, [], {"smoothing": "x"}],
        "details": [*OBJECTS, {"dropped": -1}, {"dropped": "x"}, {"dropped": 500}],
    },
    "coreset, sparse": {"n_features": [1, 10**12], "sparse": [False], "mean": [[1.0] * 4]},
    "coreset, kl": {"divergence_parameters": [{"smoothing": "x"}, {"smoothing": 7.0}]},
    "stream": {
        "size": [*COUNTS, 0],
        "seed": [-1, 1.5, None, "x", True, [], ...],
        "method": [*TEXTS, "refined"],
        "n_features": [*COUNTS, 2, 10**9],
        "feature_names": NAMES,
        "dtype": [*TEXTS, "object", "int8", "U9"],
        "sparse": [*FLAGS, True],
        "weighted": FLAGS,
        "arrived": COUNTS,
        "dropped": [each for each in COUNTS if each is not ...] + [10**9],
        "levels": [*OBJECTS, ..., {}, {"0": {}}, {"x": {}}, {"10000000": {}}],
        "levels.0.depth": [10**12],
        "levels.0.n_samples": [0, 1],
        "levels.0.dtype": ["object", 3],
        "levels.0.divergence": ["kl"],
        "levels.0.scale": [[1.0, 1.0, 1.0]],
        "levels.0.feature_names": [["a", "b", "c"]],
        "state": [*OBJECTS, ...],
        "state.kernel": [*TEXTS, "fast"],
        "state.rows": COUNTS,
        "state.blocks": COUNTS,
        "state.cost": NUMBERS,
        "state.by_weight": [*NUMBERS, 1.0],
        "state.by_cost": [*NUMBERS, 1.0],
        "state.pivot": [*VECTORS, [1.0, 2.0, 3.0]],
        "divergence": ["horoscope", 3],
    },
    "stream, long": {
        "state.rows": [1],
        "state.pivot": [None, [1.0]],
        "state.shift": [None, [1.0]],
        "state.by_weight": [0.0],
        "size": [3],
        "n_features": [None],
    },
    "stream, empty": {
        "arrived": [3],
        "dropped": [1],
        "state.rows": [3],
        "feature_names": [["a"]],
        "n_features": [1],
        "levels": [{"0": {}}],
    },
    "kmeans": {
        "n_features": [*COUNTS, 0, 2, 10**9],
        "n_iter": COUNTS,
        "inertia": NUMBERS,
        "scale": [*VECTORS, [1.0, 0.0, 1.0]],
        "mean": VECTORS[:-1],
        "feature_names": NAMES,
        "divergence": ["horoscope", 3, "mahalanobis"],
        "parameters": [*OBJECTS, ..., {"unknown": 1}],
        "parameters.n_clusters": [1, "x", None, HUGE],
        "parameters.method": ["horoscope", 3, None],
        "parameters.init": ["horoscope"],
        "parameters.tol": [-1, "x", None, HUGE],
        "parameters.max_iter": [0, "x"],
        "parameters.coreset_size": [1, "x"],
        "parameters.polish": [-1, "x"],
        "parameters.random_state": [-1, "x", 1.5],
        "parameters.n_jobs": ["x", 0],
        "parameters.verbose": ["x", None],
        "parameters.compute_labels": ["x", None],
    },
    "mixture": {
        "n_features": [*COUNTS, 0, 2, 10**9],
        "n_iter": [*COUNTS, 0],
        "lower_bound": [None, "x", HUGE, True, ...],
        "converged": FLAGS,
        "feature_names": NAMES,
        "numbers": [*OBJECTS, {"a": "x"}],
        "shapes": OBJECTS,
        "shapes.covariance": [[3], [9, 9], "x", [-3, -3], [1] * 99, [10**12, 0], None],
        "columns": [*OBJECTS, {}, ...],
        "columns.weight": ["covariance", "x0", None],
        "parameters.family": ["horoscope", 3, None, "gamma"],
        "parameters.covariance_type": ["round", "diag", 3],
        "sampling_error": [-1.0, "x", HUGE, True],
        "sampling_error_bound": [-1.0, "x", HUGE, True],
        "parameters.n_components": [3, "x"],
        "parameters.tol": [-1],
        "parameters.n_init": [0, "x", None],
        "parameters.target_error": [0.0, "x", HUGE],
        "parameters.holdout": [1.0, -0.1, "x", None],
    },
    "mixture, multinomial": {"numbers.trials": [-1.0, "x", None, HUGE, ...]},
    "comparison": {
        "setup": [*OBJECTS, ...],
        "setup.n_samples": COUNTS,
        "setup.n_features": COUNTS,
        "setup.spread": NUMBERS,
        "setup.holdout_rows": COUNTS,
        "setup.first_seed": COUNTS,
    },
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field_that_cannot_be_is_refused_by_its_name(kind, tmp_path):
    table = table_of(objects()[kind])
    for field, values in FIELDS[kind].items():
        for value in values:
            record = changed(metadata_of(table), field, value)
            refused(storage.sealed(table, record), tmp_path, f"{field}={value!r}")


def test_the_message_says_field_value_and_bound(tmp_path):
    table = table_of(objects()["coreset"])
    for field, value, said in (
        ("depth", 10**12, "field 'depth' is 1000000000000, must be an integer from 0 to"),
        ("total_weight", -1, "field 'total_weight' is -1, must be a finite number > 0"),
        ("mean", [1.0], "field 'mean' is a list of 1, [1.0], must be null or a list of 3 finite"),
        ("n_features", 10**9, "field 'n_features' is 1000000000, must be 3"),
        ("method", ..., "field 'method' is missing, must be a text"),
        ("columns.weight", 3, "field 'columns.weight' is 3, must be a text"),
    ):
        refused(storage.sealed(table, changed(metadata_of(table), field, value)), tmp_path, said)


NAN, INF = float("nan"), float("inf")


def column_changes(kind: str) -> dict[str, list[Any]]:
    """Columns of other types, lengths and values than each kind has."""
    table = table_of(objects()[kind])
    n = len(table)

    def first(column: str, value: Any) -> Any:
        values = table[column].to_pylist()
        return pa.array([value, *values[1:]], table[column].type)

    texts, floats = ["x"] * n, np.ones(n)
    if kind == "coreset":
        return {
            "weight": [texts, np.ones(n, np.float32), np.zeros(n), floats * 1e308,
                       *(first("weight", v) for v in (NAN, INF, -1.0, None))],
            "index": [texts, floats, np.arange(n)[::-1], np.zeros(n, np.int64),
                      *(first("index", v) for v in (-1, None)), np.arange(n) + 60],
            "count": [texts, floats, *(first("count", v) for v in (0, -1, None))],
            "x1": [texts, np.ones(n, np.float32), [None] * n, [[1.0]] * n, [True] * n,
                   pa.array(texts).dictionary_encode(),
                   *(first("x1", v) for v in (NAN, INF, None))],
        }  # fmt: skip
    if kind == "coreset, sparse":
        lists = table["nonzero_columns"].to_pylist()
        own = pa.large_list(pa.int32())

        def places(new: list[Any]) -> pa.Array:
            at = next(i for i, each in enumerate(lists) if len(each) == len(new))
            return pa.array([*lists[:at], new, *lists[at + 1 :]], own)

        return {
            "nonzero_columns": [
                texts, floats, [None] * n, pa.array(lists, pa.large_list(pa.int64())),
                places([0, 2_000_000_000]), places([-1, 0]), places([2, 1]), places([1, 1]),
                places([0, 3]), places([0, None]), pa.array([[0]] * n, own),
            ],
            "nonzero_values": [texts, floats, [["x"]] * n, [[NAN] * len(each) for each in lists]],
        }  # fmt: skip
    if kind == "stream":
        return {
            "part": [["by_weight"] * n, texts, np.arange(n), [None] * n,
                     pa.array(["level 9"] * n)],
            "index": [texts, -np.arange(n)],
            "weight": [texts, floats * NAN, -floats],
            "count": [texts, np.zeros(n, np.int64)],
            "x0": [texts, floats * NAN, np.ones(n, np.float32)],
        }  # fmt: skip
    if kind == "stream, long":
        return {
            "index": [np.full(n, -1), np.full(n, 10**9)],
            "part": [[*table["part"].to_pylist()[1:], "waiting"]],
            "x0": [np.full(n, INF, np.float32)],
        }
    if kind in ("kmeans", "kmeans, kl"):
        return {
            "cluster": [texts, np.zeros(n, np.int64), np.arange(n)[::-1]],
            "x0": [texts, *(first("x0", v) for v in (NAN, INF, None)), np.ones(n, np.int64),
                   *([-floats] if kind == "kmeans, kl" else [])],
        }  # fmt: skip
    if kind == "mixture":
        flat = np.array(table["covariance"].to_pylist())
        lopsided = flat.copy()
        lopsided[:, 1] += 5.0
        return {
            "weight": [texts, np.ones(n), -floats, np.zeros(n), first("weight", NAN)],
            "component": [texts, np.zeros(n, np.int64)],
            "covariance": [texts, floats, [[1.0]] * n, (-flat).tolist(), (0 * flat).tolist(),
                           (NAN * flat).tolist(), lopsided.tolist(), [None] * n,
                           [flat[0].tolist(), [1.0]]],
            "x0": [texts, first("x0", NAN)],
        }  # fmt: skip
    if kind == "mixture, gamma":
        return {"shape": [[[-1.0] * 3] * n, [[0.0] * 3] * n], "x0": [-floats]}
    if kind == "mixture, multinomial":
        return {"x0": [floats, -floats]}
    return {
        "data": [[None] * n, np.arange(n)],
        "method": [texts, [None] * n],
        "n_clusters": [np.zeros(n, np.int64), texts, floats],
        "seed": [-np.ones(n, np.int64), np.full(n, 3, np.int32), [None] * n],
        "cost": [-floats, NAN * floats, INF * floats, [None] * n, texts],
        "build_seconds": [-floats, NAN * floats],
        "holdout_cost": [-floats, NAN * floats, texts],
        "size": [np.full(n, -1)],
        "polish": [np.full(n, -1)],
    }


COLUMNS = ["coreset", "coreset, sparse", "stream", "stream, long", "kmeans", "kmeans, kl",
           "mixture", "mixture, gamma", "mixture, multinomial", "comparison"]  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_that_cannot_be_is_refused(kind, tmp_path):
    table = table_of(objects()[kind])
    for name, all_values in column_changes(kind).items():
        for values in all_values:
            new = with_column(table, name, values)
            refused(storage.sealed(new, metadata_of(table)), tmp_path, "")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_and_further_columns_and_rows_are_refused(kind, tmp_path):
    table = table_of(objects()[kind])
    record, first = metadata_of(table), table.column_names[0]
    refused(storage.sealed(table.drop_columns([first]), record), tmp_path, "")
    more = table.append_column("more", pa.array([1] * len(table), pa.int64()))
    refused(storage.sealed(more, record), tmp_path, "")
    twice = table.append_column(first, table[first])
    refused(storage.sealed(twice, record), tmp_path, "")
    if kind not in ("stream, empty", "comparison"):
        refused(storage.sealed(table.slice(0, 0), record), tmp_path, "")


@pytest.mark.parametrize(
    "raw", [b"\xff", b"[" * 100_000, b"[]", b"3", b'{"format_version": NaN}', b"{}",
            b'{"format_version": 2, "kind": "coreset"}', b'{"format_version": 0}',
            b'{"format_version": "2"}', b'{"format_version": 1e400}', b"9" * 5_000],
)  # fmt: skip
def test_metadata_that_is_not_ours_is_refused(raw, tmp_path):
    table = table_of(objects()["coreset"]).replace_schema_metadata({b"lwcs": raw})
    refused(table, tmp_path, "")


def test_a_centre_that_is_not_finite_is_blamed_on_the_file(tmp_path):
    table = table_of(objects()["kmeans"])
    new = with_column(table, "x0", [NAN, 1.0])
    refused(storage.sealed(new, metadata_of(table)), tmp_path, "column 'x0' has nan in row 0")


def test_a_comparison_is_resumed_from_a_whole_file_only(tmp_path):
    X, path = np.random.default_rng(0).normal(size=(50, 2)), tmp_path / "r.parquet"
    options: dict[str, Any] = {"sizes": [10], "methods": ["full"], "repeats": 1, "path": path}
    lwcs.compare(X, 2, **options)
    table = pq.read_table(path)
    record = changed(metadata_of(table), "setup.spread", "x")
    pq.write_table(storage.sealed(table, record), path)
    with pytest.raises(ValueError, match=r"r\.parquet' is damaged: field 'setup\.spread' is 'x'"):
        lwcs.compare(X, 2, **options)

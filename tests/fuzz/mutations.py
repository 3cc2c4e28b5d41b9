"""How bytes, JSON, columns and arrays are damaged, by a random generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

Rng = np.random.Generator

STRANGE: list[Any] = [
    None, True, False, "", "x", "\x00", "nan", [], {}, [[]], [None], 0, 1, -1, 2, 3, 7, 2**31,
    2**31 - 1, -(2**31), 2**53, 2**63, 2**64, 10**12, 10**18, 10**400, 0.0, -0.0, 0.5, -1.5,
    1e-320, 1e-300, 1e150, 1e308, -1e308, "lightweight", "kl", "float32", {"a": 1}, "é" * 50,
]  # fmt: skip
NUMBERS = [0.0, -0.0, 1.0, -1.0, 1e-320, 1e-300, 1e-160, 1e16, 1e150, 1e160, 1e300, -1e308,
           float("nan"), float("inf"), float("-inf")]  # fmt: skip


def pick(rng: Rng, items: Any) -> Any:
    """One of some items; NumPy would turn them into one type."""
    return items[int(rng.integers(len(items)))]


def damaged_bytes(rng: Rng, whole: bytes) -> bytes:
    """Bytes after one to three kinds of damage."""
    data = bytearray(whole)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if not data:
            break
        at = int(rng.integers(len(data)))
        length = int(rng.integers(1, 1 + min(len(data) - at, int(rng.choice([1, 4, 16, 400])))))
        kind = int(rng.integers(8))
        if kind <= 2:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 3:
            data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, ord("9"), ord("-"), ord(",")]))
        elif kind == 4:
            data[at : at + length] = rng.bytes(length)
        elif kind == 5:
            del data[at : at + length]
        elif kind == 6:
            other = int(rng.integers(len(data)))
            data[at:at] = data[other : other + length]
        else:
            data = data[:at]
    return bytes(data)


def damaged_record(rng: Rng, record: Any) -> Any:
    """JSON with one value exchanged, removed or added, at any depth."""
    if isinstance(record, dict) and record:
        key = pick(rng, list(record))
        kind = int(rng.integers(12))
        new = dict(record)
        if kind == 0:
            del new[key]
        elif kind == 1:
            new[pick(rng, ["x", "", "0", "mean"])] = pick(rng, STRANGE)
        else:
            new[key] = damaged_record(rng, record[key])
        return new
    if isinstance(record, list) and record and rng.integers(4):
        at, new_list = int(rng.integers(len(record))), list(record)
        kind = int(rng.integers(4))
        if kind == 0:
            del new_list[at]
        elif kind == 1:
            new_list.append(pick(rng, STRANGE))
        else:
            new_list[at] = pick(rng, STRANGE)
        return new_list
    return pick(rng, STRANGE)


def damaged_table(rng: Rng, table: pa.Table) -> pa.Table:
    """A table with one column exchanged, cast, removed or added, or other rows."""
    at = int(rng.integers(table.num_columns))
    name, column = table.column_names[at], table.columns[at]
    kind = int(rng.integers(7))
    if kind == 0:
        return table.drop_columns([name])
    if kind == 1:
        return table.append_column(pick(rng, ["x", name, ""]), column)
    if kind == 2:
        rows = (
            rng.integers(len(table), size=int(rng.integers(2 * len(table)))) if len(table) else []
        )
        return table.take(pa.array(rows, pa.int64()))
    if kind == 3:
        wanted = pick(rng, [pa.float32(), pa.int64(), pa.string(), pa.bool_(), pa.float16()])
        try:
            return table.set_column(at, name, column.cast(wanted, safe=False))
        except (pa.ArrowException, TypeError):
            return table.set_column(at, name, pa.nulls(len(table), wanted))
    values = column.to_pylist()
    for _ in range(int(rng.integers(1, 3))):
        if values:
            place = int(rng.integers(len(values)))
            values[place] = _near(rng, values[place])
    try:
        return table.set_column(at, name, pa.array(values, column.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return table.set_column(at, name, pa.nulls(len(table), column.type))


def _near(rng: Rng, value: Any) -> Any:
    """Another value of about the same type."""
    if isinstance(value, str):
        return pick(rng, ["", "x", "level 0", "by_weight", "waiting", "level -1", None])
    if isinstance(value, list):
        if value and rng.integers(2):
            new = list(value)
            new[int(rng.integers(len(new)))] = _near(rng, new[0])
            return new
        return value[:-1] if rng.integers(2) else [*value, *value[:1]]
    if isinstance(value, int):
        return pick(rng, [0, 1, -1, 2**31 - 1, 2_000_000_000, 2**62, None, value + 1])
    return pick(rng, [*NUMBERS, None])


def rows(rng: Rng) -> Any:
    """An array of a few rows, more or less strange, in some container."""
    n, d = int(rng.choice([0, 1, 2, 3, 7, 20, 60])), int(rng.choice([0, 1, 2, 3, 5]))
    X = rng.gamma(2.0, size=(n, d)) * float(rng.choice([1.0, 1.0, 1e-150, 1e9, 1e100, 1e-9]))
    if rng.integers(3) == 0:
        X = X.round()
    for _ in range(int(rng.choice([0, 0, 1, 2]))):
        if X.size:
            X[int(rng.integers(n)), int(rng.integers(d))] = pick(rng, NUMBERS)
    if rng.integers(6) == 0 and n:
        X[:] = X[0]
    with np.errstate(all="ignore"):
        return _contained(rng, X)


def _contained(rng: Rng, X: np.ndarray) -> Any:
    kind = int(rng.integers(14))
    if kind <= 3:
        return X
    if kind == 4:
        return X.astype(pick(rng, ["float32", "float16", "int8", "uint64", "bool", "complex", "O"]))
    if kind in (5, 6):
        matrix = sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
        return matrix if rng.integers(2) else _broken(rng, matrix)
    if kind == 7:
        return pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})
    if kind == 8:
        import pandas as pd

        names = [pick(rng, ["a", "b", "c", 3]) for _ in range(X.shape[1])]
        return pd.DataFrame(X, columns=names)
    if kind == 9:
        return X.tolist()
    if kind == 10:
        return pick(rng, [X[:, :1].ravel(), X[None], X.T, X[::-1], np.asfortranarray(X)])
    if kind == 11:
        return np.ma.masked_invalid(X)
    if kind == 12:
        return pick(rng, STRANGE)
    return iter([X, X])


def _broken(rng: Rng, matrix: Any) -> Any:
    matrix = matrix.asformat(pick(rng, ["csr", "csc", "coo", "lil", "dia", "dok", "bsr"]))
    for name in ("indices", "indptr", "data"):
        part = getattr(matrix, name, None)
        if isinstance(part, np.ndarray) and part.size and rng.integers(2):
            new = part.copy()
            new.flat[int(rng.integers(new.size))] = int(rng.choice([-1, 3, 99, 2**31 - 1, 0]))
            setattr(matrix, name, new if rng.integers(4) else new[:-1])
    return matrix


def weights(rng: Rng, n: int) -> Any:
    """Weights of n rows, or what somebody might pass for them."""
    kind = int(rng.integers(8))
    if kind <= 3:
        return None
    if kind == 4:
        return pick(rng, STRANGE)
    w = rng.random(n + int(rng.choice([0, 0, 0, 1])))
    if kind >= 6 and len(w):
        w[int(rng.integers(len(w)))] = pick(rng, NUMBERS)
    return w * float(rng.choice([1.0, 1e-300, 1e190, 0.0]))

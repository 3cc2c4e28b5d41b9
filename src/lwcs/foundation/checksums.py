"""The checksum of a table and its metadata, which does not depend on how Arrow lays it out.

Chunks, slices, dictionaries and the width of offsets are choices of whoever wrote or read the
table; names, types, values and nulls are what it says.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    Digest = Any


def checksum(table: pa.Table, metadata: Mapping[str, Any]) -> str:
    """SHA-256 of the metadata as canonical JSON and of every column, in hexadecimal digits."""
    digest = hashlib.sha256()
    # Sorted and without spaces, so that only the values count.
    text = json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest.update(text.encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(json.dumps(name).encode())
        whole = column.combine_chunks()
        _add(
            digest, pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        )
    return digest.hexdigest()


def _add(digest: Digest, array: pa.Array) -> None:
    """Add the type, the length, the nulls and the values of an array."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        _add(digest, array.dictionary_decode())
        return
    digest.update(f"{_label(kind)}:{len(array)}:{array.null_count}:".encode())
    if array.null_count:
        digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
        array = array.drop_null()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        digest.update(array.value_lengths().to_numpy().astype("<i8").tobytes())
        _add(digest, array.flatten())
    elif _is_text(kind):
        texts = array.cast(pa.large_binary())
        _, offsets, values = texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        digest.update((ends - ends[0]).astype("<i8").tobytes())
        if values is not None:
            digest.update(memoryview(values)[int(ends[0]) : int(ends[-1])])
    elif pa.types.is_primitive(kind):
        values = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
        digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
    else:
        # No column of lwcs has such a type; a reader refuses it later, by its name.
        digest.update(repr(array.to_pylist()).encode(errors="surrogatepass"))


def _label(kind: pa.DataType) -> str:
    """The name of a type, the same for all widths of offsets."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_label(kind.value_type)}>"
    return "string" if _is_text(kind) else str(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

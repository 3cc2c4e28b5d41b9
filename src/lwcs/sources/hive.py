"""Columns that stand in the names of folders, as year=2024/part.csv.

Their values in Parquet and Feather files are filled in by pyarrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lwcs.sources.paths import Found

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """Names and types of the columns, and their values in every file."""

    schema: pa.Schema
    values: dict[str, dict[str, str | None]]

    @classmethod
    def of(cls, found: Found, own: Sequence[str]) -> FolderColumns:
        """The columns of some files that are not columns of the files themselves."""
        values = {path: _in_folders(path, found.base or "") for path in found.paths}
        known = set(own)
        names = dict.fromkeys(name for each in values.values() for name in each)
        fields = []
        for name in names:
            texts = [text for each in values.values() if (text := each.get(name)) is not None]
            whole = all(map(_is_int32, texts))
            fields.append(pa.field(name, pa.int32() if whole and texts else pa.string()))
        return cls(pa.schema([each for each in fields if each.name not in known]), values)

    def append(
        self, batch: pa.RecordBatch, path: str, names: Sequence[str], types: pa.Schema
    ) -> pa.RecordBatch:
        """A batch of a file, with some of these columns."""
        for name in names:
            value = pa.scalar(self.values[path].get(name), pa.string())
            column = pa.repeat(value, batch.num_rows).cast(types.field(name).type)
            batch = batch.append_column(name, column)
        return batch


def _is_int32(text: str) -> bool:
    """Whether a text is one of the integers that pyarrow takes for numbers."""
    return _INTEGER.fullmatch(text) is not None and -(2**31) <= int(text) < 2**31


def _in_folders(path: str, base: str) -> dict[str, str | None]:
    folders = path.removeprefix(base).split("/")[:-1]
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    decoded = {unquote(name): unquote(value) for name, value in pairs if name}
    return {name: None if value == _NO_VALUE else value for name, value in decoded.items()}

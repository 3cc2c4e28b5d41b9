"""Which source opens an object: registered source types first, then the kinds of this library.

Kinds of data are told apart by type, in order, and what opens them is imported only then: no
engine and no table library is imported to find out.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from lwcs.arrays.device import library_of
from lwcs.sources.base import ALL_DROPPED, Source, check_not_empty
from lwcs.sources.files.chunked import is_chunked, open_chunked
from lwcs.sources.memory.in_process import LocalSource
from lwcs.sources.memory.local import engine_of, is_path, is_query, is_stream, is_table, open_local
from lwcs.sources.memory.partitioned import PartitionedSource, open_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.sources.scan_options import ScanOptions


class Kind(Protocol):
    """A kind of data: how to recognize it, and how to open it."""

    def accepts(self, data: Any, /) -> bool:
        """Whether data is of this kind; no data is read."""

    def open(self, data: Any, options: ScanOptions, /) -> Source:
        """Open such data."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A kind whose source is imported when it is opened."""

    accepts: Callable[[Any], bool]
    opened_by: Callable[[Any, ScanOptions], Source]
    may_be_files: bool = False

    def open(self, data: Any, options: ScanOptions) -> Source:
        """Open such data."""
        if not self.may_be_files:
            options.refuse_dialect(f"of type {type(data).__name__}")
            options.refuse_access(f"of type {type(data).__name__}")
        return self.opened_by(data, options)


def kind_of(data: Any) -> Kind:
    """The kind that opens data; the last one, rows in memory, accepts everything."""
    kinds: tuple[Kind, ...] = (*Source.registered, *_BUILT_IN)
    return next(kind for kind in kinds if kind.accepts(data))


def is_registered(data: Any) -> bool:
    """Whether a source type that was registered from outside of this library accepts data."""
    return any(kind.accepts(data) for kind in Source.registered)


def is_parts(data: Any) -> bool:
    """Whether data is a list of arrays or tables, each of which holds rows, rather than of rows."""
    return isinstance(data, (list, tuple)) and bool(data) and all(map(_holds_rows, data))


def _holds_rows(data: Any) -> bool:
    if isinstance(data, LocalSource) or is_table(data):
        return True
    shape = getattr(data, "shape", None)
    return engine_of(data) is None and isinstance(shape, tuple) and len(shape) == 2


def needs_scan(data: Any) -> bool:
    """Whether `lwcs.scan` knows such data, but scikit-learn would copy or refuse it."""
    foreign = library_of(data) is not None
    return foreign or is_registered(data) or is_chunked(data) or is_parts(data)


def _open_engine(data: Any, options: ScanOptions) -> Source:
    engine = engine_of(data)
    try:
        module = import_module(f"lwcs.sources.engines.{engine}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"data of {engine} requires packages that are not installed ({error}); "
            f"pip install 'lwcs[{engine}]'"
        ) from error
    source: Source = module.open_engine(data, options)
    return source


def _open_files(data: Any, options: ScanOptions) -> Source:
    from lwcs.sources.remote.paths import find

    found = find(data, options.access, options.format)
    from lwcs.sources.files.array_files import KINDS, open_array_files

    if found.kind != "csv":
        options.refuse_dialect(f"in the file {found.paths[0]!r}")
    if found.kind == "delta":
        from lwcs.sources.tables.table_formats import open_folder

        return open_folder(found, options)
    if found.kind in KINDS:
        return _open_rows(open_array_files(found), options)
    options.refuse_weight_array()
    from lwcs.sources.files.files import FileSource

    return FileSource(found, options)


def _open_chunked(data: Any, options: ScanOptions) -> Source:
    return _open_rows(open_chunked(data), options)


def _open_parts(data: Any, options: ScanOptions) -> Source:
    options.refuse_weight_array()
    opened = (open_chunked(part) if is_chunked(part) else part for part in data)
    source = PartitionedSource(open_parts(list(opened), options))
    if source.dropped == source.n_rows:
        raise ValueError(ALL_DROPPED)
    return source


def _open_query(data: Any, options: ScanOptions) -> Source:
    from lwcs.sources.streams import open_query

    return open_query(data, options)


def _open_stream(data: Any, options: ScanOptions) -> Source:
    from lwcs.sources.streams import open_stream

    return open_stream(data, options)


def _open_rows(data: Any, options: ScanOptions) -> LocalSource:
    source = open_local(data, options)
    check_not_empty((source.n_rows, source.n_features))
    if source.dropped == source.n_rows:
        raise ValueError(ALL_DROPPED)
    return source


_BUILT_IN = (
    BuiltIn(lambda data: engine_of(data) is not None, _open_engine),
    BuiltIn(is_path, _open_files, may_be_files=True),
    BuiltIn(is_chunked, _open_chunked),
    BuiltIn(is_parts, _open_parts),
    BuiltIn(is_query, _open_query),
    BuiltIn(is_stream, _open_stream),
    BuiltIn(lambda _: True, _open_rows),
)

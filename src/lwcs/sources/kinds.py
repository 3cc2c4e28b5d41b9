"""Which source opens an object: registered source types first, then the kinds of this library.

Kinds of data are told apart by type, in order, and what opens them is imported only then: no
engine and no table library is imported to find out.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from lwcs.sources.base import ALL_DROPPED, Source
from lwcs.sources.checks import check_not_empty
from lwcs.sources.local import engine_of, is_path, is_query, is_stream, open_local

if TYPE_CHECKING:
    from collections.abc import Callable

    from lwcs.sources.base import LocalSource
    from lwcs.sources.options import ScanOptions


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
    open: Callable[[Any, ScanOptions], Source]


def kind_of(data: Any) -> Kind:
    """The kind that opens data; the last one, rows in memory, accepts everything."""
    kinds: tuple[Kind, ...] = (*Source.registered, *_BUILT_IN)
    return next(kind for kind in kinds if kind.accepts(data))


def is_registered(data: Any) -> bool:
    """Whether a source type that was registered from outside of this library accepts data."""
    return any(kind.accepts(data) for kind in Source.registered)


def _open_engine(data: Any, options: ScanOptions) -> Source:
    engine = engine_of(data)
    try:
        module = import_module(f"lwcs.sources.{engine}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"data of {engine} requires packages that are not installed ({error}); "
            f"pip install 'lwcs[{engine}]'"
        ) from error
    source: Source = module.open_engine(data, options)
    return source


def _open_files(data: Any, options: ScanOptions) -> Source:
    from lwcs.sources.paths import find

    found = find(data)
    if found.kind in ("npy", "npz"):
        return _open_rows(_single_array(found.paths), options)
    options.refuse_weight_array()
    from lwcs.sources.files import FileSource

    return FileSource(found, options)


def _single_array(paths: list[str]) -> Any:
    from lwcs.sources.array_files import open_array_file

    if len(paths) > 1:
        raise ValueError(
            f"{len(paths)} array files cannot be read as one array; open each with numpy.load, and "
            "pass the arrays as the parts of a lwcs.PartitionedSource"
        )
    return open_array_file(paths[0])


def _open_query(data: Any, options: ScanOptions) -> Source:
    from lwcs.sources.streams import open_query

    return open_query(data, options)


def _open_stream(data: Any, options: ScanOptions) -> Source:
    from lwcs.sources.streams import open_stream

    return open_stream(data, options)


def _open_rows(data: Any, options: ScanOptions) -> LocalSource:
    options.refuse_dialect(f"a {type(data).__name__} in memory")
    source = open_local(data, options)
    check_not_empty((source.n_rows, source.n_features))
    if source.dropped == source.n_rows:
        raise ValueError(ALL_DROPPED)
    return source


_BUILT_IN = (
    BuiltIn(lambda data: engine_of(data) is not None, _open_engine),
    BuiltIn(is_path, _open_files),
    BuiltIn(is_query, _open_query),
    BuiltIn(is_stream, _open_stream),
    BuiltIn(lambda _: True, _open_rows),
)

"""Which columns of a table are features: one rule for memory, files, queries and engines.

- Numbers and booleans are features.
- Lists of numbers of one length are vectors, with one feature per element. Beside a column of
  vectors, other numbers are used only if they are named.
- The index of a pandas table, which a file holds as a column, is used only if it is named, as in a
  DataFrame in memory.
- Everything else is left out, with a warning that names it; asked for by name, it is refused.
- A column that looks like an identifier is used, with a warning: a library that silently drops a
  column named `id` is as wrong as one that silently uses it. Numbers that never repeat are looked
  for in the first block of the first pass, which costs no read of its own.

Every container goes through `Selection.of`, so that a table has the same features wherever it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lwcs.arrays.checks import check_choice, loses_digits
from lwcs.runtime.warnings import warn
from lwcs.sources.column_types import (
    LOST,
    WHY,
    content_and_advice,
    content_of,
    identifiers_among,
    is_date,
    is_number,
    is_vector,
    numpy_type,
    pandas_index,
    plain_type,
    shape_of,
)
from lwcs.sources.scan_options import Fitted, check_unique

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lwcs.sources.base import Block
    from lwcs.sources.scan_options import ScanOptions

    FirstValues = Callable[[str], Sequence[Any]]
    """Fetches the first values of a column that are not missing; at least one, if there is any."""

_LONGEST_VECTOR = 2**24
_KIND = re.compile("[,;]")
_SHOWN = 8
"""Number of columns that a message names."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns of a schema that are features, in order, and the column of weights."""

    columns: tuple[str, ...]
    widths: tuple[int | None, ...]
    """Length of the vectors of every column, None for a column of numbers."""
    weight: str | None
    dtype: np.dtype[Any]
    skipped: tuple[str, ...] = ()
    """Columns that were left out."""
    sparse: bool = False
    """Whether there is one column, of sparse vectors."""
    by_default: bool = False
    """Whether the columns were not named, so that one of them may be an identifier."""
    dates: tuple[str, ...] = ()
    """Columns of dates, which are read as days."""
    index: tuple[str, ...] = ()
    """Columns that are the index of a pandas table, and no features."""
    lost: set[str] = field(default_factory=set, compare=False)
    """Columns whose whole numbers have lost digits in the passes so far."""

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        options: ScanOptions,
        first_values: FirstValues,
        keys: Sequence[str] = (),
        place: str = "",
    ) -> Selection:
        """Select columns by name or pattern (``"x*"``), or by the rule of this module.

        The columns of `keys`, which come from the names of folders, are selected only by name.
        `place` names the data in messages.
        """
        check_unique(schema.names, place)
        table = _Table(schema, first_values, options.dates is not None)
        weight = options.weight_column
        if weight is not None:
            check_choice(weight, "column", schema.names)
            _check_weight(schema.field(weight).type, weight)
        rest = [name for name in schema.names if name != weight]
        exclude = () if options.exclude is None else options.exclude
        excluded = set(matched(exclude, schema.names, "exclude"))
        if options.columns is None:
            index = {name for name in pandas_index(schema) if name not in excluded}
            allowed = [name for name in rest if name not in excluded | index]
            chosen, left_out = _by_rule(table, allowed, keys)
            if not chosen:
                left_out |= dict.fromkeys(index, "the index of a pandas table")
                raise ValueError(_no_columns_error(schema.names, left_out, place))
            if left_out:
                warn(_left_out_warning(left_out, chosen, place))
            used = set(chosen)
            skipped = tuple(name for name in rest if name not in used)
        else:
            wanted, skipped = named(options.columns, rest, weight), ()
            chosen = [name for name in wanted if name not in excluded]
            if isinstance(options.columns, Fitted) and len(chosen) < len(wanted):
                lost = [name for name in wanted if name in excluded]
                raise ValueError(
                    f"exclude= leaves out {some_names(lost)}, which the model was fitted on; name "
                    "only other columns in exclude="
                )
            if not chosen:
                raise ValueError("no column is selected; select at least one with columns=[…]")
        shapes = [table.shape(name) for name in chosen]
        types = [table.dtype(name) for name in chosen]
        selection = cls(
            tuple(chosen),
            tuple(width for width, _ in shapes),
            weight,
            np.result_type(*types),
            skipped,
            sparse=len(chosen) == 1 and shapes[0][1],
            by_default=options.columns is None,
            lost={name for name in chosen if LOST in (schema.field(name).metadata or {})},
            dates=tuple(name for name in chosen if table.is_date(name)),
            index=tuple(name for name in pandas_index(schema) if name not in chosen),
        )
        if isinstance(options.columns, Fitted):
            _check_fitted(selection, options.columns)
        return selection

    @property
    def columns_to_read(self) -> list[str]:
        """The columns of features, then the column of weights if there is one."""
        return [*self.columns, *([] if self.weight is None else [self.weight])]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per feature; the elements of a vector v are v[0], v[1], …."""
        names: list[str] = []
        for column, width in zip(self.columns, self.widths, strict=True):
            names += [column] if width is None else [f"{column}[{j}]" for j in range(width)]
        return tuple(names)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return sum(1 if width is None else width for width in self.widths)

    @property
    def is_one_vector(self) -> bool:
        """Whether the features are one column of vectors."""
        return len(self.columns) == 1 and self.widths[0] is not None

    def places(self) -> Iterable[tuple[str, int | None, slice]]:
        """Yield each column, the length of its vectors, and the place of its features in a row."""
        start = 0
        for column, width in zip(self.columns, self.widths, strict=True):
            stop = start + (1 if width is None else width)
            yield column, width, slice(start, stop)
            start = stop

    def looking_like_identifiers(self, block: Block) -> list[str]:
        """The columns that look like identifiers in the first rows, unless they were chosen.

        They hold whole numbers, and have such a name or never repeat.
        """
        if not self.by_default or len(self.columns) == 1:
            return []
        rows = block.points if block.dropped is None else block.points[~block.dropped]
        numbers = {
            name: rows[:, part.start]
            for name, width, part in self.places()
            if width is None and name not in self.dates
        }
        return identifiers_among(numbers)

    def note(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Note whether the numbers of a feature lose digits in float64."""
        if name != self.weight and name not in self.lost and loses_digits(values):
            self.lost.add(name)

    def warn_of_alike(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Warn of pairs of columns that say the same."""
        if not pairs:
            return
        names = self.feature_names
        each = "; ".join(f"{names[i]!r} and {names[j]!r}" for i, j in pairs[:_SHOWN])
        more = f" and {len(pairs) - _SHOWN} more pairs" if len(pairs) > _SHOWN else ""
        others = sorted({j for _, j in pairs})
        warn(
            f"columns {each}{more} say the same (their correlation is beyond ±0.999) and count "
            "twice in distances; leave out one of each with "
            f"lwcs.scan(…, exclude={_some_literals([names[j] for j in others])})"
        )

    def warn_of_identifiers(self, names: Sequence[str]) -> None:
        """Warn that columns look like identifiers, if they were not named."""
        if names and self.by_default and len(self.columns) > 1:
            several = len(names) > 1
            warn(
                f"{'columns' if several else 'column'} {some_names(names)} "
                f"{'look like identifiers' if several else 'looks like an identifier'}, whose "
                f"numbers say nothing about a row, and {'are' if several else 'is'} used as "
                f"{'features' if several else 'a feature'}; leave {'them' if several else 'it'} "
                f"out with lwcs.scan(…, exclude={list(names)!r}), or choose columns with "
                "lwcs.scan(…, columns=[…])"
            )


@dataclass(frozen=True, slots=True)
class _Table:
    """A schema, and access to the first values for what types do not tell."""

    schema: pa.Schema
    first_values: FirstValues
    dates: bool
    """Whether dates are read as numbers."""

    def is_date(self, name: str) -> bool:
        """Whether a column holds dates that are read as numbers."""
        return self.dates and is_date(self.kind(name))

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype of the numbers of a column; any other column is refused."""
        if self.is_date(name):
            return np.dtype(np.float64)
        return numpy_type(self.value_type(name), name, self.why(name))

    def why(self, name: str) -> str:
        """Why a column is not numeric, if a reader has recorded it."""
        return ((self.schema.field(name).metadata or {}).get(WHY) or b"").decode()

    def kind(self, name: str) -> pa.DataType:
        return plain_type(self.schema.field(name).type)

    def value_type(self, name: str) -> pa.DataType:
        kind = self.kind(name)
        return kind.value_type if is_vector(kind) else kind

    def lengths(self, name: str) -> list[int]:
        """Lengths of the first vectors of a column."""
        kind = self.kind(name)
        if kind.list_size:
            return [_checked_length(kind.list_size, name)]
        return [shape_of(value, name)[0] for value in self.first_values(name)]

    def shape(self, name: str) -> tuple[int | None, bool]:
        """Length of the vectors of a column, None for numbers; and whether they are sparse."""
        kind = self.kind(name)
        if not is_vector(kind):
            return None, False
        if kind.list_size:
            return _checked_length(kind.list_size, name), False
        first = self.first_values(name)
        if not len(first):
            raise ValueError(f"column {name!r} has no vector in any row; at least one is required")
        return shape_of(first[0], name)


def _checked_length(length: int, name: str) -> int:
    """Refuse a length that only a damaged file can have, before names are made for it."""
    if length > _LONGEST_VECTOR:
        raise ValueError(
            f"column {name!r} claims vectors of length {length:,}, more than {_LONGEST_VECTOR:,}; "
            "it is damaged, or not a column of vectors"
        )
    return length


def _by_rule(
    table: _Table, allowed: list[str], keys: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """The columns that are used by default, and why others are not."""
    numbers: list[str] = []
    vectors: list[str] = []
    uneven: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name in allowed:
        kind = table.kind(name)
        if name in keys:
            left_out[name] = "from the names of folders"
        elif is_number(kind) or table.is_date(name):
            numbers.append(name)
        elif is_vector(kind):
            lengths = set(table.lengths(name))
            if len(lengths) == 1 and 0 not in lengths:
                vectors.append(name)
            elif not lengths - {0}:
                left_out[name] = "empty lists" if lengths else "lists, all of them missing"
            else:
                some = ", ".join(map(str, sorted(lengths)[:3]))
                uneven[name] = f"lists of different lengths ({some}, …)"
        else:
            left_out[name] = table.why(name) or content_and_advice(kind)
    if not numbers and not vectors and len(uneven) == 1:
        # Reading them names the row that differs.
        vectors = list(uneven)
    else:
        left_out |= uneven
    if len(vectors) > 1:
        raise ValueError(
            f"the columns {some_names(vectors)} hold vectors; name the one to use with "
            f"columns=[{vectors[0]!r}], or several, which are then used side by side"
        )
    if vectors:
        beside = f"numbers beside the vectors of {vectors[0]!r}"
        return vectors, dict.fromkeys(numbers, beside) | left_out
    return numbers, left_out


def _left_out_warning(left_out: dict[str, str], chosen: Sequence[str], place: str) -> str:
    """Word the warning about columns that are not used."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, reason in left_out.items():
        # Reasons of one kind have the same beginning and advice, and an example of each column.
        kinds.setdefault((_KIND.split(reason, 1)[0], reason.rpartition("; ")[2]), []).append(name)
    each = "; ".join(f"{some_names(names)} ({left_out[names[0]]})" for names in kinds.values())
    return (
        f"{len(left_out)} of {len(left_out) + len(chosen)} columns{place and f' of {place}'} "
        f"{'is' if len(left_out) == 1 else 'are'} left out: {each}. Choose columns with "
        f"lwcs.scan(…, columns=[…]); leave these out without this warning with "
        f"lwcs.scan(…, exclude={_some_literals(list(left_out))})"
    )


def _no_columns_error(names: Sequence[str], left_out: dict[str, str], place: str) -> str:
    """Word the error about a table without features."""
    of = place and f" of {place}"
    if not names:
        return f"the data has no columns{of}; at least one column of numbers is required"
    if not left_out:
        return "no column is selected; exclude= leaves out all columns of numbers"
    each = "; ".join(f"{name!r} holds {why}" for name, why in list(left_out.items())[:_SHOWN])
    return f"no column{of} holds numbers: {each}; turn a column into numbers, or pass other data"


def some_names(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _some_literals(names: Sequence[str]) -> str:
    """A list of the first names, as it is written in Python."""
    return f"[{', '.join(map(repr, names[:_SHOWN]))}{', …' * (len(names) > _SHOWN)}]"


def is_excluded(name: str, exclude: Sequence[str] | str | None) -> bool:
    """Whether names or patterns exclude a column that they were not checked against."""
    patterns = [exclude] if isinstance(exclude, str) else exclude or ()
    return any(name == str(pattern) or fnmatchcase(name, str(pattern)) for pattern in patterns)


def _check_weight(kind: pa.DataType, name: str) -> None:
    """Refuse weights that are not numbers."""
    if not is_number(kind):
        raise TypeError(
            f"the weight column {name!r} holds {content_of(kind)}, not numbers; weights are "
            "numbers >= 0"
        )


def named(columns: Sequence[str] | str, names: list[str], weight: str | None) -> list[str]:
    """The columns that names and patterns select, in the order given, each once."""
    if isinstance(columns, Fitted):
        return _holding_features(columns, names)
    if weight is not None and weight in ([columns] if isinstance(columns, str) else columns):
        raise ValueError(
            f"column {weight!r} is given as weight= and in columns=; a column of weights is not a "
            "feature: leave it out of columns="
        )
    return matched(columns, names, "columns")


def matched(patterns: Sequence[str] | str, names: list[str], parameter: str) -> list[str]:
    """The columns that names and patterns of a parameter select, in the order given."""
    found: dict[str, None] = {}
    known = set(names)
    for pattern in [patterns] if isinstance(patterns, str) else map(str, patterns):
        if any(sign in pattern for sign in "*?[") and pattern not in known:
            matching = [name for name in names if fnmatchcase(name, pattern)]
            if not matching:
                raise ValueError(
                    f"no column matches {pattern!r}; the columns are {some_names(names)}"
                )
            found |= dict.fromkeys(matching)
            continue
        if pattern not in known:
            check_choice(pattern, "column", names)
        if pattern in found and parameter != "exclude":
            raise ValueError(
                f"{parameter}= must be unique, but {pattern!r} is given more than once"
            )
        found[pattern] = None
    return list(found)


def _holding_features(features: Fitted, names: list[str]) -> list[str]:
    """The columns that hold features of a model; v[0], v[1], … may be in one column v."""
    columns: dict[str, None] = {}
    known = set(names)
    for feature in features:
        stem = feature.rpartition("[")[0]
        if feature in known:
            columns[feature] = None
        elif stem in known and feature.endswith("]"):
            columns[stem] = None
        else:
            raise ValueError(
                f"there is no column {feature!r}, one of the feature names that were passed during "
                f"fit; the columns are {some_names(names)}"
            )
    return list(columns)


def _check_fitted(selection: Selection, features: Fitted) -> None:
    found = selection.feature_names
    if found != tuple(features):
        raise ValueError(
            f"the columns {some_names(selection.columns)} have {len(found)} features, where "
            f"{len(features)} are expected, {some_names(features)}; pass vectors of the same length"
        )

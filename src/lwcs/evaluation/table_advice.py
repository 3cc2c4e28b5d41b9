"""Advice about a table that was looked at: columns to use, how to read and scale, a command."""

from __future__ import annotations

import csv
import os
import shlex
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs.arrays.checks import lost_digits_text
from lwcs.evaluation.table_check_result import Check
from lwcs.runtime.formatting import plain_percent
from lwcs.sources.columns import some_names
from lwcs.statistics.column_shares import alike, dominating, domination_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lwcs.arrays.types import FloatArray
    from lwcs.evaluation.table_check_result import ColumnFacts
    from lwcs.sources import Source

_GAPPY = 0.2
"""A column with more gaps costs more rows than it is worth."""
_UNITS = 10.0
"""Standard deviations that differ by more are those of different units."""
_VECTOR = 100
"""An array of more columns has vectors as rows: pixels, words, embeddings."""
_SKEWED, _HEAVY = 3.0, 20.0
"""Skewness and kurtosis of long tails; those of an exponential distribution are 2 and 9."""
_CONSTANT, _GAPS, _SAME = "constant", "gaps", "says the same as "
_USED, _FLAGS = ("numbers", "booleans"), ("booleans",)


def advised(
    facts: Sequence[ColumnFacts],
    n_rows: int,
    sample: Mapping[str, FloatArray],
    source: Source,
    paths: Any,
    n_clusters: int,
) -> Check:
    """Say which of these columns to use, and how; `sample` has values of those with numbers."""
    days = () if source.selection is None else source.selection.dates
    judged = [replace(each, why=_why(each, days)) for each in facts]
    doubles = _duplicates({each.name: sample[each.name] for each in judged if each.why is None})
    judged = [
        replace(each, why=f"{_SAME}{doubles[each.name]!r}") if each.name in doubles else each
        for each in judged
    ]
    if sum(each.why is None and each.kind not in _FLAGS for each in judged) > 1:
        judged = [
            replace(each, why=each.kind) if each.why is None and each.kind in _FLAGS else each
            for each in judged
        ]
    features = [each for each in judged if each.why is None]
    variances = np.array([(each.deviation or 0.0) ** 2 for each in features])
    total = float(variances.sum()) or 1.0
    shares = {each.name: float(one / total) for each, one in zip(features, variances, strict=True)}
    judged = [replace(each, share=shares.get(each.name)) for each in judged]
    options = {**source.reading, **_columns_to_use(judged, list(shares), source)}
    if any(each.gaps for each in features):
        options["missing"] = "drop"
    if _differ_in_units(features, variances, source):
        options["scale"] = "standard"
    k, n_sampled = max(1, min(n_clusters, n_rows)), len(next(iter(sample.values()), ()))
    return Check(
        n_rows, tuple(judged), tuple(shares),
        (
            *_findings(judged, variances, [sample[name] for name in shares], options),
            *_lost_digits(source, list(shares)),
        ),
        options, None if paths is None else _command(paths, k, options), _code(paths, k, options),
        n_sampled,
    )  # fmt: skip


def _why(facts: ColumnFacts, days: Sequence[str]) -> str | None:
    """Why a column should not be used, by itself."""
    if facts.kind == "categories" and facts.distinct == 1:
        return _CONSTANT
    if facts.kind not in _USED and facts.name not in days:
        return facts.kind
    if facts.low is None:
        return "no values"
    if facts.low == facts.high:
        return _CONSTANT
    return _GAPS if (facts.gaps or 0.0) > _GAPPY else None


def _duplicates(values: Mapping[str, FloatArray]) -> dict[str, str]:
    """Columns that say the same as one before them, which is named."""
    if not values:
        return {}
    names = list(values)
    filled = np.column_stack([_without_gaps(each) for each in values.values()])
    return {names[j]: names[i] for i, j in alike(filled, np.ones(len(filled)))}


def _without_gaps(values: FloatArray) -> FloatArray:
    """Values with their mean in place of gaps."""
    there = np.isfinite(values)
    return np.where(there, values, values[there].mean() if there.any() else 0.0)


def _columns_to_use(
    judged: Sequence[ColumnFacts], features: list[str], source: Source
) -> dict[str, Any]:
    """The options for columns: nothing where all are used, else the shorter list."""
    selection = source.selection
    if selection is None or any(selection.widths):
        return {}
    weight = {} if selection.weight is None else {"weight": selection.weight}
    own = {*selection.index, *weight.values()}
    others = [each.name for each in judged if each.why is not None and each.name not in own]
    if not others or not features:
        return weight
    shorter = {"exclude": others} if len(others) < len(features) else {"columns": features}
    return {**shorter, **weight}


def _differ_in_units(
    features: Sequence[ColumnFacts], variances: FloatArray, source: Source
) -> bool:
    """Whether some columns would hardly count; elements of vectors have one unit."""
    if source.selection is not None and any(source.selection.widths):
        return False
    if source.feature_names is None and source.n_features > _VECTOR:
        return False
    several = variances[variances > 0.0]
    if len(several) < 2 or len(several) != len(features):
        return False
    return bool(len(dominating(variances)) or several.max() > _UNITS**2 * several.min())


def _findings(
    judged: Sequence[ColumnFacts],
    variances: FloatArray,
    sample: Sequence[FloatArray],
    options: Mapping[str, Any],
) -> Iterator[str]:
    """The noteworthy facts, one sentence per kind."""
    features = [each for each in judged if each.why is None]

    def because(*why: str) -> list[str]:
        return [each.name for each in judged if each.why in why]

    if names := because(_CONSTANT, "no values"):
        they = "it tells" if len(names) == 1 else "they tell"
        yield f"Constant, so that {they} no rows apart: {some_names(names)}."
    if names := because("identifiers"):
        yield f"Identifiers, which say nothing about a row: {some_names(names)}."
    if names := because("index"):
        yield f"The index of a pandas table, which is no feature: {some_names(names)}."
    if doubles := [each for each in judged if (each.why or "").startswith(_SAME)]:
        pairs = "; ".join(f"{each.name!r} {each.why}" for each in doubles[:8])
        yield f"Columns that would count twice: {pairs}{_more(doubles)}."
    if names := because(_GAPS):
        yield f"Missing in more than {plain_percent(_GAPPY)} of the rows: {some_names(names)}."
    if gappy := [each for each in features if each.gaps]:
        shares = ", ".join(f"{e.name!r} {plain_percent(e.gaps or 0.0, 2)}" for e in gappy[:8])
        lost = float((~np.isfinite(np.column_stack(list(sample)))).any(axis=1).mean())
        # Of all rows, it is known to be between these: gaps in the same rows, or in others.
        gaps = [each.gaps or 0.0 for each in gappy]
        lost = min(max(lost, *gaps), sum(gaps))
        yield (
            f"Gaps: {shares}{_more(gappy)}; missing='drop' leaves out about "
            f"{plain_percent(lost, 2)} of the rows."
        )
    if names := because("dates"):
        yield (
            f"Dates: {some_names(names)}; with dates='days' (--dates days), they would be used as "
            "days since 1970."
        )
    if names := because("categories"):
        yield (
            f"Categories: {some_names(names)}; skrub.TableVectorizer turns them into numbers, in "
            "memory."
        )
    if names := because("booleans"):
        yield (
            f"Yes or no: {some_names(names)}; beside measurements, each would cut the clusters in "
            "two."
        )
    if "thousands" in options:
        yield f"Numbers have thousands={options['thousands']!r}, as the first rows suggest."
    if "scale" in options:
        yield _units(features, variances)
    if tailed := [each for each in features if _has_long_tails(each)]:
        tails = ", ".join(f"{e.name!r} (skewness {e.skew:.2g})" for e in tailed[:8])
        yield (
            f"Long tails: {tails}{_more(tailed)}; a few extreme rows may get clusters of their "
            "own, unless logarithms are taken first."
        )


def _lost_digits(source: Source, features: Sequence[str]) -> Iterator[str]:
    """Whole numbers that are not the same in float64, as the pass has seen them."""
    lost = source.selection.lost if source.selection is not None else ()
    names = [name for name in features if name in lost]
    if names or source.lost_digits:
        words = lost_digits_text(names)
        yield f"{words[0].upper()}{words[1:]}."


def _has_long_tails(facts: ColumnFacts) -> bool:
    long = abs(facts.skew or 0.0) > _SKEWED or (facts.kurtosis or 0.0) > _HEAVY
    return long and facts.kind == "numbers"


def _more(found: Sequence[object]) -> str:
    return f" and {len(found) - 8} more" if len(found) > 8 else ""


def _units(features: Sequence[ColumnFacts], variances: FloatArray) -> str:
    """Why the columns should be scaled."""
    if len(found := dominating(variances)):
        shares = {features[j].name: float(variances[j] / variances.sum()) for j in sorted(found)}
        return (
            f"In their units, {domination_words(shares)}; with scale='standard' (--standardize), "
            "all columns count the same."
        )
    return (
        "Standard deviations differ by more than a factor of "
        f"{_UNITS:g}; with scale='standard' (--standardize), all columns count the same."
    )


def _command(paths: Any, k: int, options: Mapping[str, Any]) -> str:
    """The command that fits files with these options."""
    words = [os.fspath(path) for path in _listed(paths)]
    for name, value in options.items():
        if name == "scale":
            words.append("--standardize")
        elif name == "header":
            words.append("--header" if value else "--no-header")
        else:
            words += [f"--{name}", _names_text(value) if isinstance(value, list) else value]
    return shlex.join(["lwcs", "fit", *words, "-k", str(k), "-o", "model.parquet"])


def _names_text(names: list[str]) -> str:
    """Names as in a line of a CSV file."""
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _listed(paths: Any) -> list[Any]:
    return list(paths) if isinstance(paths, list | tuple) else [paths]


def _code(paths: Any, k: int, options: Mapping[str, Any]) -> str:
    """The fit in Python; data that is not in files is called `data`."""
    rows = "data"
    if paths is not None:
        given = [os.fspath(path) for path in _listed(paths)]
        rows = repr(given[0] if len(given) == 1 else given)
    if options:
        rows = f"lwcs.scan({', '.join([rows, *(f'{n}={v!r}' for n, v in options.items())])})"
    return f"lwcs.CoresetKMeans({k}).fit({rows})"

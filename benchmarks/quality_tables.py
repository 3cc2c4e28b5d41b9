"""The tables of `make quality`: errors of the default, its estimate, and what a target gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measure import machine

if TYPE_CHECKING:
    from benchmarks.cells import BestKnown
    from benchmarks.quality import Fit

    Cells = dict[tuple[str, int], list[Fit]]

MEAN, WORST = 0.03, 0.06
# Two sums over all rows differ by less than this.
ROUNDING = 1e-6
POINT, PART, WITHIN, COVERED, REACHED, TARGET = 0.01, 0.4, 0.9, 0.95, 0.9, 0.01


def page(cells: Cells, best: BestKnown, truth_seeds: Sequence[tuple[float, int]]) -> str:
    """All tables, each with its claim."""
    limits = ", ".join(
        f"{seeds} otherwise" if np.isinf(limit) else f"{seeds} up to {limit:.0e}"
        for limit, seeds in truth_seeds
    )
    lines = [
        f"Measured {machine()}, by `make quality`.",
        "",
        "## The default against the best solution known",
        "",
        "Error of the cost on all rows, mean / worst over the seeds, and the median time of a fit "
        "with labels. *before*: 100 draws per cluster, one start. Target of the default: mean ≤ "
        f"{_percent(MEAN)}, worst ≤ {_percent(WORST)}. Where each best solution comes from is in "
        "`best_known.json`.",
        "",
        *errors(cells, best),
        "",
        "## The estimate",
        "",
        "`sampling_error_` of the default and with `target_error=0.01` against the truth: what the "
        "answer costs more than a Lloyd run on all rows that starts from it. Known for the first "
        f"seeds only where such runs take long ({limits} rows × columns × clusters). Targets: "
        f"within max(1 point, 40 %) in {_percent(WITHIN)} of fits, `sampling_error_bound_` above "
        f"the truth in {_percent(COVERED)}.",
        "",
        *estimates(cells),
        "",
        "## `target_error=0.01`",
        "",
        "Share of fits whose true error is at most 1 %, or which warn; target "
        f"{_percent(REACHED)}. Fits without a known truth are not counted.",
        "",
        *targets(cells),
        "",
    ]
    return "\n".join(lines)


def errors(cells: Cells, best: BestKnown) -> Iterator[str]:
    """One line per cell: before and default."""
    yield "| data | k | fits | before | time | default | time | draws | warned | reached |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    for (data, k), fits in cells.items():
        before, default = (_of(fits, name) for name in ("before", "default"))
        known = best.cost(data, k)
        found = np.array([fit.cost for fit in default]) / known - 1.0
        reached = len(found) and found.mean() <= MEAN and found.max() <= WORST
        yield (
            f"| {data} | {k} | {len(default)} | {_errors(before, known)} | "
            f"{_errors(default, known)} | {_median([fit.size for fit in default]):,.0f} | "
            f"{sum(fit.warned for fit in default)} | {_verdict(bool(reached))} |"
        )


def estimates(cells: Cells) -> Iterator[str]:
    """One line per cell, and one for all."""
    yield "| data | k | fits | estimate | bound | truth | within | bound holds | reached |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    total = []
    for (data, k), fits in cells.items():
        known = [fit for fit in fits if fit.truth is not None and fit.variant != "before"]
        total += known
        if known:
            yield f"| {data} | {k} | {_estimate(known)} |"
    if total:
        yield f"| **all** | | {_estimate(total)} |"


def _estimate(fits: list[Fit]) -> str:
    estimate, bound, truth = (
        np.array([getattr(fit, name) for fit in fits], dtype=np.float64)
        for name in ("estimate", "bound", "truth")
    )
    within = np.mean(np.abs(estimate - truth) <= np.maximum(POINT, PART * truth))
    covered = np.mean(bound >= truth - ROUNDING)
    return (
        f"{len(fits)} | {_percent(estimate.mean(), 2)} | {_percent(bound.mean(), 2)} | "
        f"{_percent(truth.mean(), 2)} | {_percent(within)} | {_percent(covered)} | "
        f"{_verdict(bool(within >= WITHIN and covered >= COVERED))}"
    )


def targets(cells: Cells) -> Iterator[str]:
    """One line per cell, and one for all."""
    yield "| data | k | fits | truth, mean / worst | ≤ 1 % | warned | either | time | reached |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---|"
    total = []
    for (data, k), fits in cells.items():
        known = [fit for fit in _of(fits, "target 1 %") if fit.truth is not None]
        total += known
        if known:
            yield f"| {data} | {k} | {_target(known)} |"
    if total:
        yield f"| **all** | | {_target(total)} |"


def _target(fits: list[Fit]) -> str:
    truth = np.array([fit.truth for fit in fits], dtype=np.float64)
    warned = np.array([fit.warned for fit in fits])
    either = np.mean((truth <= TARGET) | warned)
    return (
        f"{len(fits)} | {_percent(truth.mean(), 2)} / {_percent(truth.max(), 2)} | "
        f"{_percent(np.mean(truth <= TARGET))} | {_percent(warned.mean())} | {_percent(either)} | "
        f"{_median([fit.seconds for fit in fits]):.2f} s | {_verdict(bool(either >= REACHED))}"
    )


def _of(fits: list[Fit], variant: str) -> list[Fit]:
    return [fit for fit in fits if fit.variant == variant]


def _errors(fits: list[Fit], known: float) -> str:
    if not fits:
        return "– | –"
    found = np.array([fit.cost for fit in fits]) / known - 1.0
    seconds = _median([fit.seconds for fit in fits])
    return f"{_percent(found.mean(), 1)} / {_percent(found.max(), 1)} | {seconds:.2f} s"


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else np.nan


def _percent(part: float, digits: int = 0) -> str:
    return f"{100.0 * part:.{digits}f} %"


def _verdict(reached: bool) -> str:
    return "yes" if reached else "NO"

"""The draws of `choose_k`: one build, dealt into those that are solved and those that judge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from lwcs import kernels
from lwcs.building import Job
from lwcs.choosing.kmeans import first_size
from lwcs.choosing.summaries import summarize
from lwcs.coreset import Coreset, refuse_sample_weight
from lwcs.estimators.inputs import check_rows, measured_by
from lwcs.foundation.checks import check_count
from lwcs.judging.k_rows import Interval
from lwcs.sources import scan
from lwcs.streaming import StreamingCoreset
from lwcs.trust.referee import deviations

if TYPE_CHECKING:
    from lwcs.divergences import Divergence
    from lwcs.foundation.journal import Journal
    from lwcs.kernels import KernelName
    from lwcs.samplers import Sampler
    from lwcs.trust.referee import Mean, Price

# The part of the draws that is solved; the others judge.
_SOLVED = 0.75
DEFAULT = range(2, 51)


def check_ks(ks: Any) -> tuple[int, ...]:
    """Check the numbers of clusters; return them in increasing order, each once."""
    if isinstance(ks, str | bytes) or not isinstance(ks, Iterable):
        raise TypeError(f"ks={ks!r} is not a list of integers; pass for example range(2, 51)")
    found = sorted({check_count(k, "k") for k in ks})
    if not found:
        raise ValueError("ks is empty; pass numbers of clusters, for example range(2, 51)")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Rules:
    """How draws are made, and intervals of what they say."""

    most: int
    """The largest number of clusters."""
    divergence: Divergence
    method: str | Sampler
    size: int | None
    """None: as many as that number of clusters takes."""
    confidence: float
    seed: int
    n_jobs: int
    journal: Journal


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draws that are solved, and those that judge: the same ones, if they are all rows."""

    whole: Coreset
    """Both together."""
    solved: Coreset
    judges: Coreset
    kernel: KernelName
    confidence: float

    @property
    def exact(self) -> bool:
        """Whether all rows of the data are here, so that nothing has been sampled."""
        return self.solved.exact

    def cost(self, price: Price) -> Interval:
        """A cost with its interval."""
        half = 0.0 if self.exact else self._quantile * sqrt(price.variance)
        return Interval(price.cost, price.cost * max(1.0 - half, 0.0), price.cost * (1.0 + half))

    def mean(self, mean: Mean) -> Interval:
        """A mean with its interval."""
        half = 0.0 if self.exact else self._quantile * sqrt(mean.variance)
        return Interval(mean.value, mean.value - half, mean.value + half)

    @property
    def _quantile(self) -> float:
        return deviations(1.0 - self.confidence)


def draw(
    data: Any, needed: int, rules: Rules, sample_weight: Any, memory_limit: int | str | None
) -> Drawn:
    """One build of the data, or a coreset of it, which must have `needed` rows."""
    if isinstance(data, StreamingCoreset):
        data = data.coreset()
    if isinstance(data, Coreset):
        coreset, kernel = (
            _given(data, needed, rules, sample_weight),
            kernels.choose(data.rows.size),
        )
    else:
        source = scan(data, weight=sample_weight, memory_limit=memory_limit)
        job = Job.of(source, rules.divergence)
        coreset = summarize(
            job,
            rules.size or first_size(rules.most),
            needed,
            method=rules.method,
            seed=rules.seed,
            n_jobs=rules.n_jobs,
            journal=rules.journal,
            name="max(ks)",
        )
        kernel = job.geometry.kernel
    solved, judges = (coreset, coreset) if coreset.exact else _dealt(coreset, needed, rules.seed)
    return Drawn(coreset, solved, judges, kernel, rules.confidence)


def _dealt(coreset: Coreset, needed: int, seed: int) -> tuple[Coreset, Coreset]:
    """Deal the draws into those that are solved and those that judge."""
    size = round(_SOLVED * coreset.size)
    solved = None
    if 0 < size < coreset.size:
        solved, judges = coreset.split(size, random_state=seed)
    if solved is None or len(solved) < needed:
        raise ValueError(
            f"{coreset.size} draws are too few for max(ks)={needed}: three quarters of them are "
            f"solved, and need as many distinct rows; pass a smaller max(ks), or more draws, "
            f"about {first_size(needed)}"
        )
    return solved, judges


def _given(coreset: Coreset, needed: int, rules: Rules, sample_weight: Any) -> Coreset:
    """A coreset that was built before; of all rows of large data, some."""
    refuse_sample_weight(sample_weight)
    if rules.size is not None:
        raise ValueError(
            f"size={rules.size} is for rows that are still to be drawn, but this Coreset has "
            f"{coreset.size} draws; leave out size, or pass coreset.reduce({rules.size})"
        )
    coreset = measured_by(coreset, rules.divergence)
    check_rows(coreset, needed, "max(ks)")
    enough = first_size(rules.most)
    if coreset.exact and coreset.size > enough:
        return coreset.reduce(enough, random_state=rules.seed)
    return coreset

"""Rows of data as a coreset of a given size; all of them where there are no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lwcs.foundation.randomness import Stage
from lwcs.samplers import as_sampler

if TYPE_CHECKING:
    from lwcs.building import Job
    from lwcs.coreset import Coreset
    from lwcs.foundation.journal import Journal
    from lwcs.samplers import Sampler


def summarize(
    job: Job, size: int, k: int, *,
    method: str | Sampler, seed: int, n_jobs: int | None, journal: Journal,
    name: str = "n_clusters", stage: Stage = Stage.CORESET,
) -> Coreset:  # fmt: skip
    """A coreset of the rows; if there are no more than `size`, all of them."""
    coreset, n_rows = None, job.source.n_rows
    if n_rows is None or n_rows > size:
        sampler = as_sampler(method, k)
        coreset = job.coreset(size, sampler, seed, n_jobs=n_jobs, journal=journal, stage=stage)
        n_rows = coreset.n_samples
    check_n_rows(n_rows, k, name)
    if coreset is None or (n_rows <= size and job.source.rereadable):
        return job.all_rows(n_jobs, journal)
    return coreset


def check_n_rows(n_rows: int, k: int, name: str = "n_clusters") -> None:
    """Check that there are as many rows as clusters."""
    if n_rows < k:
        raise ValueError(
            f"n_samples={n_rows} should be >= {name}={k}; pass more rows, or a smaller {name}"
        )

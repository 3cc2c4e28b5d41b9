"""compare(): run every method at every size over and over, taking turns, and remember it all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.comparing.methods import FULL, METHODS, Problem, answers, missing, sized
from lwcs.comparing.result import CompareResult, Key, Log, Setup, Trial
from lwcs.foundation.checks import check_choice, check_count
from lwcs.foundation.progress import track
from lwcs.foundation.randomness import Stage, generator
from lwcs.samplers.base import FirstRound, Moments
from lwcs.solvers.passes import full_cost
from lwcs.sources import LocalSource, scan
from lwcs.sources.local import open_local

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from lwcs.foundation.types import IntArray

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one method; it gives a solution for every number of polish steps."""

    method: str
    k: int
    size: int
    seed: int


def compare(
    data: Any,
    n_clusters: int | Sequence[int],
    *,
    sizes: Sequence[int] = SIZES,
    methods: Sequence[str] = METHODS,
    polish: Sequence[int] = (0, 1),
    repeats: int = 50,
    full_repeats: int = 10,
    holdout_rows: int = 0,
    sample_weight: Any = None,
    name: str = "data",
    path: str | os.PathLike[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = False,
) -> CompareResult:
    """Compare summaries of data: how long each takes, and how good its solution is on all rows.

    Methods take turns, so that none gets the quiet machine; all use the same solver with the
    same settings; evaluation is in no time. Rows of the result come in the same order and with
    the same costs however often the run was stopped.

    Parameters
    ----------
    data : array, sparse array or table in memory, or a Source of such
        Rows to cluster.
    n_clusters : int or list of int
        Numbers of clusters k.
    sizes : list of int
        Sizes m of the summaries; those below k are left out.
    methods : list of str
        Some of "full", "full-sklearn", "uniform", "lightweight", "sensitivity", "refined",
        "minibatch", "faiss". One that cannot take part (not installed) is left out.
    polish : list of int
        Lloyd steps on all rows after a summary's solution; each number is a method of its own.
    repeats, full_repeats : int
        Seeds of every cell; of the solutions on all rows, which take longest.
    holdout_rows : int
        Rows that no method sees; the cost on them is reported too.
    sample_weight : array, optional
        Weights of the rows.
    name : str
        What tables and figures call the data.
    path : str or path, optional
        A Parquet file that solutions are added to as they come. If it exists, the comparison
        goes on where it was.
    random_state : int
        First seed.
    n_jobs : int, optional
        Threads of lwcs.
    progress : bool
        Draw a progress bar with the time left.

    Returns
    -------
    CompareResult

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_t(2, size=(5_000, 4))
    >>> result = lwcs.compare(X, 5, sizes=[200], methods=["full", "lightweight"], repeats=2)
    >>> len(result.trials)                  # 2 × full, 2 × lightweight, 2 × with a polish step
    6
    """
    source = scan(data, sample_weight=sample_weight)
    if not isinstance(source, LocalSource):
        raise TypeError(f"compare needs rows in memory, which those of {source!r} are not")
    if source.scale is not None:
        raise ValueError(
            "compare measures plain distances, which other libraries do too; scale the data itself"
        )
    first = check_count(random_state, "random_state", least=0)
    if first + check_count(repeats, "repeats") >= 2**32:
        raise ValueError(f"random_state={first} is beyond what other libraries take; pass < 2**32")
    ks = [n_clusters] if isinstance(n_clusters, (int, np.integer)) else list(n_clusters)
    able = [method for method in methods if _takes_part(method, source)]
    if not set(able) & set(FULL):
        raise ValueError(
            "errors are relative to a solution on all rows; add 'full' or 'full-sklearn' to methods"
        )
    source, unseen = _held_out(source, check_count(holdout_rows, "holdout_rows", least=0), first)
    if max(ks, default=0) > source.n_rows:
        raise ValueError(f"n_clusters={max(ks)} is more than the {source.n_rows} rows there are")
    jobs = _plan(
        [check_count(k, "n_clusters") for k in ks],
        [check_count(size, "sizes") for size in sizes],
        able,
        check_count(repeats, "repeats"),
        check_count(full_repeats, "full_repeats"),
        first,
    )
    steps = tuple(sorted({check_count(p, "polish", least=0) for p in polish}))
    log = Log(path, _setup(source, holdout_rows, first, n_jobs))
    todo = [job for job in jobs if not all(k in log.trials for k in _keys(job, name, steps))]
    for job in track(_warmed(todo, source, n_jobs), "comparing", len(todo), show=progress):
        problem = Problem(source, job.k, job.seed, n_jobs)
        log.add(
            Trial(
                Key(name, job.k, job.method, answer.polish, job.size, job.seed),
                answer.build_seconds,
                answer.solve_seconds,
                full_cost(source, answer.centers, n_jobs=n_jobs),
                None if unseen is None else full_cost(unseen, answer.centers, n_jobs=n_jobs),
            )
            for answer in answers(job.method, problem, job.size, steps)
        )
    wanted = {key for job in jobs for key in _keys(job, name, steps)}
    return CompareResult(tuple(t for t in log.result().trials if t.key in wanted))


def _takes_part(method: str, source: LocalSource) -> bool:
    check_choice(method, "methods", METHODS)
    return missing(method, source) is None


def _plan(
    ks: list[int],
    sizes: list[int],
    methods: list[str],
    repeats: int,
    full_repeats: int,
    first: int,
) -> list[Job]:
    """All jobs: seed after seed, within a seed in an order that the seed shuffles."""
    jobs = []
    for seed in range(first, first + repeats):
        round_ = []
        for k in ks:
            for method in methods:
                if method in FULL and seed >= first + full_repeats:
                    continue
                own = [size for size in sizes if size >= k] if sized(method) else [0]
                round_ += [Job(method, k, size, seed) for size in own]
        order = generator(seed, Stage.COMPARE).permutation(len(round_))
        jobs += [round_[i] for i in order]
    return jobs


def _keys(job: Job, name: str, steps: tuple[int, ...]) -> list[Key]:
    """What a job is to find."""
    polishes = steps if sized(job.method) else (0,)
    return [Key(name, job.k, job.method, p, job.size, job.seed) for p in polishes]


def _warmed(jobs: list[Job], source: LocalSource, n_jobs: int | None) -> Iterator[Job]:
    """Yield the jobs; before a method's first, run it once for nothing, to load what it needs."""
    warm: set[str] = set()
    for job in jobs:
        if job.method not in warm and job.method not in FULL:
            answers(job.method, Problem(source, 2, 0, n_jobs), 100, (0, 1))
        warm.add(job.method)
        yield job


def _held_out(
    source: LocalSource, n_rows: int, seed: int
) -> tuple[LocalSource, LocalSource | None]:
    """Take some rows away, at random."""
    if n_rows == 0:
        return source, None
    if n_rows >= source.n_rows:
        raise ValueError(
            f"holdout_rows={n_rows} leaves nothing of {source.n_rows} rows; pass fewer"
        )
    order = generator(seed, Stage.COMPARE, 1).permutation(source.n_rows)
    return _part(source, np.sort(order[n_rows:])), _part(source, np.sort(order[:n_rows]))


def _part(source: LocalSource, rows: IntArray) -> LocalSource:
    weights = None if source.weights is None else source.weights[rows]
    return open_local(source.take(rows), sample_weight=weights)


def _setup(source: LocalSource, holdout_rows: int, first: int, n_jobs: int | None) -> Setup:
    task = FirstRound(kernels.choose(source.n_values), source.n_features)
    with source.explaining():
        parts = list(source.gather(task, n_jobs=n_jobs))
    total: Moments = sum(parts[1:], start=parts[0])
    spread = total.cost_around(total.mean)
    return Setup(source.n_rows, source.n_features, spread, holdout_rows, first)

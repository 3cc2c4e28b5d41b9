"""compare(): the paper's experiment (section 8) on any data, time and error of each method.

Every method runs at every size for many seeds. The file of a comparison is rewritten after every
run, atomically: it has some thousand rows, Parquet cannot be appended to, and so it is complete
whenever the process is killed. The folder is not called `compare`, since the function lwcs.compare
has that name.
"""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lwcs import kernels
from lwcs.arrays.checks import check_choice, check_count
from lwcs.comparing.methods import FULL, METHODS, Problem, missing, sized, solutions
from lwcs.comparing.result import KIND, CompareResult, Key, Setup, Trial, from_table, read_setup
from lwcs.geometry import Geometry
from lwcs.passes import euclidean_cost
from lwcs.runtime.journal import Journal
from lwcs.runtime.randomness import Stage, generator
from lwcs.runtime.warnings import warn
from lwcs.samplers.first_pass import MomentsTask
from lwcs.sources import LocalSource, scan
from lwcs.sources.base import gathered
from lwcs.sources.memory.local import open_local
from lwcs.sources.scan_options import ScanOptions
from lwcs.storage import persistence as storage
from lwcs.storage.atomic_write import check_target
from lwcs.storage.locations import DEFAULT, Access

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lwcs.arrays.types import IntArray
    from lwcs.runtime.progress import Callback

__all__ = ["CompareResult", "compare"]

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a comparison, checked as far as that is possible without data."""

    ks: list[int]
    sizes: list[int]
    methods: list[str]
    steps: tuple[int, ...]
    repeats: int
    full_repeats: int
    holdout_rows: int
    first: int
    """The first random seed."""

    @classmethod
    def of(
        cls, n_clusters: int | Sequence[int], *,
        sizes: Sequence[int] = SIZES, methods: Sequence[str] = METHODS,
        polish: Sequence[int] = (0, 1), repeats: int = 50, full_repeats: int = 10,
        holdout_rows: int = 0, random_state: int = 0,
    ) -> Settings:  # fmt: skip
        """Check the settings of `compare`."""
        given = [n_clusters] if isinstance(n_clusters, (int, np.integer)) else n_clusters
        ks = [check_count(k, "n_clusters") for k in given]
        for method in methods:
            check_choice(method, "methods", METHODS)
        if not set(methods) & set(FULL):
            raise ValueError(
                f"methods={list(methods)} has no solution on all rows, which errors are relative "
                "to; add 'full' or 'full-sklearn'"
            )
        first = check_count(random_state, "random_state", least=0)
        if first + check_count(repeats, "repeats") >= 2**32:
            raise ValueError(
                f"random_state={first} is too large for other libraries; random_state + repeats "
                "must be less than 2**32"
            )
        return cls(
            ks,
            [check_count(size, "sizes") for size in sizes],
            list(methods),
            tuple(sorted({check_count(p, "polish", least=0) for p in polish})),
            int(repeats),
            check_count(full_repeats, "full_repeats"),
            check_count(holdout_rows, "holdout_rows", least=0),
            first,
        )


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run of one method, which gives one solution per number of polish steps."""

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
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool | Callback = False,
) -> CompareResult:
    """Compare coresets with k-means on all rows: time taken, and error of the solution.

    The order of the runs is shuffled, so that all methods meet the same load on the machine. All
    coresets are clustered by the same solver with the same settings. Evaluation is not timed. A
    run that was interrupted and resumed has the same solutions and costs, in the same order, as
    an uninterrupted one.

    Parameters
    ----------
    data : array, sparse array, in-memory table or Source
        Rows to cluster, in memory.
    n_clusters : int or list of int
        Numbers of clusters k.
    sizes : list of int
        Coreset sizes m; for each k, sizes below k are left out.
    methods : list of str
        Some of "full", "full-sklearn", "uniform", "lightweight", "sensitivity", "refined",
        "auto" (the default of CoresetKMeans, which has no size), "minibatch", "faiss"; at least
        one of the first two. "faiss" is left out if it is not
        installed or the data is sparse.
    polish : list of int
        Numbers of Lloyd iterations on all rows after the coreset is clustered; each number is
        reported as a method of its own.
    repeats : int
        Number of seeds per method and size.
    full_repeats : int
        Number of seeds for the solutions on all rows, which take longest; at most `repeats`
        are used.
    holdout_rows : int
        Number of rows to hold out; the cost on them is reported too.
    sample_weight : array, optional
        Weights of the rows.
    name : str
        Name of the data in tables and figures.
    path : str or path, optional
        Parquet file that solutions are saved to as they are found. If it exists, the comparison
        is resumed. Also a URI, such as ``s3://bucket/name``.
    filesystem : pyarrow or fsspec file system, optional
        File system of `path`; by default, that of the path or URI.
    storage_options : dict, optional
        Options of fsspec for the file system of a URI, such as ``{"anon": True}``.
    random_state : int
        First random seed.
    n_jobs : int, optional
        Number of threads that lwcs uses; all cores by default.
    progress : bool or callable
        Whether to show progress on standard error, or a function that is called with a
        `lwcs.Progress`, as for `lwcs.build`. There is one stage, "comparing", with one step per
        run.

    Returns
    -------
    CompareResult
        All solutions, with their times and costs.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> X = np.random.default_rng(0).standard_t(2, size=(5_000, 4))
    >>> result = lwcs.compare(X, 5, sizes=[200], methods=["full", "lightweight"], repeats=2)
    >>> len(result.trials)                  # 2 × full, 2 × lightweight, 2 × with polish
    6
    """
    settings = Settings.of(
        n_clusters,
        sizes=sizes,
        methods=methods,
        polish=polish,
        repeats=repeats,
        full_repeats=full_repeats,
        holdout_rows=holdout_rows,
        random_state=random_state,
    )
    source = scan(data, weight=sample_weight)
    if not isinstance(source, LocalSource):
        raise TypeError(f"compare needs rows in memory, but got {source!r}; load the rows first")
    if source.scale is not None:
        raise ValueError(
            f"scale={source.scale!r} is not supported by compare, since other libraries have "
            "no such option; scale the data itself"
        )
    able = [method for method in settings.methods if missing(method, source) is None]
    first, steps = settings.first, settings.steps
    source, unseen = _held_out(source, settings.holdout_rows, first)
    if max(settings.ks, default=0) > source.n_rows:
        raise ValueError(
            f"n_clusters={max(settings.ks)} is more than the {source.n_rows} rows of the data; "
            f"pass n_clusters <= {source.n_rows}"
        )
    if any(map(sized, able)):
        _warn_of_sizes(settings)
    jobs = _plan(settings, able)
    access = Access(filesystem, storage_options)
    log = Log(path, _setup(source, holdout_rows, first, n_jobs), access)
    todo = [job for job in jobs if not all(k in log.trials for k in _keys(job, name, steps))]
    with Journal(progress).stage("comparing", len(todo), kind="runs") as stage:
        for job in _warmed(todo, source, n_jobs):
            problem = Problem(source, job.k, job.seed, n_jobs)
            log.add(
                Trial(
                    Key(name, job.k, job.method, found.polish, job.size, job.seed),
                    found.build_seconds,
                    found.solve_seconds,
                    euclidean_cost(source, found.centers, n_jobs),
                    None if unseen is None else euclidean_cost(unseen, found.centers, n_jobs),
                )
                for found in solutions(job.method, problem, job.size, steps)
            )
            stage.step()
    wanted = {key for job in jobs for key in _keys(job, name, steps)}
    return CompareResult(tuple(t for t in log.result().trials if t.key in wanted))


def _warn_of_sizes(settings: Settings) -> None:
    """Warn about sizes that are left out, since a coreset has at least one draw per cluster."""
    for k in settings.ks:
        small = [size for size in settings.sizes if size < k]
        if small:
            message = f"sizes={small} are left out for n_clusters={k}; pass sizes >= {k}"
            warn(message, UserWarning)


def _plan(settings: Settings, methods: list[str]) -> list[RunSpec]:
    """Return all jobs, seed by seed, shuffled within each seed."""
    jobs = []
    first = settings.first
    for seed in range(first, first + settings.repeats):
        round_ = []
        for k in settings.ks:
            for method in methods:
                if method in FULL and seed >= first + settings.full_repeats:
                    continue
                own = [size for size in settings.sizes if size >= k] if sized(method) else [0]
                round_ += [RunSpec(method, k, size, seed) for size in own]
        order = generator(seed, Stage.COMPARE).permutation(len(round_))
        jobs += [round_[i] for i in order]
    return jobs


def _keys(job: RunSpec, name: str, steps: tuple[int, ...]) -> list[Key]:
    """Return the keys of the solutions that a job gives."""
    polishes = steps if sized(job.method) else (0,)
    return [Key(name, job.k, job.method, p, job.size, job.seed) for p in polishes]


def _warmed(jobs: list[RunSpec], source: LocalSource, n_jobs: int | None) -> Iterator[RunSpec]:
    """Yield the jobs; warm up each method before its first job, so that loading is not timed."""
    warm: set[str] = set()
    for job in jobs:
        if job.method not in warm and job.method not in FULL:
            solutions(job.method, Problem(source, 2, 0, n_jobs), 100, (0, 1))
        warm.add(job.method)
        yield job


def _held_out(
    source: LocalSource, n_rows: int, seed: int
) -> tuple[LocalSource, LocalSource | None]:
    """Split off random rows."""
    if n_rows == 0:
        return source, None
    if n_rows >= source.n_rows:
        raise ValueError(
            f"holdout_rows={n_rows} leaves no rows to cluster; pass less than {source.n_rows}"
        )
    order = generator(seed, Stage.COMPARE, 1).permutation(source.n_rows)
    return _part(source, np.sort(order[n_rows:])), _part(source, np.sort(order[:n_rows]))


def _part(source: LocalSource, rows: IntArray) -> LocalSource:
    weights = None if source.weights is None else source.weights[rows]
    return open_local(source.take(rows), ScanOptions(weight=weights))


def _setup(source: LocalSource, holdout_rows: int, first: int, n_jobs: int | None) -> Setup:
    geometry = Geometry(kernel=kernels.choose())
    task = MomentsTask(source.n_features, geometry)
    with source.explaining():
        parts = list(gathered(source, task, "first pass", n_jobs=n_jobs))
    total = sum(parts[1:], start=parts[0])
    spread = total.cost_around(total.mean)
    return Setup(source.n_rows, source.n_features, spread, holdout_rows, first)


class Log:
    """The file of a running comparison, replaced atomically so that it is always complete."""

    def __init__(
        self, path: str | os.PathLike[str] | None, setup: Setup, access: Access = DEFAULT
    ) -> None:
        self._path, self._setup, self._access = path, setup, access
        self.trials: dict[Key, Trial] = {}
        if path is None:
            return
        check_target(path, access)
        if access.place(path).exists():
            table, metadata = storage.read_table(path, access)
            if metadata.get("kind") != KIND:
                raise ValueError(f"{str(path)!r} is not a saved comparison; choose another file")
            found = from_table(table, metadata, str(path))
            setup.check_same(read_setup(metadata), str(path))
            self.add(found.trials, write=False)

    def add(self, trials: Iterable[Trial], *, write: bool = True) -> None:
        """Append solutions, and save them."""
        self.trials |= {trial.key: trial for trial in trials}
        if write and self._path is not None:
            table = self.result().to_arrow()
            sealed = storage.with_metadata(table, KIND, {"setup": asdict(self._setup)})
            storage.write_table(sealed, self._path, self._access)

    def result(self) -> CompareResult:
        """Return the solutions so far, in order."""
        return CompareResult(tuple(self.trials[key] for key in sorted(self.trials, key=astuple)))

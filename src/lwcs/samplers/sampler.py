"""The contract of samplers: `Sampler`, how a build is run (`Run`) and what it returns (`Draws`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from lwcs.geometry import Geometry
from lwcs.runtime.journal import Journal
from lwcs.runtime.randomness import Stage, generator
from lwcs.sources.base import watched, watched_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lwcs.arrays.types import FloatArray, IntArray, Rows
    from lwcs.sources import Block, LocalSource, Source, Task

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Run:
    """How one build is run: its seed, its geometry, its threads."""

    seed: int
    geometry: Geometry = field(default_factory=Geometry)
    """How rows are measured before a pass has found their mean or scale."""
    n_jobs: int | None = None
    journal: Journal = field(default_factory=Journal, compare=False)
    """Where its passes are stages."""
    stage: Stage = Stage.CORESET
    check_rows: Callable[[int], None] | None = None
    """Called with the number of rows, without those that are dropped, as soon as a pass has counted
    them; may refuse it."""

    def generator(self, round_: int, partition: int = 0) -> np.random.Generator:
        """The generator of one task of this build."""
        return generator(self.seed, self.stage, round_, partition)

    def gather(
        self, source: Source, task: Task[R], stage: str, items: Sequence[Any] | None = None, *,
        note: str = "",
    ) -> Iterator[R]:  # fmt: skip
        """Run a task over all partitions on the threads of this run, as a stage of its journal."""
        with source.explaining():
            results = source.gather(task, items, n_jobs=self.n_jobs)
            yield from watched(results, source, self.journal, stage, note=note)

    def each_block(
        self, source: LocalSource, task: Callable[[Block], R], stage: str, rows: int | None = None
    ) -> Iterator[R]:
        """Run a task over local rows, a block or `rows` at a time, as a stage of the journal."""
        step = source.block_rows if rows is None else rows
        kernel = self.geometry.kernel
        with source.explaining():
            results = source.each_block(task, rows=rows, n_jobs=self.n_jobs, kernel=kernel)
            yield from watched_blocks(results, source, self.journal, stage, step)


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of all rows of the data; None where the sampler did not compute them."""

    rows: int
    """Number of rows that were read, with those that were dropped for a missing value."""
    weight: float
    mean: FloatArray | None = None
    """In the coordinates of the geometry."""
    cost: float | None = None
    scale: FloatArray | None = None

    def geometry(self, unknown: Geometry) -> Geometry:
        """The geometry with this mean and scale."""
        return replace(unknown, scale=self.scale, mean=self.mean)


@dataclass(frozen=True, slots=True)
class Draws:
    """Distinct rows in the order of their numbers, how often each was drawn, its weight."""

    points: Rows
    indices: IntArray
    counts: IntArray
    weights: FloatArray
    summary: Summary
    details: Mapping[str, Any] = field(default_factory=dict)
    """Entries of `Coreset.details` about how rows were drawn."""


class Sampler(ABC):
    """Draws rows, exactly from the distribution that it names.

    A subclass is registered under its `name` when it is defined: the name can then be passed as
    `method=`. If it is a dataclass with a field `n_clusters`, `build` fills that in.

    Examples
    --------
    >>> import numpy as np, lwcs
    >>> from lwcs.samplers import Draws, Sampler, Summary
    >>> class Every(Sampler):
    ...     name = "every"
    ...     def passes(self, source, geometry):
    ...         return 1
    ...     def draw(self, source, size, passes, run):
    ...         rows = np.arange(size) * source.n_rows // size
    ...         ones, total = np.ones(size, dtype=np.int64), float(source.n_rows)
    ...         weights = np.full(size, total / size)
    ...         return Draws(source.take(rows), rows, ones, weights, Summary(source.n_rows, total))
    >>> lwcs.build(np.ones((1_000, 2)), 10, method="every").indices[:3].tolist()
    [0, 100, 200]
    """

    name: ClassVar[str]
    solves_first: ClassVar[bool] = False
    """Whether it starts from centers that are rows or means of rows."""

    _known: ClassVar[dict[str, type[Sampler]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its name, which is by default that of the class."""
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__.lower()
        taken = Sampler._known.get(cls.name)
        if taken is not None and taken.__module__.startswith("lwcs."):
            raise TypeError(
                f"name={cls.name!r} is already the name of {taken.__name__}; choose another name "
                f"for {cls.__name__}"
            )
        Sampler._known[cls.name] = cls

    @property
    def label(self) -> str:
        """The name in the metadata of a coreset (`Coreset.method`)."""
        return self.name

    def for_clusters(self, n_clusters: int | None) -> Self:
        """A sampler with `n_clusters` filled in, if it has such a field that is None."""
        sampler: Any = self
        if n_clusters is None or getattr(sampler, "n_clusters", n_clusters) is not None:
            return self
        return replace(sampler, n_clusters=n_clusters)

    @abstractmethod
    def passes(self, source: Source, geometry: Geometry) -> int:
        """Number of passes over `source` with ``passes="auto"``."""

    @abstractmethod
    def draw(self, source: Source, size: int, passes: int, run: Run) -> Draws:
        """Draw `size` rows in this number of passes; refuse it if that is impossible."""

"""Sums over thousands of partitions reach the driver as one, and passes are timed as they run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest

import lwcs
from lwcs.runtime.journal import Journal
from lwcs.sources.base import gathered, summed
from lwcs.sources.engines.engine import Work
from lwcs.sources.sums import add_up
from tests.engines.hosts import CONNECT

# Spark takes ten times as long for a task; once through Connect, three levels of sums are enough.
PARTITIONS = {"dask": 5_000, "spark": 1_100 if CONNECT else 5_000}


@dataclass(frozen=True)
class Sums:
    """A task whose results depend on the order in which they are added."""

    def __call__(self, blocks, _):
        return sum(block.points.sum(axis=0) for block in blocks)


@pytest.mark.parametrize("name", ["dask", "spark"])
def test_thousands_of_sums_are_one_on_the_driver_and_the_same_bits(started, name):
    parts = PARTITIONS[name]
    ids = np.arange(parts, dtype=np.float64)
    rows = np.column_stack([ids / 7.0, 1e6 / (ids + 3.0)])
    host = started(name)
    if name == "dask":
        import dask.array as da

        data = da.from_array(rows, chunks=(1, 2))
    else:
        made = ("cast(id as double) / 7.0D x", "1e6D / (cast(id as double) + 3.0D) y")
        data = host.session.range(0, parts, 1, parts).selectExpr(*made)
    source = lwcs.scan(data)
    # As a first pass finds it.
    source.partitions = parts
    (sent,) = source.run_sums(Work(source.reader, Sums()))
    assert len(sent) < 1_000
    (total,) = source._results(iter([sent]))
    local = lwcs.PartitionedSource(list(rows[:, None]))
    np.testing.assert_array_equal(total, add_up(local.gather_sums(Sums())))


@dataclass(frozen=True)
class Sleep:
    """A task that takes a known time."""

    seconds: float

    def __call__(self, blocks, _):
        for _ in blocks:
            pass
        time.sleep(self.seconds)
        return 1


def test_a_pass_is_timed_where_it_runs(engine):
    source, journal = lwcs.scan(engine.arrays([np.ones((3, 2))] * 2)), Journal()
    assert list(gathered(source, Sleep(0.3), "one by one", journal=journal)) == [1, 1]
    assert summed(source, Sleep(0.2), "summed", journal=journal) == 2
    timings = journal.timings()
    first, second = (timings[stage]["seconds"] for stage in ("one by one", "summed"))
    assert first >= 0.3
    assert second >= 0.2
    assert first + second >= 0.95 * timings["total"]["seconds"]


def test_stages_of_a_fit_add_up_to_the_time_it_takes(engine):
    X = np.random.default_rng(0).standard_normal((60_000, 8))
    parts = list(np.array_split(X, 4))
    model = lwcs.CoresetKMeans(20, coreset_size=2_000, polish=1, random_state=0)
    # The first fit also asks the workers for their versions, and loads what they need.
    model.fit(engine.arrays(parts))
    data = engine.arrays(parts)
    begun = time.perf_counter()
    timings = model.fit(data).timings_
    seconds = time.perf_counter() - begun
    total = timings["total"]["seconds"]
    stages = sum(each["seconds"] for name, each in timings.items() if name != "total")
    assert 0.95 * total <= stages <= total + 1e-6
    assert 0.9 * seconds <= total <= seconds

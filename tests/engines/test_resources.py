"""What a driver holds, and what a worker uses."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import lwcs

ROWS, PARTS = 1_600_000, 16
MADE = ("id % 1009.0D x", "id % 7919.0D y", "id % 104729.0D z", "cast(id as double) t")


def made(name, started):
    """50 MB of rows that workers make when they are asked for."""
    host = started(name)
    if name == "spark":
        return host.session.range(0, ROWS, 1, PARTS).selectExpr(*MADE)

    def four(ids):
        ids = np.asarray(ids, dtype=np.float64)
        return np.column_stack([ids % 1009, ids % 7919, ids % 104729, ids])

    if name == "ray":
        import ray.data

        ids = ray.data.range(ROWS, override_num_blocks=PARTS)
        return ids.map_batches(lambda batch: {"x": four(batch["id"])})
    import dask.array as da

    step = ROWS // PARTS
    return da.map_blocks(
        lambda block_id=None: four(np.arange(step) + step * block_id[0]),
        chunks=((step,) * PARTS, (4,)),
        dtype=float,
        meta=np.empty((0, 0)),
    )


@pytest.mark.filterwarnings("ignore:.*look like identifiers")
@pytest.mark.parametrize("name", ["dask", "spark", "ray"])
def test_the_driver_holds_moments_plan_and_coreset(started, name):
    rows = made(name, started)
    first = lwcs.build(rows, 2_000, random_state=0)
    tracemalloc.start()
    try:
        again = lwcs.build(rows, 2_000, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert again == first
    assert first.n_samples == ROWS
    # A coreset of 2,000 × 4 numbers and what an engine keeps of a job; one partition has 3.2 MB.
    assert peak < 3e6


def threads(blocks, _):
    """Threads of the libraries that products would use, seen from inside a task."""
    from threadpoolctl import threadpool_info

    next(blocks)
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_a_task_uses_one_core(engine):
    source = lwcs.scan(engine.arrays([np.ones((10, 2))] * 4))
    for found in source.gather(threads):
        assert found
        assert set(found) == {1}

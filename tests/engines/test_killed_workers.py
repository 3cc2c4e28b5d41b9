"""A worker is killed in the middle of every round, and the coreset is the same to the last bit."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lwcs
from lwcs.sources.engines.engine import EngineSource
from tests.engines.sameness import assert_same, cut

X = np.random.default_rng(5).standard_t(3, size=(40_000, 4))
PARTS = cut(X, [0, 20_000, 20_001, 30_000, 40_000])


@dataclass(frozen=True)
class KillOnce:
    """A task that kills its process with SIGKILL once, after the first block of a partition."""

    task: Any
    marker: str
    driver: int

    def __call__(self, blocks, item):
        return self.task(self._deadly(blocks), item)

    def _deadly(self, blocks):
        for block in blocks:
            yield block
            assert os.getpid() != self.driver
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


def sabotage(source: EngineSource, folder: Path) -> list[Path]:
    """Kill a worker in every round from now on; give what is left behind at each kill."""
    markers: list[Path] = []
    run, run_sums = source.run, source.run_sums

    def deadly(work):
        marker = folder / f"round {len(markers)}"
        markers.append(marker)
        return type(work)(work.reader, KillOnce(work.task, str(marker), os.getpid()))

    source.run = lambda work, told: run(deadly(work), told)
    source.run_sums = lambda work: run_sums(deadly(work))
    return markers


@pytest.mark.parametrize("method", ["lightweight", "refined"])
def test_a_killed_worker_changes_nothing(engine, tmp_path, method):
    rows = engine.arrays(PARTS)
    options = {"method": method, "n_clusters": 3, "random_state": 9}
    undisturbed = lwcs.build(rows, 1_000, **options)
    source = lwcs.scan(rows)
    markers = sabotage(source, tmp_path)
    assert_same(lwcs.build(source, 1_000, **options), undisturbed)
    assert len(markers) == (2 if method == "lightweight" else 4)
    assert all(marker.exists() for marker in markers)


def test_a_killed_worker_does_not_change_polish_and_cost(engine, tmp_path):
    rows = engine.arrays(PARTS)
    model = lwcs.CoresetKMeans(3, coreset_size=300, polish=1, random_state=9)
    want = model.fit(rows).cluster_centers_
    cost = model.inertia_
    source = lwcs.scan(rows)
    markers = sabotage(source, tmp_path)
    model.fit(source)
    np.testing.assert_array_equal(model.cluster_centers_, want)
    assert model.inertia_ == cost
    assert len(markers) == 4
    assert all(marker.exists() for marker in markers)

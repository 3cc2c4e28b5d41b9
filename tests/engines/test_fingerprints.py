"""The fingerprints of partitions do not depend on the engine either."""

from __future__ import annotations

import numpy as np

import lwcs
from lwcs.sources.engines.engine import ArrayReader
from tests.engines.sameness import cut
from tests.sources.test_engine import Wire

X = np.random.default_rng(0).standard_normal((3_000, 4))
# Empty ones, and one row.
PARTS = cut(X, [0, 0, 1, 1_000, 1_000, 3_000])


def wanted(parts):
    wire = Wire([(part, None) for part in parts], ArrayReader(4))
    return lwcs.build(wire, 100, random_state=0)


def test_every_engine_takes_the_same(engine):
    found = lwcs.build(engine.arrays(PARTS), 100, random_state=0)
    want = wanted(PARTS)
    assert want.details["partitions"]["rows"] == [len(part) for part in PARTS]
    assert found.details["partitions"] == want.details["partitions"]
    assert found.points.shape == want.points.shape
    assert "partition" not in found.explain_difference(found)


def test_rows_in_another_order_are_named(engine):
    turned = [*PARTS[:4], PARTS[4][::-1].copy()]
    found = lwcs.build(engine.arrays(turned), 100, random_state=0)
    assert found.explain_difference(lwcs.build(engine.arrays(PARTS), 100, random_state=0)) == (
        "partition 4 has the same rows in another order; all in all the rows are the same"
    )

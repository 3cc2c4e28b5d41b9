"""A label is nearest, and transform gives the distances, at any range."""

from __future__ import annotations

import numpy as np
import pytest

from . import cases, oracle

EVERY = pytest.mark.parametrize(("name", "dtype"), [*cases.single_too(), *cases.others_too()])
EACH = pytest.mark.parametrize("container", cases.CONTAINERS)


@EACH
@EVERY
def test_label_is_nearest(name: str, dtype: str, container: str) -> None:
    given = cases.case(name, dtype)
    rows = cases.contained(given.rows, container)
    labels = cases.model_with(rows, given.centers, given.divergence).predict(rows)
    given.exact.assert_nearest(labels, oracle.LABELS[dtype])


@EACH
@EVERY
def test_transform_gives_the_distances(name: str, dtype: str, container: str) -> None:
    given = cases.case(name, dtype)
    if not given.fits_in_float32 and dtype == "float32":
        pytest.skip("its distances are outside of float32's range")
    rows = cases.contained(given.rows, container)
    found = cases.model_with(rows, given.centers, given.divergence).transform(rows)
    given.exact.assert_nearest(np.argmin(found, axis=1), oracle.LABELS[dtype])
    given.exact.assert_distances(found, oracle.DISTANCES[dtype], roots=given.roots)


@EACH
@EVERY
def test_label_of_a_row_does_not_depend_on_the_other_rows(
    name: str, dtype: str, container: str
) -> None:
    given = cases.case(name, dtype)
    model = cases.model_with(
        cases.contained(given.rows, container), given.centers, given.divergence
    )
    alone = [
        model.predict(cases.contained(given.rows[i : i + 1], container))[0]
        for i in range(0, 120, 13)
    ]
    part = oracle.Exact(given.exact.distances[::13])
    part.assert_nearest(np.array(alone), oracle.LABELS[dtype])

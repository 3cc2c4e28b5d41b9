"""Every test of this folder is statistical, and holds the limit of BLAS for its many builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lwcs.runtime.parallel import single_threaded_blas


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.statistical)


@pytest.fixture(autouse=True)
def _blas_limit():
    # To set and lift the limit takes longer than a build of 150 rows.
    with single_threaded_blas():
        yield

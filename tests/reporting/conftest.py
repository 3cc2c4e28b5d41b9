"""A browser for all tests of a worker, and reports that several tests look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import lwcs
from tests.reporting.browser import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = (
    "<script>document.title = 'run'</script>",
    "</script><img src=x onerror=\"document.title = 'run'\">",
    "@{row} {cluster} $index",
    "$$x^2$$",
    'it\'s a "name" & more',
    "🎉 דוגמה",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium; skips where there is none."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        try:
            made = playwright.chromium.launch(
                executable_path=installed(), args=["--no-sandbox", "--enable-unsafe-swiftshader"]
            )
        except api.Error as error:
            pytest.skip(
                "no browser to open reports with: install chromium, or run "
                f"`playwright install chromium` ({str(error).splitlines()[0]})"
            )
        yield made
        made.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="session")
def twelve() -> lwcs.CoresetKMeans:
    """Twelve clusters of different sizes, with names that are dangerous."""
    rng = np.random.default_rng(0)
    sizes = 150 * np.arange(1, 13)
    means = rng.normal(0, 12, (12, len(HOSTILE)))
    X = np.vstack([rng.normal(mean, 1, (size, 6)) for mean, size in zip(means, sizes, strict=True)])
    table = pd.DataFrame(X, columns=list(HOSTILE))
    model = lwcs.CoresetKMeans(12, coreset_size=2_000, holdout=0.1, random_state=0).fit(table)
    model.stability(n_bootstrap=2)
    return model


@pytest.fixture(scope="session")
def report(twelve: lwcs.CoresetKMeans, folder: Path) -> Path:
    path = folder / "twelve.html"
    lwcs.report(twelve, path, title=HOSTILE[1])
    return path

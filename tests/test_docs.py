"""What the documents show is what happens: every example is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import lwcs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(m.name for m in pkgutil.walk_packages(lwcs.__path__, "lwcs."))
ENGINES = {
    "lwcs.sources.dask": "dask",
    "lwcs.sources.spark": "pyspark",
    "lwcs.spark": "pyspark",
    "lwcs.sources.ray": "ray",
    "lwcs.kernels.device": "torch",
    **{
        f"lwcs.kernels.device.{name}": "triton"
        for name in (
            "assign",
            "assign_kernels",
            "fused",
            "rows",
            "scans",
            "seeding_kernels",
            "sums",
        )
    },
    "dask.md": "dask_ml",
    "reproducibility.md": "dask.array",
}
"""What the examples of some modules and pages need."""
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_the_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.name in ENGINES:
        pytest.importorskip(ENGINES[page.name])
    assert doctest.testfile(str(page), module_relative=False, optionflags=FLAGS).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    needs = [needed for home, needed in ENGINES.items() if f"{name}.".startswith(f"{home}.")]
    for needed in needs:
        pytest.importorskip(needed)
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_the_readme_has_examples_that_run():
    assert (ROOT / "README.md").read_text("utf-8").count(">>>") >= 10


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *PAGES[1:]], ids=lambda page: page.name)
def test_links_between_the_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target

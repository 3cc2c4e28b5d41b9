"""What the documents show is what happens: every example is run, every link leads somewhere."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import shutil
import sys

import pytest

import lwcs
from tests.pages import DOCS, FLAGS, PAGES, ROOT, blocks, needs, run_page

MODULES = sorted(m.name for m in pkgutil.walk_packages(lwcs.__path__, "lwcs."))
ENGINES = {
    "lwcs.sources.engines.dask": "dask",
    "lwcs.sources.engines.spark": "pyspark",
    "lwcs.spark": "pyspark",
    "lwcs.sources.engines.ray": "ray",
    "lwcs.kernels.torch": "torch",
    **{
        f"lwcs.kernels.torch.{name}": "triton"
        for name in ("assignment", "assignment_kernels", "fused", "fused_scans", "seeding_kernels")
    },
}
"""What the examples of some modules need."""
OTHERS = [page for page in sorted(ROOT.glob("*.md")) if page.name != "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_the_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for name in needs(page):
        if not name.isupper():
            pytest.importorskip(name)
        elif name not in os.environ:
            pytest.skip(f"{name} is not set")
        if name == "pyspark" and shutil.which("java") is None:
            pytest.skip("Spark needs Java, which is not installed")
    # The commands of the README are run as users run them; others are in this process, for time.
    run_page(page, in_process=page.name != "README.md")


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    required = [needed for home, needed in ENGINES.items() if f"{name}.".startswith(f"{home}.")]
    for needed in required:
        pytest.importorskip(needed)
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_the_readme_has_examples_and_commands_that_run():
    shown = blocks(ROOT / "README.md")
    text = "\n".join(block.text for block in shown if not block.not_run)
    assert text.count(">>>") >= 7
    assert "$ lwcs fit" in text
    assert "$ make demo" in text
    assert "$ make test" in text


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_the_pages_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", text):
        found = page if not target else (page.parent / target).resolve()
        if (DOCS / "auto_gallery") in found.parents:
            found = DOCS / "gallery" / f"{found.stem}.py"
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), f"{target}#{anchor}"


def anchors(page):
    """What links can lead to in a page: its headings, and targets such as (name)=."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"`|\[([^]]*)\]\([^)]*\)", r"\1", heading).lower())
        named.add(plain.strip().replace(" ", "-"))
    return named

"""A tag is published only if it names the version, and changelog and citation have it, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.__main__ import problem_with


@pytest.fixture
def checkout(tmp_path) -> Path:
    (tmp_path / "src/lwcs").mkdir(parents=True)
    (tmp_path / "src/lwcs/__init__.py").write_text('"""lwcs."""\n\n__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 — 2026-12-24\n")
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\ndate-released: 2026-12-24\n")
    return tmp_path


def test_the_tag_of_the_version_is_published(checkout):
    assert problem_with("v1.2.3", checkout) == ""


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2.4", "v1.2.3rc1"])
def test_any_other_tag_is_refused(tag, checkout):
    assert f"the tag {tag} is not v1.2.3" in problem_with(tag, checkout)


def test_a_version_without_a_date_is_refused(checkout):
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 — not released\n")
    assert "write '## 1.2.3 — year-month-day'" in problem_with("v1.2.3", checkout)


@pytest.mark.parametrize("text", ["version: 1.2.2\ndate-released: 2026-12-24", "version: 1.2.3"])
def test_a_citation_of_another_version_or_without_a_date_is_refused(text, checkout):
    (checkout / "CITATION.cff").write_text(f"{text}\n")
    assert "CITATION.cff has no line" in problem_with("v1.2.3", checkout)

"""One version everywhere, and what `make test-versions` takes from pyproject.toml."""

from __future__ import annotations

import re

import pytest
import yaml

import lwcs
from tests import versions


def test_changelog_citation_and_package_have_one_version():
    changelog = (versions.ROOT / "CHANGELOG.md").read_text("utf-8")
    citation = yaml.safe_load((versions.ROOT / "CITATION.cff").read_text("utf-8"))
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == lwcs.__version__
    assert citation["version"] == lwcs.__version__


def test_the_release_has_the_same_date_in_changelog_and_citation():
    changelog = (versions.ROOT / "CHANGELOG.md").read_text("utf-8")
    citation = yaml.safe_load((versions.ROOT / "CITATION.cff").read_text("utf-8"))
    (said,) = re.findall(rf"^## {re.escape(lwcs.__version__)} — (.+)$", changelog, re.MULTILINE)
    assert said == str(citation.get("date-released", "not released"))


def test_the_oldest_python_is_the_one_that_the_package_requires():
    project = versions.read_project()
    found = versions.environments(project)
    assert [each.name for each in found[:2]] == ["3.11-oldest", "3.11"]
    assert project["requires-python"] == f">={found[0].version}"
    assert found[-1].name == "3.14"


def test_a_minimum_becomes_that_version_without_extras():
    assert versions.oldest_version("dask[array,dataframe]>=2025.1") == "dask==2025.1"
    assert versions.oldest_version("array-api-compat>=1.11") == "array-api-compat==1.11"


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy>=2,<3"])
def test_a_dependency_without_a_plain_minimum_is_refused(requirement):
    with pytest.raises(ValueError, match="has no minimum"):
        versions.oldest_version(requirement)


def test_every_dependency_of_a_user_is_tried_at_its_oldest():
    project = versions.read_project()
    pinned = {line.split("==")[0] for line in versions.oldest_versions(project)}
    assert {"numpy", "scikit-learn", "pyarrow", "matplotlib", "bokeh", "h5py", "zarr"} <= pinned
    assert "torch" not in pinned
    assert "pytest" not in pinned


def test_the_tests_ask_for_no_newer_versions_than_users_do():
    project = versions.read_project()
    pinned = dict(line.split("==") for line in versions.oldest_versions(project))
    for extra in ("test", "docs", "bench"):
        for each in project["optional-dependencies"][extra]:
            name, _, least = re.sub(r"\[.*\]", "", each).partition(">=")
            assert pinned.get(name, least) == least, f"{each} in the extra {extra!r}"


def test_a_missing_python_is_said_and_not_left_out(monkeypatch, capsys):
    monkeypatch.setattr(versions, "interpreter", lambda _: None)
    assert versions.main([]) == 0
    told = capsys.readouterr().out
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"{version:12} not tested: no Python {version} on this machine" in told


def test_a_missing_python_that_was_asked_for_is_a_failure(monkeypatch):
    monkeypatch.setattr(versions, "interpreter", lambda _: None)
    assert versions.main(["3.14"]) == 1


def test_an_unknown_environment_is_named_with_those_that_exist(capsys):
    assert versions.main(["2.7"]) == 2
    told = capsys.readouterr().out
    assert "2.7: no such environment; choose from 3.11-oldest, 3.11, 3.12" in told


@pytest.mark.parametrize("path", versions.QUICK)
def test_the_quick_tests_exist(path):
    assert (versions.ROOT / path).exists()

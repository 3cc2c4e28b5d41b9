"""Workflows and forms of GitHub: what they name exists, and jobs may do no more than they need."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.versions import ROOT, environments, read_project

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = [path for path in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
         if path.stem != "config"]  # fmt: skip
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
ON = True  # YAML 1.1 reads the key "on" as a boolean


def read(name: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github/workflows" / name).read_text("utf-8"))


def test_there_are_workflows_for_tests_docs_and_releases():
    assert [path.name for path in WORKFLOWS] == ["docs.yml", "release.yml", "tests.yml"]


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, ROOT / ".ci/run", ROOT / ".readthedocs.yaml"], ids=lambda path: path.name
)
def test_every_target_of_make_exists(path):
    named = set(re.findall(r"\bmake ([a-z-]+)", path.read_text("utf-8")))
    assert named
    assert named <= TARGETS


def test_all_kinds_of_tests_are_run():
    jobs = read("tests.yml")["jobs"]
    targets = jobs["all"]["strategy"]["matrix"]["target"]
    assert set(targets) == {name for name in TARGETS if name.startswith("test")} - {"test-versions"}


def test_every_environment_is_tried():
    tried = read("tests.yml")["jobs"]["versions"]["strategy"]["matrix"]["environment"]
    assert tried == [each.name for each in environments(read_project())]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_read_the_repository_and_write_nothing(path):
    assert read(path.name)["permissions"] == {"contents": "read"}


def test_only_tags_are_published_after_all_tests_and_without_a_token():
    release = read("release.yml")
    assert release[ON] == {"push": {"tags": ["v*"]}}
    publish = release["jobs"]["publish"]
    assert publish["needs"] == ["tests", "build", "wheels"]
    assert publish["permissions"] == {"id-token": "write"}
    assert release["jobs"]["tests"]["uses"] == "./.github/workflows/tests.yml"
    assert "workflow_call" in read("tests.yml")[ON]
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text("utf-8")


def test_what_is_published_is_what_was_built_and_checked_by_its_tag():
    jobs = read("release.yml")["jobs"]
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert 'make dist TAG="$GITHUB_REF_NAME"' in commands
    kept = [
        step["with"]["name"]
        for job in ("build", "wheels")
        for step in jobs[job]["steps"]
        if "upload" in step.get("uses", "")
    ]
    assert kept == ["dist", "dist-${{ matrix.system }}"]
    taken = [s["with"] for s in jobs["publish"]["steps"] if "download" in s.get("uses", "")]
    assert [each["pattern"] for each in taken] == ["dist*"]


def test_wheels_are_built_for_every_system_by_one_python():
    systems = read("release.yml")["jobs"]["wheels"]["strategy"]["matrix"]["system"]
    assert {name.partition("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}
    assert any(name.endswith("-arm") for name in systems)
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    assert options["scikit-build"]["wheel"]["py-api"] == "py3"
    assert len(options["cibuildwheel"]["build"].split()) == 1
    assert "native" in options["cibuildwheel"]["test-command"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_have_what_github_asks_for(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", "description", "body"} <= set(form)
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names)
    assert any(field["validations"]["required"] for field in form["body"])
    assert all(field["attributes"]["label"] for field in form["body"])


def test_there_are_forms_for_bugs_and_features_and_a_place_for_questions():
    assert [path.stem for path in FORMS] == ["bug", "feature"]
    config = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/config.yml").read_text("utf-8"))
    assert [link["name"] for link in config["contact_links"]] == [
        "Question", "Documentation", "Security"
    ]  # fmt: skip

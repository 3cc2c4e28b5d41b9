"""Files that every released version has written can be read, and mean what they meant."""

from __future__ import annotations

import json
import shutil

import pytest

import lwcs
from tests.release.saved import ANSWERS, FOLDER, answers

VERSIONS = sorted(path.name for path in FOLDER.iterdir())


def test_there_are_files_of_this_version():
    assert lwcs.__version__ in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_every_version_give_the_same_answers(version, tmp_path):
    expected = json.loads((FOLDER / version / ANSWERS).read_text())
    folder = shutil.copytree(FOLDER / version, tmp_path / version)
    found = answers({path.stem: lwcs.load(path) for path in folder.glob("*.parquet")})
    assert set(found) == set(expected)
    for name, each in expected.items():
        assert found[name] == pytest.approx(each, rel=1e-9), name

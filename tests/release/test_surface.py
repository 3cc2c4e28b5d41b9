"""Public names, their parameters and the options of commands change only on purpose."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.release.surface import Surface, differences, recorded
from tests.versions import ROOT


def surface_of_a_fresh_process() -> Surface:
    """Other tests register divergences and samplers, which become choices of options."""
    command = [sys.executable, "-m", "tests.release.surface"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def test_the_public_surface_is_the_recorded_one():
    if changes := differences(recorded(), surface_of_a_fresh_process()):
        pytest.fail(
            "the public surface is not the recorded one:\n"
            + "\n".join(f"  {each}" for each in changes)
            + "\nIf this is meant, name it in CHANGELOG.md and record it with:\n"
            "  python -m tests.release.surface --write",
            pytrace=False,
        )


def test_names_that_went_changed_and_came_are_told_apart():
    before = {"lwcs.f": "function", "lwcs.f(a)": "place 1, default 1", "lwcs.g": "function"}
    after = {"lwcs.f": "function", "lwcs.f(a)": "place 1, default 2", "lwcs.h": "function"}
    assert differences(before, after) == [
        "removed: lwcs.g (function)",
        "changed: lwcs.f(a) (place 1, default 2; recorded: place 1, default 1)",
        "added: lwcs.h (function)",
    ]
    assert differences(before, before) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lwcs.CoresetKMeans(n_clusters)", "place 1, default 8"),
        ("lwcs.CoresetKMeans.labels_", "documented attribute"),
        ("lwcs.Coreset.n_features", "attribute"),
        ("lwcs.Coreset.__len__", "method"),
        ("lwcs.Coreset.cost(centers)", "place 1, required"),
        ("lwcs.theory.coreset_size(constant)", "keyword, default 1.0"),
        ("lwcs fit --clusters", "also -k, integer range, min 1, required"),
    ],
)
def test_parameters_members_and_options_are_recorded(name, words):
    assert recorded()[name] == words

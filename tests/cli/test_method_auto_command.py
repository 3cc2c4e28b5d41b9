"""lwcs fit --method auto: the method is chosen by the data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.hard_clusters import FAMILIES

import lwcs
from tests.cli.running import run


def test_fit_chooses_the_method_and_says_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", FAMILIES["halving"](60_000, 5, 18, 0))
    code, _, said = run("fit", "x.npy", "-k", "18", "--method", "auto", "--seed", "0", "-o", "m")
    assert code == 0
    assert "from 20,000 picked at random (method refined).\n" in said
    why = "method='auto' chose 20,000 refined draws: draws around the first centers have"
    assert str(lwcs.load("m").diagnosis_).startswith(why)
    assert lwcs.load("m").diagnosis_.asked == "auto"
    given = ("--method", "auto", "--seed", "0", "--json", "-o", "m")
    assert json.loads(run("fit", "x.npy", "-k", "18", *given)[1])["method"] == "refined"


@pytest.mark.parametrize("command", [("build", "--size", "9"), ("mixture", "--components", "2")])
def test_commands_that_choose_nothing_refuse_auto(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((20, 2)))
    code, _, said = run(command[0], "x.npy", *command[1:], "--method", "auto", "-o", "o")
    assert code == 2
    assert "'auto' is not one of" in said

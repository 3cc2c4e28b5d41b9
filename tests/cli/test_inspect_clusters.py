"""`lwcs fit --stability` and `lwcs inspect`: how large clusters are, and how real."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lwcs
from tests.cli.running import run


@pytest.fixture
def rows(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(8 * each, 1.0, (700, 2)) for each in range(3)])
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), "rows.parquet")


def test_fit_judges_the_clusters_and_inspect_shows_them(rows: None) -> None:
    fit = ("fit", "rows.parquet", "-k", "4", "--seed", "0", "-o", "m.parquet")
    code, _, said = run(*fit, "--stability")
    assert code == 0
    assert "; 2 of 4 clusters are stable (score > 0.85), 2 are not (score < 0.6)" in said
    known = lwcs.load("m.parquet").stability_
    code, out, _ = run("inspect", "m.parquet")
    assert code == 0
    lines = [line.split("│") for line in out.splitlines() if line.count("│") == 6]
    assert [int(cells[1]) for cells in lines] == known.worst_first()
    assert [float(cells[3]) for cells in lines] == [
        round(score, 2) for score in np.sort(known.score).tolist()
    ]
    ((one, other),) = known.pairs
    assert f"The data cannot tell these clusters apart: {one} and {other}." in out


def test_json_has_all_of_it(rows: None) -> None:
    fit = ("fit", "rows.parquet", "-k", "4", "--seed", "0", "-o", "m.parquet", "--stability")
    told = json.loads(run(*fit, "--json")[1])
    facts = json.loads(run("inspect", "m.parquet", "--json")[1])
    known = lwcs.load("m.parquet").stability_
    for found in (told, facts):
        assert found["n_bootstrap"] == known.n_bootstrap
        assert found["pairs_not_told_apart"] == [list(pair) for pair in known.pairs]
        for name in ("share", "share_error", "score", "jaccard", "center_error"):
            assert found["table_of_clusters"][name] == getattr(known, name).tolist()


def test_without_stability_the_shares_are_shown(rows: None) -> None:
    run("fit", "rows.parquet", "-k", "3", "--size", "500", "--seed", "0", "-o", "m.parquet")
    model = lwcs.load("m.parquet")
    assert not hasattr(model, "stability_")
    code, out, _ = run("inspect", "m.parquet")
    assert code == 0
    assert "score" not in out
    smallest = int(np.argmin(model.fitted_on_.shares))
    error = 100 * np.sqrt(model.fitted_on_.share_variances[smallest])
    assert f"{100 * model.fitted_on_.shares[smallest]:.3g} % ± {error:.2g}" in out
    facts = json.loads(run("inspect", "m.parquet", "--json")[1])
    assert facts["table_of_clusters"]["share"] == model.fitted_on_.shares.tolist()


def test_of_many_clusters_twenty_are_shown_and_the_rest_counted(rows: None) -> None:
    run("fit", "rows.parquet", "-k", "23", "--seed", "0", "-o", "m.parquet")
    out = run("inspect", "m.parquet")[1]
    assert sum(line.count("│") == 3 and "%" in line for line in out.splitlines()) == 20
    assert "and 3 more, which are no smaller" in out


@pytest.mark.parametrize("size", [(), ("--size", "500")])
def test_inspect_says_which_method_was_used_and_why(rows: None, size: tuple[str, ...]) -> None:
    run("fit", "rows.parquet", "-k", "3", *size, "--seed", "0", "-o", "m.parquet")
    known = lwcs.load("m.parquet").diagnosis_
    assert isinstance(known, lwcs.Diagnosis)
    shown = run("inspect", "m.parquet")[1]
    line = shown[shown.index("diagnosis") + len("diagnosis") : shown.index("seconds")]
    assert " ".join(line.replace("│", " ").split()) == str(known)
    facts = json.loads(run("inspect", "m.parquet", "--json")[1])["diagnosis"]
    assert facts.pop("words") == str(known)
    assert facts == known.saved()


def test_inspect_knows_nothing_of_the_method_of_an_older_model(rows: None) -> None:
    run("fit", "rows.parquet", "-k", "3", "--seed", "0", "-o", "m.parquet")
    model = lwcs.load("m.parquet")
    model.diagnosis_ = None
    model.save("m.parquet")
    assert "diagnosis" not in json.loads(run("inspect", "m.parquet", "--json")[1])

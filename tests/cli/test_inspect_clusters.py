"""`lwcs fit --stability` and `lwcs inspect`: how large clusters are, and how real."""

from __future__ import annotations

import json
from pathlib import Path
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
    lines = [line.split("│") for line in out.splitlines() if line.count("│") == 10]
    assert [int(cells[1]) for cells in lines] == known.worst_first()
    assert [float(cells[5]) for cells in lines] == [
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


def test_centers_sizes_and_costs_are_shown_by_the_names_of_the_columns(rows: None) -> None:
    run("fit", "rows.parquet", "-k", "3", "--seed", "0", "-o", "m.parquet")
    model = lwcs.load("m.parquet")
    facts = json.loads(run("inspect", "m.parquet", "--json")[1])
    assert facts["centers"] == model.cluster_centers_.tolist()
    assert facts["features"] == ["a", "b"]
    table = facts["table_of_clusters"]
    assert table["rows"] == pytest.approx([700.0] * 3, rel=0.02)
    assert sum(table["cost"]) == pytest.approx(model.inertia_)
    assert table["cost_share"] == model.fitted_on_.cost_shares.tolist()
    out = run("inspect", "m.parquet")[1]
    heading = next(line for line in out.splitlines() if "cluster ┃" in line)
    assert [each.strip() for each in heading.split("┃")[2:-1]] == [
        "rows", "share", "cost", "a", "b",
    ]  # fmt: skip
    assert f"{model.cluster_centers_[0, 1]:.4g}" in out


def test_columns_that_do_not_fit_are_counted(rows: None, monkeypatch: Any) -> None:
    X = np.random.default_rng(0).normal(size=(200, 74))
    names = [f"[b]{j}" for j in range(74)]
    pq.write_table(pa.table(dict(zip(names, X.T, strict=True))), "wide.parquet")
    run("fit", "wide.parquet", "-k", "2", "--seed", "0", "-o", "m.parquet")
    out = run("inspect", "m.parquet")[1]
    assert "[b]0, [b]1," in out
    heading = next(line for line in out.splitlines() if "cluster ┃" in line)
    shown = heading.count("[b]")
    assert 3 <= shown <= 8
    assert f"the first {shown} of the 74 columns of the centers" in " ".join(out.split())
    monkeypatch.setenv("COLUMNS", "50")
    out = run("inspect", "m.parquet")[1]
    assert "The 74 columns of the centers do not fit beside that" in " ".join(out.split())


def test_dropped_rows_do_not_make_rows_a_weight(rows: None) -> None:
    values = pq.read_table("rows.parquet").to_pydict()
    values["a"][:100] = [None] * 100
    pq.write_table(pa.table(values), "holes.parquet")
    fit = ("fit", "holes.parquet", "-k", "3", "--seed", "0", "--missing", "drop", "-o", "m.parquet")
    for size in ((), ("--size", "500")):
        assert run(*fit, *size)[0] == 0
        table = json.loads(run("inspect", "m.parquet", "--json")[1])["table_of_clusters"]
        assert "weight" not in table
        assert sum(table["rows"]) == pytest.approx(2_000.0)


def test_the_components_of_a_mixture_are_shown(rows: None) -> None:
    run("mixture", "rows.parquet", "-k", "3", "--seed", "0", "-o", "m.parquet")
    facts = json.loads(run("inspect", "m.parquet", "--json")[1])
    model = lwcs.load("m.parquet")
    assert facts["centers"] == model.means_.tolist()
    assert facts["table_of_clusters"]["share"] == pytest.approx(model.weights_.tolist(), abs=0.01)
    assert "component ┃" in run("inspect", "m.parquet")[1]


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
    assert sum(line.count("│") == 7 and "%" in line for line in out.splitlines()) == 20
    assert "and 3 more, which are no larger" in out


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


def test_a_narrow_terminal_has_one_line_per_field(rows: None, monkeypatch: Any) -> None:
    fit = ("fit", "rows.parquet", "-k", "3", "--seed", "0", "-o", "m.parquet", "--stability")
    run(*fit)
    monkeypatch.setenv("COLUMNS", "40")
    out = run("inspect", "m.parquet")[1]
    names = [line.split(":")[0].strip() for line in out.splitlines() if ":" in line]
    known = ["rows", "share", "cost", "score", "jaccard", "center error"]
    assert names[-9:] == ["cluster", *known, "a", "b"]
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 40


def test_rows_with_gaps_are_counted_not_refused(rows: None) -> None:
    Path("gaps.csv").write_text("a,b\n1,2\n,3\n4,\n5,6\n", "utf-8")
    code, out, _ = run("inspect", "gaps.csv")
    assert code == 0
    assert "rows with missing values" in out
    facts = json.loads(run("inspect", "gaps.csv", "--json")[1])
    assert (facts["rows"], facts["rows_with_missing_values"], facts["dropped"]) == (4, 2, 0)
    facts = json.loads(run("inspect", "gaps.csv", "--json", "--missing", "drop")[1])
    assert facts["dropped"] == 2

"""`lwcs fit --stability` and `lwcs inspect`: how large clusters are, and how real."""

from __future__ import annotations

import json
import re
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
    assert "\n2 of 4 clusters are stable (score > 0.85), 2 are not (score < 0.6).\n" in said
    known = lwcs.load("m.parquet").stability_
    code, out, _ = run("inspect", "m.parquet")
    assert code == 0
    table = out[: out.index("No gap between")]
    lines = [line.split("│") for line in table.splitlines() if line.startswith("│")]
    order = np.argsort(-lwcs.load("m.parquet").fitted_on_.shares, kind="stable").tolist()
    assert [int(cells[1]) for cells in lines] == order
    assert [float(cells[6]) for cells in lines] == [round(known.score[j], 2) for j in order]
    ((one, other),) = known.pairs
    assert f"No gap between these clusters, which may be parts of one: {one} and {other}." in out
    words = " ".join(out.split())
    assert "score: the same, where clusters without a gap between them count as one" in words
    assert "center error: how far its center is off by the draws" in words


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
        "rows", "share", "name", "cost", "a", "b",
    ]  # fmt: skip
    assert f"{model.cluster_centers_[0, 1]:.4g}" in out


def cost_shown(out: str) -> str:
    line = next(line for line in out.splitlines() if "cost on all rows" in line)
    return line.split("│")[2].strip()


def test_the_cost_is_the_estimate_of_the_fit_with_its_interval(rows: None) -> None:
    rng = np.random.default_rng(1)
    pq.write_table(pa.table({n: rng.normal(size=100_000) for n in "ab"}), "many.parquet")
    fit = ("fit", "many.parquet", "-k", "3", "--seed", "0", "-o", "m.parquet", "--json")
    found = json.loads(run(*fit)[1])["cost_on_all_rows"]
    assert found["low"] < found["value"] < found["high"]
    assert json.loads(run("inspect", "m.parquet", "--json")[1])["cost_on_all_rows"] == found
    out = run("inspect", "m.parquet")[1]
    words = f"about {found['value']:.6g} ({found['low']:.4g} to {found['high']:.4g})"
    assert cost_shown(out) == words
    assert re.search(r"sampling error +│ 0\.\d+ %", out)


def test_the_cost_has_no_interval_where_all_rows_were_measured(rows: None) -> None:
    fit = ("fit", "rows.parquet", "-k", "3", "--seed", "0", "-o", "m.parquet")
    for more in ((), ("--size", "200", "--cost")):
        run(*fit, *more)
        assert cost_shown(run("inspect", "m.parquet")[1]) == (
            f"{lwcs.load('m.parquet').inertia_:.6g}"
        )
    # Without a referee, nobody knows how much more other rows cost.
    run(*fit, "--size", "200")
    assert "by chance" in cost_shown(run("inspect", "m.parquet")[1])


def test_columns_that_do_not_fit_are_counted(rows: None, monkeypatch: Any) -> None:
    X = np.random.default_rng(0).normal(size=(200, 74))
    names = [f"[b]{j}" for j in range(74)]
    pq.write_table(pa.table(dict(zip(names, X.T, strict=True))), "wide.parquet")
    run("fit", "wide.parquet", "-k", "2", "--seed", "0", "-o", "m.parquet")
    out = run("inspect", "m.parquet")[1]
    assert "[b]0, [b]1," in out
    heading = next(line for line in out.splitlines() if "cluster ┃" in line)
    shown = heading.count("[b]")
    assert 1 <= shown <= 8
    assert f"the first {shown} of the 74 columns of the centers" in " ".join(out.split())
    run("fit", "wide.parquet", "-k", "2", "--seed", "0", "-o", "m.parquet", "--stability")
    monkeypatch.setenv("COLUMNS", "60")
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
    table = out[: out.index("and 3 more")]
    assert sum(line.startswith("│") and "%)" in line for line in table.splitlines()) == 20
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


@pytest.mark.parametrize("width", [40, 60, 100])
def test_inspect_begins_with_the_clusters_and_cuts_none_of_their_columns(
    rows: None, monkeypatch: Any, width: int
) -> None:
    fit = ("fit", "rows.parquet", "-k", "3", "--seed", "0", "-o", "m.parquet", "--stability")
    run(*fit)
    monkeypatch.setenv("COLUMNS", str(width))
    out = run("inspect", "m.parquet")[1].splitlines()
    assert "cluster ┃" in out[1]
    assert max(map(len, out)) <= width
    titles = [each.strip() for line in out if "cluster ┃" in line for each in line.split("┃")]
    known = ["rows", "share", "name", "cost", "score", "jaccard", "center error"]
    assert [each for each in titles if each not in ("", "cluster", "a", "b")] == known
    assert sum("divergence" in line for line in out) == 1


def test_rows_and_shares_are_those_of_one_count(rows: None) -> None:
    """Stability estimates shares by the draws; where all rows are labelled, they are counted."""
    fit = ("fit", "rows.parquet", "-k", "3", "--size", "200", "--cost", "--stability", "--json")
    told = json.loads(run(*fit, "--seed", "0", "-o", "m.parquet")[1])
    for facts in (told, json.loads(run("inspect", "m.parquet", "--json")[1])):
        table = facts["table_of_clusters"]
        shares = np.array(table["rows"]) / 2_100
        np.testing.assert_allclose(table["share"], shares, rtol=1e-12)
        assert table["share_error"] == [0.0] * 3
    assert lwcs.load("m.parquet").stability_.share.tolist() == table["share"]


def test_rows_with_gaps_are_counted_not_refused(rows: None) -> None:
    Path("gaps.csv").write_text("a,b\n1,2\n,3\n4,\n5,6\n", "utf-8")
    code, out, _ = run("inspect", "gaps.csv")
    assert code == 0
    assert "rows with missing values" in out
    facts = json.loads(run("inspect", "gaps.csv", "--json")[1])
    assert (facts["rows"], facts["rows_with_missing_values"], facts["dropped"]) == (4, 2, 0)
    facts = json.loads(run("inspect", "gaps.csv", "--json", "--missing", "drop")[1])
    assert facts["dropped"] == 2

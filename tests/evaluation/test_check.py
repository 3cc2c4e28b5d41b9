"""What check() says of a table is true and takes one pass, and the command that it gives runs."""

from __future__ import annotations

import importlib.util
import json
import shlex
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import lwcs
from lwcs.sources.files.files import FileSource
from tests.cli.running import run
from tests.sources.containers import CONTAINERS, WITH_VECTORS
from tests.versions import ROOT

N = 2_000
RNG = np.random.default_rng(0)
PRICE = RNG.normal(100.0, 20.0, N)
FRAME = pd.DataFrame(
    {
        "user_id": RNG.permutation(N) + 10_000,
        "price": PRICE,
        "price_eur": 0.94 * PRICE,
        "revenue": RNG.lognormal(20.0, 1.0, N),
        "rate": RNG.random(N),
        "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(40.0, 9.0, N)),
        "rarely": np.where(RNG.random(N) < 0.7, np.nan, 1.0 + RNG.random(N)),
        "member": RNG.random(N) < 0.5,
        "one": 1.5,
        "day": pd.date_range("2020-01-01", periods=N),
        "city": RNG.choice(["Bern", "Basel"], N),
        "land": "CH",
        "word": [f"a text with {i % 700} words" for i in range(N)],
        "code": [f"C{i:06}" for i in range(N)],
    }
)
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)
KINDS = {
    "user_id": ("identifiers", "identifiers"),
    "price": ("numbers", None),
    "price_eur": ("numbers", "says the same as 'price'"),
    "revenue": ("numbers", None),
    "rate": ("numbers", None),
    "age": ("numbers", None),
    "rarely": ("numbers", "gaps"),
    "member": ("booleans", "booleans"),
    "one": ("numbers", "constant"),
    "day": ("dates", "dates"),
    "city": ("categories", "categories"),
    "land": ("categories", "constant"),
    "word": ("text", "text"),
    "code": ("identifiers", "identifiers"),
}


@pytest.mark.parametrize(
    "container", [name for name in CONTAINERS if name != "generator of tables"]
)
def test_the_same_table_is_judged_the_same_in_every_container(container, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = lwcs.check(CONTAINERS[container](TABLE, tmp_path))
    assert {each.name: (each.kind, each.why) for each in found.columns} == KINDS
    assert found.features == ("price", "revenue", "rate", "age")
    assert found.n_rows == N
    by_name = {each.name: each for each in found.columns}
    revenue, age = by_name["revenue"], by_name["age"]
    assert revenue.share == pytest.approx(1.0)
    assert (age.gaps, age.low) == pytest.approx((FRAME["age"].isna().mean(), FRAME["age"].min()))
    assert age.deviation == pytest.approx(FRAME["age"].std(ddof=0))
    assert revenue.skew == pytest.approx(FRAME["revenue"].skew(), rel=0.01)
    assert found.options["scale"] == "standard"
    assert found.options["missing"] == "drop"


def test_what_it_advises_fits_without_a_warning():
    found = lwcs.check(FRAME)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(FRAME, **found.options))
    assert tuple(model.feature_names_in_) == found.features
    code = found.code
    assert code.startswith("lwcs.CoresetKMeans(8).fit(lwcs.scan(data, columns=['price', 'revenue'")
    assert len(eval(code, {"lwcs": lwcs, "data": FRAME}).cluster_centers_) == 8


def customers():
    path = ROOT / "docs" / "customers.py"
    spec = importlib.util.spec_from_file_location("customers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.customers()


def test_the_command_that_it_gives_runs_and_finds_the_groups_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = customers().iloc[:12_000]
    table.drop(columns="group").to_csv("customers.csv", index=False)
    code, out, said = run("check", "customers.csv", "-k", "3", "--json")
    assert (code, said) == (0, "")
    program, *words = shlex.split(json.loads(out)["command"])
    assert program == "lwcs"
    code, _, said = run(*words, "--seed", "0")
    assert code == 0
    assert "Warning" not in said
    # Nor does anything have to be typed again, though the file has thousands separators and gaps.
    assert run("assign", "customers.csv", "model.parquet", "-o", "labels.csv")[0] == 0
    labels = pd.read_csv("labels.csv")["label"]
    known = labels.notna()
    assert adjusted_rand_score(table["group"][known], labels[known]) > 0.95


@pytest.mark.parametrize("name", ["a b.csv", "-.csv", "ümlaut'.csv"])
def test_names_are_quoted_for_a_shell(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = FRAME[["price", "code"]].rename(columns={"price": 'a, "b"', "code": "c d"})
    frame.assign(x=RNG.normal(size=N)).to_csv(name, index=False)
    command = lwcs.check(Path("./") / name if name[0] != "-" else f"./{name}").command
    code, _, said = run(*shlex.split(command)[1:])
    assert code == 0, said


def test_it_is_one_pass(tmp_path, monkeypatch):
    TABLE.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    passes = []
    whole = FileSource.batches
    monkeypatch.setattr(FileSource, "batches", lambda self: passes.append(1) or whole(self))
    lwcs.check(tmp_path / "t.csv")
    assert len(passes) == 1
    # A stream can be read only once, and is enough.
    assert lwcs.check(TABLE.to_reader()).n_rows == N


def test_the_sample_does_not_depend_on_how_rows_arrive(tmp_path):
    rows = pa.table({"x": RNG.lognormal(size=40_000), "y": RNG.normal(size=40_000)})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=3_000)
    found = [
        lwcs.check(data).to_dict()["columns"]
        for data in (rows.to_reader(7), rows.to_reader(50_000), tmp_path / "t.parquet")
    ]
    assert [each["skew"] for each in found[0]] == [each["skew"] for each in found[1]]
    assert [each["skew"] for each in found[0]] == [each["skew"] for each in found[2]]
    assert lwcs.check(rows).n_sampled == 5_000
    assert "a sample of 5,000 rows" in str(lwcs.check(rows))
    assert "a sample" not in str(lwcs.check(rows.slice(0, 5_000)))


def test_sums_are_exact_at_any_offset():
    x = 1e9 + RNG.normal(size=200_000)
    (facts,) = lwcs.check(pa.table({"x": x}).to_reader(1_000)).columns
    assert facts.deviation == pytest.approx(x.std(), rel=1e-6)
    assert facts.mean == pytest.approx(x.mean(), rel=1e-15)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, list, "npy", "generator"])
def test_arrays_have_columns_without_names(make, tmp_path):
    rows = np.column_stack([RNG.random(N), 1e9 * RNG.lognormal(size=N), np.zeros(N)])
    if make == "npy":
        np.save(tmp_path / "t.npy", rows)
        data = str(tmp_path / "t.npy")
    elif make == "generator":
        data = (rows[i : i + 100] for i in range(0, N, 100))
    else:
        data = make(rows.tolist() if make is list else rows)
    found = lwcs.check(data)
    assert [each.why for each in found.columns] == [None, None, "constant"]
    assert found.columns[1].share == pytest.approx(1.0)
    assert found.options == {"scale": "standard"}


def test_gaps_of_arrays_are_counted_by_column():
    rows = RNG.normal(size=(N, 2))
    rows[:100, 1] = np.nan
    found = lwcs.check(rows)
    assert [each.gaps for each in found.columns] == pytest.approx([0.0, 0.05])
    assert found.options["missing"] == "drop"


@pytest.mark.parametrize("container", WITH_VECTORS)
def test_vectors_are_looked_at_as_they_are_clustered(container, tmp_path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(RNG.normal(size=4 * N)), 4)
    data = pa.table({"title": ["t"] * N, "nr": np.arange(N), "emb": vectors})
    found = lwcs.check(CONTAINERS[container](data, tmp_path))
    assert found.features == ("emb[0]", "emb[1]", "emb[2]", "emb[3]")
    assert "scale" not in found.options


def test_the_index_and_the_weights_are_no_features(tmp_path):
    FRAME[["price", "rate"]].set_axis(FRAME["user_id"]).assign(w=2.0).to_parquet(tmp_path / "t.pq")
    path = str(tmp_path / "t.parquet")
    (tmp_path / "t.pq").rename(path)
    found = lwcs.check(lwcs.scan(path, weight="w"))
    assert {each.name: each.kind for each in found.columns} == {
        "price": "numbers", "rate": "numbers", "w": "weights", "user_id": "index",
    }  # fmt: skip
    assert found.options == {"weight": "w", "scale": "standard"}
    assert run("check", path, "--weight", "w")[0] == 0


def test_dates_are_used_where_they_are_asked_for(tmp_path):
    frame = FRAME[["price", "day"]].sample(frac=1.0, random_state=0)
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = run("check", str(tmp_path / "t.csv"), "--dates", "days", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["features"] == ["price", "day"]
    assert "--dates days" in found["command"]


def test_a_table_without_a_column_to_cluster_by_says_so():
    found = lwcs.check(FRAME[["one", "user_id"]])
    assert found.features == ()
    assert "There is no column to cluster by." in str(found)
    empty = FRAME[["price"]].assign(nothing=np.nan)
    assert lwcs.check(empty).features == ("price",)
    assert lwcs.check(empty).columns[1].why == "no values"


def test_the_result_is_a_table_and_words():
    found = lwcs.check(FRAME)
    assert repr(found) == "Check(2,000 rows × 14 columns, 4 to cluster)"
    table = pl.DataFrame(found)
    assert table["name"].to_list() == list(KINDS)
    assert found.to_pandas()["why"].notna().sum() == 10
    assert json.loads(json.dumps(found.to_dict()))["features"] == list(found.features)
    assert "Columns that would count twice: 'price_eur' says the same as 'price'." in str(found)
    assert "column 'revenue' has 100 % of all squared distances" in found._repr_html_().replace(
        "&#x27;", "'"
    )
    with pytest.raises(TypeError, match="Check is not a table of rows; pass the data"):
        lwcs.build(found, 10)


def test_a_narrow_terminal_breaks_no_line_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("people.csv", index=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = run("check", "people.csv")[1]
    assert whole == f"{lwcs.check('people.csv')}\n"
    for width in (60, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        out = run("check", "people.csv")[1]
        table = _table(out)
        assert max(map(len, table)) <= width
        # Every cell of the table is there, and each part of it begins with the names.
        cells = {cell for line in table for cell in line.split()}
        assert cells == {cell for line in _table(whole) for cell in line.split()} | {
            cell for cell in cells if set(cell) == {"─"}
        }
        assert sum(line.startswith("price_eur ") for line in table) > 1
        assert out.splitlines()[-1] == whole.splitlines()[-1]


def _table(text):
    return text.split("\n\n", 1)[1].split("Constant", 1)[0].splitlines()


def test_pipes_and_wrong_input(tmp_path):
    text = FRAME[["price", "rate"]].to_csv(index=False).encode()
    code, out, _ = run("check", "-", "--format", "csv", stdin=text)
    assert code == 0
    assert "lwcs.CoresetKMeans(8).fit(lwcs.scan(data, scale='standard'))" in out
    assert run("check", str(tmp_path / "none.csv"))[0] == 1
    assert run("check")[0] == 2
    with pytest.raises(ValueError, match="n_clusters=0"):
        lwcs.check(FRAME, n_clusters=0)


def test_spread_of_sparse_rows_far_from_zero_is_that_of_dense_ones():
    rows = np.random.default_rng(1).normal(size=(N, 2)).astype(np.float32) + np.float32(5_000.0)
    rows[:10, 1] = 0.0
    rows = np.column_stack([rows, np.full(N, np.float32(0.1))])
    dense, sparse = (lwcs.check(make(rows)).columns for make in (np.asarray, sp.csr_array))
    for one, other in zip(dense, sparse, strict=True):
        assert other.mean == pytest.approx(one.mean, rel=1e-6)
        assert other.deviation == pytest.approx(one.deviation, rel=1e-6, abs=1e-12)


def test_one_column_with_gaps_loses_the_rows_that_it_has_gaps_in():
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(20_000, 2)), columns=["a", "b"])
    table.loc[rng.permutation(20_000)[:2_000], "a"] = np.nan
    assert "'a' 10 %; missing='drop' leaves out about 10 % of the rows." in str(lwcs.check(table))

"""summary(): what the clusters of a model are like, as a table and in words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.storage.persistence import KEY, sealed

CENTERS = {"age": (30, 30, 70), "amount": (10, 500, 10)}
SIZES = (200, 300, 100)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {
        name: rng.normal(np.repeat(at, SIZES), 3.0 if name == "age" else 5.0)
        for name, at in CENTERS.items()
    }
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def model(rows: pd.DataFrame) -> lwcs.CoresetKMeans:
    return lwcs.CoresetKMeans(3, random_state=0).fit(lwcs.scan(rows, scale="standard"))


def test_there_is_a_row_per_cluster_and_the_largest_is_first(
    model: lwcs.CoresetKMeans, rows: pd.DataFrame
) -> None:
    table = model.summary().to_arrow().to_pandas()
    assert table["rows"].tolist() == [300, 200, 100]
    assert table["share"].tolist() == pytest.approx([0.5, 1 / 3, 1 / 6])
    labels = model.predict(rows)
    for _, line in table.iterrows():
        own = rows[labels == line["cluster"]]
        assert line["rows"] == len(own)
        for name in CENTERS:
            assert line[name] == pytest.approx(own[name].mean())
            assert line[f"{name}_median"] == np.quantile(own[name], 0.5, method="inverted_cdf")
            assert line[f"{name}_p10"] == np.quantile(own[name], 0.1, method="inverted_cdf")
            assert line[f"{name}_p90"] == np.quantile(own[name], 0.9, method="inverted_cdf")
    assert table["cost"].sum() == pytest.approx(model.inertia_)
    assert table["cost_share"].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(table["spread"] ** 2 * table["rows"], table["cost"])


def test_names_say_what_is_high_and_what_is_low(model: lwcs.CoresetKMeans) -> None:
    table = model.summary().to_arrow().to_pydict()
    assert table["name"] == ["high amount", "low amount", "very high age, low amount"]
    assert table["differs"][0].startswith("amount +1.00 sd, age -0.4")


def test_a_cluster_at_the_mean_is_about_average_and_another_column_distinguishes_names() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0, 0], [9, 9, 9], [9, 9, -9], [-9, -9, -9], [-9, -9, 9]], dtype=float)
    X = np.repeat(centers, 100, axis=0) + rng.normal(0.0, 0.01, (500, 3)) * [1, 2, 3]
    start = {"init": centers, "n_init": 1}
    names = lwcs.CoresetKMeans(5, random_state=0, **start).fit(X).summary().names
    assert names[0] == "about average"
    assert len(set(names)) == 5


def test_the_nearest_cluster_is_named_with_its_distance(model: lwcs.CoresetKMeans) -> None:
    table = model.summary().to_arrow().to_pandas().set_index("cluster")
    centers = model.cluster_centers_ / model.scale_
    for cluster, line in table.iterrows():
        apart = np.linalg.norm(centers - centers[cluster], axis=1)
        apart[cluster] = np.inf
        assert line["nearest"] == apart.argmin()
        assert line["distance_to_nearest"] == pytest.approx(apart.min())


@pytest.mark.parametrize("kind", ["kmeans", "mixture", "scaled", "draws", "weights"])
def test_a_file_keeps_the_summary(kind: str, rows: pd.DataFrame, tmp_path: Any) -> None:
    weights = np.linspace(1.0, 3.0, len(rows)) if kind == "weights" else None
    made: Any = lwcs.CoresetMixture if kind == "mixture" else lwcs.CoresetKMeans
    size = {"coreset_size": 150} if kind == "draws" else {}
    data = lwcs.scan(rows, scale="standard") if kind == "scaled" else rows
    model = made(3, random_state=0, **size).fit(data, sample_weight=weights)
    model.save(tmp_path / "m.parquet")
    loaded = lwcs.load(tmp_path / "m.parquet")
    assert loaded.summary().to_arrow() == model.summary().to_arrow()
    assert str(loaded.summary()) == str(model.summary())
    loaded.save(tmp_path / "again.parquet")
    again = lwcs.load(tmp_path / "again.parquet")
    assert again.summary().to_arrow() == model.summary().to_arrow()
    size_of = "weight" if kind == "weights" else "rows"
    assert model.summary().to_arrow().column_names[2] == size_of


def test_a_further_fit_forgets_what_the_file_said(rows: pd.DataFrame, tmp_path: Any) -> None:
    lwcs.CoresetKMeans(3, random_state=0).fit(rows).save(tmp_path / "m.parquet")
    loaded = lwcs.load(tmp_path / "m.parquet").fit(rows[["age"]])
    assert "amount" not in loaded.summary().to_arrow().column_names


def changed(model: Any, change: Any) -> Any:
    """The model from its table, with other metadata."""
    table = model.to_arrow()
    metadata = json.loads(table.schema.metadata[KEY])
    change(metadata)
    return type(model).from_arrow(sealed(table, metadata))


def test_a_file_of_an_earlier_version_asks_for_a_coreset(
    model: lwcs.CoresetKMeans, rows: pd.DataFrame
) -> None:
    old = changed(model, lambda metadata: metadata.pop("row_facts"))
    with pytest.raises(
        ValueError, match=r"pass a coreset of the rows: model\.summary\(lwcs\.build"
    ):
        old.summary()
    found = old.summary(lwcs.build(rows, 5_000, method="uniform", random_state=0)).to_arrow()
    assert found["rows"].to_pylist() == pytest.approx([300, 200, 100], rel=0.1)
    with pytest.raises(TypeError, match="coreset is a DataFrame, not a Coreset"):
        old.summary(rows)
    with pytest.raises(ValueError, match="features"):
        old.summary(lwcs.build(rows[["age"]], 100, random_state=0))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("columns", [1, 0]), ("columns", [0, 2]), ("columns", [0.0, 0.5]), ("n_columns", 0),
        ("mean", [0.0]), ("deviation", [-1.0, 1.0]), ("spread", None), ("quantiles", [1.0] * 17),
    ],
)  # fmt: skip
def test_damaged_facts_are_refused(model: lwcs.CoresetKMeans, field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"row_facts.{field}"):
        changed(model, lambda metadata: metadata["row_facts"].update({field: value}))


def test_columns_of_the_data_may_have_any_names() -> None:
    values = np.random.default_rng(0).random((6, 2))
    X = pd.DataFrame(values, columns=["rows", "rows_median"])
    table = lwcs.CoresetKMeans(2, random_state=0).fit(X).summary().to_arrow()
    assert len(set(table.column_names)) == len(table.column_names)
    assert {"rows", "rows_", "rows_median", "rows_median_"} <= set(table.column_names)


def test_of_many_columns_the_telling_ones_have_medians() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 130))
    X[:150, 120] += 20.0
    table = lwcs.CoresetKMeans(2, random_state=0).fit(X).summary().to_arrow()
    medians = [name for name in table.column_names if name.endswith("_median")]
    assert len(medians) == 100
    assert "column 120_median" in medians


def test_sparse_rows_have_the_summary_of_dense_ones() -> None:
    X = np.random.default_rng(0).poisson(0.5, (300, 20)).astype(float)
    start = X[:3].copy()
    dense, sparse = (
        lwcs.CoresetKMeans(3, init=start, n_init=1, random_state=0).fit(each).summary()
        for each in (X, sp.csr_array(X))
    )
    one, other = dense.to_arrow().to_pandas(), sparse.to_arrow().to_pandas()
    pd.testing.assert_frame_equal(one, other, rtol=1e-9)


def test_medians_of_directions_are_those_of_rows_of_unit_length() -> None:
    X = np.abs(np.random.default_rng(0).normal(size=(400, 3))) * 50.0
    model = lwcs.CoresetKMeans(2, divergence="cosine", random_state=0).fit(X)
    table = model.summary().to_arrow().to_pandas()
    assert table["column 0_p90"].max() <= 1.0


def test_text_shows_the_largest_clusters_within_80_columns() -> None:
    X = np.random.default_rng(0).normal(size=(2_000, 6)) * 1e7
    names = [f"a very long name of a column, number {j}" for j in range(6)]
    text = str(lwcs.CoresetKMeans(23, random_state=0).fit(pd.DataFrame(X, columns=names)).summary())
    assert text.count("cluster ") >= 20
    assert "and 3 more, which are no larger" in text
    assert max(map(len, text.splitlines())) <= 80


def test_libraries_take_it_as_a_table_and_notebooks_show_it(model: lwcs.CoresetKMeans) -> None:
    summary = model.summary()
    assert pa.table(summary) == summary.to_arrow()
    assert repr(summary) == "<ClusterSummary of 3 clusters>"
    assert len(summary) == 3
    assert summary._repr_html_().count("<tr>") == 4
    with pytest.raises(TypeError, match="a ClusterSummary is not a table of rows"):
        lwcs.build(summary, 10)


def test_components_of_a_mixture_are_called_so(rows: pd.DataFrame) -> None:
    summary = lwcs.CoresetMixture(3, random_state=0).fit(rows).summary()
    assert summary.to_arrow().column_names[0] == "component"
    assert str(summary).startswith("3 components of 600 rows, the largest first")
    assert summary.to_arrow()["cost"].null_count == 3


def test_one_cluster_has_no_neighbour(rows: pd.DataFrame) -> None:
    summary = lwcs.CoresetKMeans(1, random_state=0).fit(rows).summary()
    assert "nearest:" not in str(summary)
    assert summary.to_arrow()["distance_to_nearest"].null_count == 1


def test_a_path_has_no_labels_and_the_error_names_the_ways(
    rows: pd.DataFrame, tmp_path: Any
) -> None:
    rows.to_parquet(tmp_path / "rows.parquet")
    model = lwcs.CoresetKMeans(3, random_state=0).fit(str(tmp_path / "rows.parquet"))
    with pytest.raises(AttributeError, match=r"predict\(X\).*`lwcs assign`.*fit on an array"):
        _ = model.labels_

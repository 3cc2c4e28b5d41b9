"""Tables of the report: the order of clusters, centers in units of the data, typical rows."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import lwcs
from lwcs.description import describe
from lwcs.description.projection import colour_limit
from lwcs.reporting.cluster_table import centers_of, table_of, typical_of
from lwcs.reporting.figures import Profiles, of_sizes, themes

SIZES = (100, 400, 200, 300)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    means = np.array([[0, 0, 0], [500, 0, 0], [0, 900, 0], [500, 900, 0]], dtype=float)
    X = np.repeat(means, SIZES, axis=0) + rng.normal(0.0, (0.1, 20.0, 0.1), (1_000, 3))
    frame = pd.DataFrame(X, columns=["age", "amount", "noise"])
    return lwcs.CoresetKMeans(4, init=means, n_init=1, random_state=0).fit(frame)


def test_clusters_are_ordered_by_size_in_tables_and_figures(model):
    found = describe(model)
    order = [1, 3, 2, 0]
    assert found.by_size.tolist() == order
    assert [row.number for row in table_of(found, themes(4)).rows] == order
    assert Profiles.of(found).clusters.tolist() == order
    assert of_sizes(found).top.tolist() == sorted(SIZES, reverse=True)
    assert [each.number for each in typical_of(found)] == order
    shown = lwcs.ClusterMapDisplay.from_model(model)
    legend = [text.get_text().split()[0] for text in shown.ax_.get_legend().get_texts()]
    assert legend == [str(each) for each in order]
    columns = lwcs.ProfileDisplay.from_model(model).ax_.get_xticklabels()
    assert [label.get_text().split("\n")[0] for label in columns] == legend


def test_centers_are_in_units_of_the_data_with_medians_and_ranges(model):
    found, rows = describe(model), model.coreset_.points
    profiles = Profiles.of(found)
    [amount] = [row for row in centers_of(found, profiles) if row.name == "amount"]
    center, median, ends = amount.cells[profiles.clusters.tolist().index(3)]
    own = rows[model.labels_ == 3, 1]
    assert float(center) == pytest.approx(own.mean(), abs=0.6)
    assert float(median) == pytest.approx(np.median(own), abs=0.6)
    assert list(map(float, ends.split(" – "))) == pytest.approx(
        np.quantile(own, [0.1, 0.9]), abs=0.6
    )


def names_of(model):
    return list(model.feature_names_in_)


def test_typical_rows_are_the_nearest_ones_of_the_coreset(model):
    found, rows = describe(model), pd.DataFrame(model.coreset_.points, columns=names_of(model))
    exact = lwcs.exemplars(model, rows, 3)
    for each in typical_of(found):
        at = (exact.cluster == each.number) & (np.array(exact.kind) == "nearest")
        assert [row.row for row in each.rows] == [f"{row:,}" for row in exact.row[at]]
        names = [name for name, _ in each.rows[0].values]
        assert names == [column.name for column in found.telling(each.number, 3)]


def test_typical_rows_of_a_mixture_are_those_of_the_highest_density():
    X = np.random.default_rng(0).normal(np.repeat([[0.0], [9.0]], 300, axis=0), 1.0, (600, 2))
    mixture = lwcs.CoresetMixture(2, random_state=0).fit(X)
    exact = lwcs.exemplars(mixture, mixture.coreset_.points, 3)
    for each in typical_of(describe(mixture)):
        at = (exact.cluster == each.number) & (np.array(exact.kind) == "nearest")
        assert [row.row for row in each.rows] == [f"{row:,}" for row in exact.row[at]]


def test_the_page_has_names_centers_and_typical_rows(model, tmp_path):
    lwcs.report(model, tmp_path / "r.html")
    text = re.sub(r"<[^>]+>", " ", (tmp_path / "r.html").read_text("utf-8").split("<script")[0])
    words = " ".join(text.split())
    for name in model.summary().names:
        assert name in words
    assert "Centers in the units of the data" in words
    assert "The 3 rows of the coreset that are nearest to the center of each cluster" in words
    assert re.search(r"\d away", words)


def test_one_cluster_far_away_does_not_leave_the_others_pale():
    values = np.array([[0.5, -0.6, 0.7, -1.2, 40.0], [0.1, 0.2, 0.9, 0.1, 0.1]])
    assert colour_limit(values) == 1.2
    assert colour_limit(np.array([[1.0, 2.0, -2.5]])) == 2.5
    assert colour_limit(np.zeros((2, 3))) == 1.0
    assert colour_limit(np.array([[np.inf, 2.0, 2.0]])) == 2.0


def test_the_text_says_where_the_colours_end():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 0.1, (n, 2)) for c, n in ((0, 800), (1, 700), (2, 600))])
    X = np.vstack([X, rng.normal(400.0, 0.1, (3, 2))])
    found = describe(lwcs.CoresetKMeans(4, random_state=0).fit(X))
    words = Profiles.of(found).words(found)
    assert "The strongest colour is ±1 standard deviations; larger differences, up to" in words
    assert "so that a cluster far from all others does not make them look alike" in words
    shown = lwcs.ProfileDisplay.from_model(lwcs.CoresetKMeans(4, random_state=0).fit(X))
    assert shown.im_.get_clim() == (-1.0, 1.0)

"""ClusterMapDisplay: every point in the colour of its cluster, as large as its weight."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.colors import to_hex

import lwcs
from lwcs.description.projection import cluster_colours
from lwcs.runtime.formatting import percent
from tests.plotting.models import ODD, blobs, many, model


def test_points_have_the_colours_of_their_clusters():
    own = model(2)
    display = lwcs.ClusterMapDisplay.from_model(own)
    places, colours = display.points_.get_offsets().data, display.points_.get_facecolors()
    expected = cluster_colours(3)
    labels = own.predict(np.asarray(places))
    assert [to_hex(colour) for colour in colours] == [expected[label].lower() for label in labels]
    assert len(places) == len(own.coreset_)


def test_the_area_of_a_point_is_its_weight():
    own = lwcs.CoresetKMeans(3, random_state=0)
    coreset = lwcs.Coreset.from_arrays(blobs(2, n=5), np.arange(1.0, 31.0))
    display = lwcs.ClusterMapDisplay.from_model(own.fit(coreset))
    # The largest are drawn first, so that they hide nothing.
    sizes = display.points_.get_sizes()
    np.testing.assert_allclose(sizes / sizes[0], np.arange(30.0, 0.0, -1.0) / 30.0)


def test_numbers_are_at_the_centers_and_shares_in_the_legend():
    own = model(2)
    display = lwcs.ClusterMapDisplay.from_model(own)
    for cluster, text in enumerate(display.text_):
        assert text.get_text() == str(cluster)
        np.testing.assert_allclose(text.get_position(), own.cluster_centers_[cluster])
    shown = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(text.split("   ")[1] for text in shown) == [
        percent(1 / 6),
        percent(1 / 3),
        percent(0.5),
    ]
    assert display.ax_.get_title() == "3 clusters of 1,800 rows"


@pytest.mark.parametrize("d", [1, 2, 3, 784])
def test_any_number_of_columns(d):
    display = lwcs.ClusterMapDisplay.from_model(model(d))
    display.figure_.draw_without_rendering()
    assert len(display.text_) == 3
    expected = {1: "column 0", 2: "column 0"}.get(d, "first principal component")
    assert display.ax_.get_xlabel().startswith(expected)
    assert bool(display.ax_.get_yticks().size) == (d > 1)


def test_one_cluster():
    display = lwcs.ClusterMapDisplay.from_model(model(2, 1))
    assert display.ax_.get_title() == "1 cluster of 300 rows"
    assert display.ax_.get_legend() is None


def test_numbers_of_many_clusters_do_not_touch():
    own = many()
    display = lwcs.ClusterMapDisplay.from_model(own)
    display.figure_.draw_without_rendering()
    assert 10 < len(display.text_) <= 30
    assert f"{len(display.text_)} of them numbered" in display.ax_.get_title()
    boxes = [text.get_window_extent() for text in display.text_]
    for number, box in enumerate(boxes):
        assert box.count_overlaps(boxes[:number]) == 0


def test_far_rows_are_left_out_with_a_word():
    X = np.vstack([np.random.default_rng(0).normal(size=(2_000, 2)), [[1e5, 0.0]]])
    display = lwcs.ClusterMapDisplay.from_model(lwcs.CoresetKMeans(2, random_state=0).fit(X))
    assert display.ax_.get_xlim()[1] < 100
    texts = [text.get_text() for text in display.ax_.texts]
    assert f"{percent(13 / 2_001)} of the weight is outside, with center 1" in texts


def test_the_view_has_the_centers_of_small_clusters():
    X = np.vstack([np.random.default_rng(0).normal(size=(3_000, 2)), np.full((28, 2), 7.0)])
    display = lwcs.ClusterMapDisplay.from_model(lwcs.CoresetKMeans(2, random_state=0).fit(X))
    assert [text.get_text() for text in display.text_] == ["0", "1"]
    assert display.ax_.get_xlim()[1] > 7.0


@pytest.mark.parametrize("name", ODD)
def test_names_of_columns_are_shown_as_they_are(name):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(blobs(2), columns=[name, "other"])
    display = lwcs.ClusterMapDisplay.from_model(lwcs.CoresetKMeans(3, random_state=0).fit(X))
    display.figure_.draw_without_rendering()
    shown = display.ax_.get_xlabel().replace("\\$", "$")
    assert shown == name.replace("\N{FOX FACE}", "□").replace("\n", " ")


def test_mixtures_divergences_and_sparse_rows():
    mixture = lwcs.CoresetMixture(2, random_state=0).fit(blobs(3, 2))
    title = lwcs.ClusterMapDisplay.from_model(mixture).ax_.get_title()
    assert title == "2 components of 900 rows"
    counts = sp.csr_array(np.random.default_rng(0).poisson(0.5, size=(500, 40)).astype(float))
    kl = lwcs.CoresetKMeans(3, divergence="kl", random_state=0).fit(counts)
    assert len(lwcs.ClusterMapDisplay.from_model(kl).points_.get_offsets()) == 500


def test_a_loaded_model_needs_a_coreset(tmp_path):
    path, X = tmp_path / "model.parquet", blobs(2)
    lwcs.CoresetKMeans(3, random_state=0).fit(X).save(path)
    with pytest.raises(ValueError, match=r"pass one: coreset=lwcs\.build"):
        lwcs.ClusterMapDisplay.from_model(lwcs.load(path))
    display = lwcs.ClusterMapDisplay.from_model(lwcs.load(path), lwcs.build(X, 100, random_state=0))
    assert len(display.points_.get_offsets()) <= 100

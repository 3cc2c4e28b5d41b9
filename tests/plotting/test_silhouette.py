"""SilhouetteDisplay: heights are weights, values are silhouettes, the line is their mean."""

from __future__ import annotations

import numpy as np
import pytest

import lwcs
from lwcs.description import describe
from lwcs.runtime.formatting import percent
from tests.plotting.models import blobs, many, model


def test_blocks_are_as_high_as_the_weight_of_their_clusters():
    own = model(2)
    display = lwcs.SilhouetteDisplay.from_model(own)
    heights = [_extent(block, 1) for block in display.ax_.collections]
    np.testing.assert_allclose(heights, [1 / 2, 1 / 3, 1 / 6], rtol=1e-9)


def test_values_and_means_are_weighted():
    coreset = lwcs.Coreset.from_arrays([[0.0], [1.0], [10.0], [13.0]], [1.0, 3.0, 1.0, 1.0])
    own = lwcs.CoresetKMeans(2, random_state=0).fit(coreset)
    display = lwcs.SilhouetteDisplay.from_model(own)
    # Centers at 0.75 and 11.5: a row of weight 3 counts as three.
    each = 1.0 - np.array([0.75 / 11.5, 0.25 / 10.5, 1.5 / 9.25, 1.5 / 12.25])
    assert display.mean_ == pytest.approx((each @ [1.0, 3.0, 1.0, 1.0]) / 6.0)
    expected = sorted([(each[0] + 3 * each[1]) / 4, (each[2] + each[3]) / 2])
    np.testing.assert_allclose(np.sort(display.cluster_means_), expected)
    lines = [line.get_xdata()[0] for line in display.ax_.lines]
    assert display.mean_ in lines
    right = max(block.get_paths()[0].vertices[:, 0].max() for block in display.ax_.collections)
    assert right == pytest.approx(each.max())


def test_the_mean_is_that_of_choose_k():
    X = blobs(2)
    choice = lwcs.choose_k(X, [3], random_state=0)
    display = lwcs.SilhouetteDisplay.from_model(choice.model())
    assert display.mean_ == pytest.approx(choice.rows[0].silhouette, abs=1e-6)


def test_labels_have_the_shares_and_do_not_touch():
    display = lwcs.SilhouetteDisplay.from_model(model(2, 12, n_init=1))
    display.figure_.draw_without_rendering()
    labels = [label for label in display.ax_.get_yticklabels() if label.get_text()]
    assert labels[0].get_text().endswith(f"   {percent(0.1538)}")
    boxes = [label.get_window_extent() for label in labels]
    for number, box in enumerate(boxes):
        assert box.count_overlaps(boxes[:number]) == 0


def test_one_cluster_has_no_silhouette():
    with pytest.raises(ValueError, match="this model has one cluster"):
        lwcs.SilhouetteDisplay.from_model(model(2, 1))


@pytest.mark.parametrize("d", [1, 3, 784])
def test_any_number_of_columns(d):
    display = lwcs.SilhouetteDisplay.from_model(model(d))
    assert 0.5 < display.mean_ < 1.0
    assert "simplified" in display.ax_.get_xlabel()


def test_many_clusters_are_cut_with_a_word():
    own = many()
    display = lwcs.SilhouetteDisplay.from_model(own, clusters=25)
    assert len(display.ax_.collections) == 25
    assert display.ax_.get_title().endswith("the 25 largest of 500 clusters")
    # The mean is that of all clusters.
    found = describe(own)
    assert display.mean_ == pytest.approx(float(np.mean(found.silhouette)))
    with pytest.raises(ValueError, match="clusters=0 is too small"):
        lwcs.SilhouetteDisplay.from_model(own, clusters=0)


def test_mixtures_and_divergences():
    mixture = lwcs.CoresetMixture(2, random_state=0).fit(blobs(2, 2))
    display = lwcs.SilhouetteDisplay.from_model(mixture)
    assert display.ax_.get_ylabel() == "component and its share"
    assert display.mean_ > 0.7
    kl = lwcs.CoresetKMeans(3, divergence="kl", random_state=0).fit(np.abs(blobs(2)) + 0.1)
    assert 0.0 < lwcs.SilhouetteDisplay.from_model(kl).mean_ < 1.0


def _extent(block: object, axis: int) -> float:
    values = block.get_paths()[0].vertices[:, axis]
    return float(values.max() - values.min())

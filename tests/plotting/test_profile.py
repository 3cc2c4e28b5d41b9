"""ProfileDisplay: centers against the overall mean, telling columns and large clusters first."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lwcs
from lwcs.runtime.formatting import percent
from tests.plotting.models import ODD, blobs, many, model


@pytest.fixture(scope="module")
def named() -> lwcs.CoresetKMeans:
    """Three clusters that column b tells apart best; cluster sizes 300, 600, 900."""
    X = blobs(3)
    frame = pd.DataFrame({"a": X[:, 0] * 0.0 + 5.0, "b": X[:, 1], "c": X[:, 2] % 7.0})
    return lwcs.CoresetKMeans(3, random_state=0).fit(frame)


def test_cells_are_standard_deviations_from_the_mean(named):
    display = lwcs.ProfileDisplay.from_model(named)
    X = blobs(3)[:, 1]
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names[0] == "b"
    assert names[-1] == "a"
    order = np.argsort(-np.bincount(named.labels_))
    expected = (named.cluster_centers_[order, 1] - X.mean()) / X.std()
    np.testing.assert_allclose(display.im_.get_array()[0], expected, rtol=1e-6)
    assert (display.im_.get_array()[-1] == 0.0).all()
    assert [text.get_text() for text in display.text_[-3:]] == ["0", "0", "0"]


def test_the_largest_clusters_come_first(named):
    display = lwcs.ProfileDisplay.from_model(named)
    labels = [label.get_text() for label in display.ax_.get_xticklabels()]
    order = np.argsort(-np.bincount(named.labels_))
    assert labels == [
        f"{c}\n{percent(s)}" for c, s in zip(order, (1 / 2, 1 / 3, 1 / 6), strict=True)
    ]


def test_features_and_clusters_can_be_chosen(named):
    display = lwcs.ProfileDisplay.from_model(named, features=["c", "a"], clusters=[2])
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["c", "a"]
    assert display.im_.get_array().shape == (2, 1)
    assert display.ax_.get_title() == "2 of 3 columns, 1 of 3 clusters"
    assert lwcs.ProfileDisplay.from_model(named, features="c").columns == [2]
    assert lwcs.ProfileDisplay.from_model(named, features=[1]).columns == [1]


def test_wrong_choices_are_answered(named):
    with pytest.raises(ValueError, match="features='bb' is not one of 'b', 'c', 'a'; did you mean"):
        lwcs.ProfileDisplay.from_model(named, features=["bb"])
    with pytest.raises(ValueError, match="clusters=3 is too large; pass clusters <= 2"):
        lwcs.ProfileDisplay.from_model(named, clusters=[3])
    with pytest.raises(ValueError, match="features=0 is too small"):
        lwcs.ProfileDisplay.from_model(named, features=0)
    with pytest.raises(ValueError, match="clusters is empty"):
        lwcs.ProfileDisplay.from_model(named, clusters=[])
    with pytest.raises(TypeError, match=r"features=1\.5 is not allowed; pass a number or a list"):
        lwcs.ProfileDisplay.from_model(named, features=1.5)


@pytest.mark.parametrize("d", [1, 2, 3, 784])
def test_wide_tables_are_cut_with_a_word(d):
    display = lwcs.ProfileDisplay.from_model(model(d))
    assert display.im_.get_array().shape == (min(d, 20), 3)
    start = "20 of 784 columns" if d == 784 else f"{d} column{'s' * (d > 1)}"
    assert display.ax_.get_title() == f"{start}, 3 clusters"


def test_many_clusters_are_cut_with_a_word():
    own = many()
    display = lwcs.ProfileDisplay.from_model(own)
    assert display.ax_.get_title() == "3 columns, 20 of 500 clusters"
    sizes = np.bincount(own.labels_, minlength=500)
    assert sizes[display.clusters].tolist() == sorted(sizes, reverse=True)[:20]
    assert not display.text_


def test_names_are_shown_as_they_are():
    X = pd.DataFrame(blobs(len(ODD)), columns=list(ODD))
    display = lwcs.ProfileDisplay.from_model(lwcs.CoresetKMeans(3, random_state=0).fit(X))
    display.figure_.draw_without_rendering()
    shown = {label.get_text().replace("\\$", "$") for label in display.ax_.get_yticklabels()}
    assert shown == {each.replace("\N{FOX FACE}", "□").replace("\n", " ") for each in ODD}


def test_mixtures_show_their_means():
    own = lwcs.CoresetMixture(2, random_state=0).fit(blobs(2, 2))
    display = lwcs.ProfileDisplay.from_model(own)
    X = blobs(2, 2)[:, 0]
    order = np.argsort(-own.weights_)
    expected = (own.means_[order, 0] - X.mean()) / X.std()
    row = display.columns.index(0)
    np.testing.assert_allclose(display.im_.get_array()[row], expected, rtol=1e-6)

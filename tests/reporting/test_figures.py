"""The figures of the report: what their parts are called, and which colours they have."""

from __future__ import annotations

import numpy as np
import pytest
from bokeh.models import HoverTool
from matplotlib.colors import to_hex

import lwcs
from lwcs.description import describe
from lwcs.reporting.figures import Profiles, histogram_figure, of_sizes, profile_figure, themes
from lwcs.reporting.map_figure import MapPoints, map_figure


@pytest.mark.parametrize("k", [4, 12])
def test_a_cluster_has_the_colour_that_it_has_in_figures(k):
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = lwcs.CoresetKMeans(k, random_state=0).fit(X)
    drawn = lwcs.ClusterMapDisplay.from_model(model).text_
    edges = [to_hex(each.get_bbox_patch().get_edgecolor()[:3]) for each in drawn]
    own = themes(k)["light"].clusters
    assert edges == [own[int(each.get_text())].lower() for each in drawn]


def test_components_of_a_mixture_are_called_so_everywhere():
    X = np.random.default_rng(0).normal(size=(300, 2))
    found = describe(lwcs.CoresetMixture(45, random_state=0).fit(X))
    assert "the 40 largest of 45 components" in Profiles.of(found).words(found)
    few = describe(lwcs.CoresetMixture(2, random_state=0).fit(X))
    light = themes(few.k)["light"]
    made = [
        map_figure(few, MapPoints.of_description(few), light),
        profile_figure(few, Profiles.of(few), light),
        histogram_figure(few, of_sizes(few), light),
    ]
    for figure in made:
        names = [name for name, _ in figure.select_one(HoverTool).tooltips]
        assert "component" in names
        assert "cluster" not in names

"""The look that figures share: colours that are told apart, names and ticks that can be read."""

from __future__ import annotations

from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

import lwcs
from lwcs.description.projection import DISTINCT, cluster_colours
from lwcs.plotting.style import name_text, number_tick, thinned
from lwcs.runtime.formatting import plain_percent
from tests.plotting.models import model

# What colours look like to those who lack one kind of cone (Machado et al. 2009).
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("vision", VISION)
def test_ten_clusters_are_told_apart_by_all_kinds_of_vision(vision, dark):
    colours = cluster_colours(10, dark=dark)
    seen = [_oklab(VISION[vision] @ _linear(colour)) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 0.07


@pytest.mark.parametrize("dark", [False, True])
def test_many_clusters_have_colours_of_their_own(dark):
    found = cluster_colours(500, dark=dark)
    assert len(set(found)) == 500
    seen = [_oklab(_linear(colour)) for colour in found]
    assert min(np.linalg.norm(a - b) for a, b in pairwise(seen)) > 0.15
    assert cluster_colours(3) == list(DISTINCT[:3])


@pytest.mark.parametrize("k", [10, 500])
def test_colours_are_seen_on_a_dark_page(k):
    page = _luminance("#14171b")
    contrasts = [
        (_luminance(each) + 0.05) / (page + 0.05) for each in cluster_colours(k, dark=True)
    ]
    assert min(contrasts) > 3.0


def test_many_colours_are_seen_on_a_white_page():
    assert max(map(_luminance, cluster_colours(500))) < 1.05 / 2.7 - 0.05


def test_names_are_shown_as_they_are():
    assert name_text("price $") == r"price \$"
    assert name_text("$x$") == r"\$x\$"
    assert name_text("a\n\tb\x00") == "a b"
    assert name_text("\N{FOX FACE} fur") == "□ fur"
    assert name_text("עברית") == "עברית"
    assert name_text("Horizontal_Distance_To_Hydrology") == "Horizontal_Distanc…Hydrology"
    assert len(name_text("x" * 500)) == 28


def test_numbers_at_ticks_are_short():
    assert [plain_percent(x) for x in (0.0012, 0.5, 12.0)] == ["0.12 %", "50 %", "1,200 %"]
    assert [number_tick(x) for x in (0, -0.5, 12_345, 3.2e11)] == ["0", "−0.5", "12,345", "3.2e11"]


def test_the_ends_of_an_axis_keep_their_labels():
    assert thinned([1, 2, 2.5, 90, 100]) == [1, 2.5, 100]
    assert thinned([5]) == [5]


def test_figures_look_the_same_in_any_style_and_stay_open():
    with plt.style.context("dark_background"):
        display = lwcs.SilhouetteDisplay.from_model(model(2))
        assert display.figure_.get_facecolor()[:3] == (1.0, 1.0, 1.0)
    assert plt.fignum_exists(display.figure_.number)
    assert not display.ax_.spines["top"].get_visible()
    assert {label.get_fontsize() for label in display.ax_.get_xticklabels()} == {8.5}


@pytest.mark.parametrize("name", ["ClusterMapDisplay", "ProfileDisplay", "SilhouetteDisplay"])
def test_figures_are_drawn_in_given_axes(name):
    figure, axes = plt.subplots(1, 2)
    display = getattr(lwcs, name).from_model(model(2), ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert axes[1].get_title()
    assert not axes[0].has_data()
    with pytest.raises(TypeError, match="ax is a list, not matplotlib Axes"):
        display.plot(ax=[1])


def _luminance(colour: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ _linear(colour))


def _linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255.0
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _oklab(linear: np.ndarray) -> np.ndarray:
    """Coordinates in which distances are differences that people see."""
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    opponents = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return opponents @ np.cbrt(cones @ np.clip(linear, 0.0, 1.0))

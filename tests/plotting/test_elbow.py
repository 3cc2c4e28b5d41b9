"""ElbowDisplay: cost with its interval, the indices below, the recommendation marked."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import lwcs
from tests.evaluation.mixtures import separated


@pytest.fixture(scope="module")
def choice() -> lwcs.KChoice:
    X = separated(5_000, 2, 3, seed=0)
    return lwcs.choose_k(X, range(2, 7), size=2_000, n_bootstrap=2, random_state=0)


def test_curves_and_the_recommended_k(choice):
    display = lwcs.ElbowDisplay.from_choice(choice)
    top, below = display.axes_
    assert top.get_title() == "recommended: k = 3, in 100 % of resamples"
    cost = next(line for line in top.lines if len(line.get_xdata()) == 5)
    assert list(cost.get_xdata()) == [2, 3, 4, 5, 6]
    assert list(cost.get_ydata()) == [row.cost.value for row in choice.rows]
    for ax in (top, below):
        assert any(list(line.get_xdata()) == [3, 3] for line in ax.lines)
    shown = {text.get_text() for text in below.get_legend().get_texts()}
    assert shown == {"silhouette", "stability", "all told apart", "chosen in resamples"}
    assert [bar.get_height() for bar in below.patches] == [row.chosen for row in choice.rows]


def test_the_band_is_the_interval(choice):
    (band,) = lwcs.ElbowDisplay.from_choice(choice).axes_[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(min(row.cost.low for row in choice.rows))
    assert heights.max() == pytest.approx(max(row.cost.high for row in choice.rows))


def test_no_structure_is_said_in_the_title():
    X = np.random.default_rng(0).uniform(size=(2_000, 2))
    display = lwcs.ElbowDisplay.from_choice(lwcs.choose_k(X, [2, 3], random_state=0))
    assert display.axes_[0].get_title() == "no structure"


def test_mixtures_show_bic():
    X = separated(1_000, 2, 2, seed=0)
    choice = lwcs.choose_k(X, [1, 2, 3], model="mixture", random_state=0)
    top, below = lwcs.ElbowDisplay.from_choice(choice).axes_
    assert "log-likelihood" in top.get_ylabel()
    assert "BIC" in below.get_ylabel()
    assert list(below.lines[0].get_ydata()) == [row.bic for row in choice.rows]


def test_the_same_choice_gives_the_same_file(choice, tmp_path):
    paths = [tmp_path / f"{name}.svg" for name in "ab"]
    for path in paths:
        lwcs.ElbowDisplay.from_choice(choice).save(path)
    one, other = (path.read_bytes() for path in paths)
    assert one.startswith(b"<?xml")
    assert one == other


def test_something_else_is_refused():
    with pytest.raises(TypeError, match=r"pass the result of lwcs\.choose_k"):
        lwcs.ElbowDisplay.from_choice([1, 2])


def test_without_matplotlib_the_error_names_the_extra(choice, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'lwcs\[plot\]'"):
        lwcs.ElbowDisplay.from_choice(choice)


def test_a_figure_with_another_ending_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 1, (300, 2)) for c in (0, 9)])
    display = lwcs.ElbowDisplay.from_choice(lwcs.choose_k(X, range(2, 4), random_state=0))
    with pytest.raises(ValueError, match=r"a\.xyz' does not end like a figure; .*\.png, \.svg or"):
        display.save(tmp_path / "a.xyz")
    assert not list(tmp_path.iterdir())

"""CompareDisplay: one panel a data set and k, every method in it, files as their endings say."""

from __future__ import annotations

import builtins
from itertools import pairwise

import numpy as np
import pytest

import lwcs
from lwcs.plotting.style import log_ticks
from lwcs.runtime.formatting import seconds


@pytest.fixture(scope="module")
def result() -> lwcs.CompareResult:
    X = np.random.default_rng(0).standard_t(3, size=(2_000, 4)).astype(np.float32)
    options = {"sizes": [50, 200], "repeats": 2, "full_repeats": 1, "holdout_rows": 100}
    return lwcs.compare(X, [3, 6], name="one", **options) + lwcs.compare(
        X, 3, name="two", **options
    )


@pytest.mark.parametrize("x", ["size", "time"])
def test_a_panel_for_every_data_set_and_k(result, x):
    display = lwcs.CompareDisplay.from_result(result, x=x)
    assert display.axes_.shape == (2, 2)
    panel = display.axes_[0, 1]
    assert panel.get_title() == "one, k = 6"
    assert panel.get_xscale() == panel.get_yscale() == "log"
    shown = {text.get_text() for text in display.figure_.legends[0].get_texts()}
    assert {"Uniform", "Refined", "MiniBatchKMeans", "+ 1 step on all rows"} <= shown
    assert not any("full" in text.lower() for text in shown)
    sizes = [line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 2]
    if x == "size":
        assert any(list(each) == [50, 200] for each in sizes)


def test_methods_can_be_chosen_and_unseen_rows_drawn(result):
    display = lwcs.CompareDisplay.from_result(result, methods=["refined"], holdout=True)
    assert {t.get_text() for t in display.figure_.legends[0].get_texts()} == {
        "Refined",
        "+ 1 step on all rows",
        "95 % interval",
    }
    assert "held-out rows" in display.axes_[0, 0].get_ylabel()


ENDINGS = [
    ("png", b"\x89PNG"),
    ("svg", b"<?xml"),
]


@pytest.mark.parametrize(("ending", "start"), ENDINGS)
def test_the_same_result_gives_the_same_file(result, ending, start, tmp_path):
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        lwcs.CompareDisplay.from_result(result).save(path)
    one, other = (path.read_bytes() for path in paths)
    assert one.startswith(start)
    assert one == other


def test_without_matplotlib_the_error_names_the_extra(result, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'lwcs\[plot\]'"):
        lwcs.CompareDisplay.from_result(result)


def test_a_typo_is_answered(result):
    with pytest.raises(ValueError, match="did you mean 'time'"):
        lwcs.CompareDisplay.from_result(result, x="tiem")


def test_a_misspelt_method_is_an_error_that_names_those_that_were_compared(result):
    with pytest.raises(ValueError, match=r"methods='refind' is not one of 'uniform', .*'refined'"):
        lwcs.CompareDisplay.from_result(result, methods=["uniform", "refind"])
    with pytest.raises(ValueError, match="did you mean 'refined'"):
        lwcs.CompareDisplay.from_result(result).plot("refind")


def test_a_method_that_was_not_compared_is_an_error():
    one = lwcs.compare(_rows(), 3, sizes=[50], methods=["full", "uniform"], repeats=2)
    with pytest.raises(ValueError, match="methods='refined' is not one of 'uniform'"):
        lwcs.CompareDisplay.from_result(one, methods="refined")
    with pytest.raises(ValueError, match="methods='full' is what errors are relative to"):
        lwcs.CompareDisplay.from_result(one, methods=["full"])
    with pytest.raises(ValueError, match="methods is empty; choose from 'uniform'"):
        lwcs.CompareDisplay.from_result(one, methods=[])


def test_something_else_is_refused():
    with pytest.raises(TypeError, match=r"pass the result of lwcs\.compare"):
        lwcs.CompareDisplay.from_result([1, 2])


def _assert_apart(ax) -> list[str]:
    """The labels below an axis, none of which touches the next."""
    ax.figure.draw_without_rendering()
    low, high = ax.get_xlim()
    labels = ax.get_xticklabels(which="both")
    inside = [label for label in labels if low <= label.get_position()[0] <= high]
    shown = [label for label in inside if label.get_text()]
    boxes = sorted(label.get_window_extent().extents[[0, 2]].tolist() for label in shown)
    assert len(boxes) >= 2
    for (_, end), (start, _) in pairwise(boxes):
        assert end < start
    return [label.get_text() for label in shown]


@pytest.mark.parametrize("x", ["size", "time"])
def test_labels_of_ticks_do_not_touch(result, x):
    display = lwcs.CompareDisplay.from_result(result, x=x)
    for ax in (display.axes_[0, 0], display.axes_[0, 1], display.axes_[1, 0]):
        _assert_apart(ax)


def test_labels_of_any_times_do_not_touch(result):
    ax = lwcs.CompareDisplay.from_result(result, x="time").axes_[0, 0]
    rng = np.random.default_rng(0)
    for low, decades in rng.uniform([-5.0, 0.02], [3.0, 4.0], (100, 2)):
        ax.set_xlim(10**low, 10 ** (low + decades))
        log_ticks(ax.xaxis, seconds)
        _assert_apart(ax)


def test_labels_of_many_sizes_do_not_touch():
    sizes = [100, 110, 120, 150, 200, 220, 300, 400, 900, 1_000]
    one = lwcs.compare(_rows(), 3, sizes=sizes, methods=["full", "uniform"], repeats=1)
    display = lwcs.CompareDisplay.from_result(one)
    assert _assert_apart(display.axes_[0, 0]) == ["100", "150", "220", "300", "400", "1,000"]


@pytest.mark.parametrize("x", ["size", "time"])
def test_every_mean_is_in_its_panel(result, x):
    display = lwcs.CompareDisplay.from_result(result, x=x)
    ax = display.axes_[0, 0]
    left, right = ax.get_xlim()
    low, high = ax.get_ylim()
    lines = [line for line in ax.lines if len(line.get_xdata()) and line.get_marker() != "None"]
    assert len(lines) > 5
    for line in lines:
        assert ((line.get_xdata() > left) & (line.get_xdata() < right)).all()
        assert ((line.get_ydata() > low) & (line.get_ydata() < high)).all()
    every = np.concatenate([line.get_xdata() for line in lines])
    assert np.log(right / left) < 1.5 * np.log(every.max() / every.min())


def test_bars_are_the_intervals(result):
    display = lwcs.CompareDisplay.from_result(result, methods="uniform")
    cells = [cell for cell in result.cells("one", 3) if cell.key.method == "uniform"]
    tops = {part[1, 1] for bar in display.axes_[0, 0].collections for part in bar.get_segments()}
    assert tops == {cell.error + cell.interval for cell in cells}


def test_one_panel_has_its_legend_at_the_right_and_several_have_it_below(result):
    one = lwcs.compare(_rows(), 3, sizes=[50, 90], methods=["full", "uniform"], repeats=2)
    for shown, beside in ((one, True), (result, False)):
        display = lwcs.CompareDisplay.from_result(shown)
        display.figure_.draw_without_rendering()
        legend = display.figure_.legends[0].get_window_extent()
        panels = display.axes_[-1, 0].get_window_extent()
        assert (legend.x0 > panels.x1) == beside
        assert (legend.y1 < panels.y0) != beside
        assert legend.x0 >= 0
        assert legend.x1 <= display.figure_.bbox.x1


def test_names_of_data_are_no_mathematics():
    one = lwcs.compare(
        _rows(), 3, sizes=[50], methods=["full", "uniform"], repeats=1, name="$a$ \N{FOX FACE}"
    )
    display = lwcs.CompareDisplay.from_result(one)
    assert display.axes_[0, 0].get_title() == r"\$a\$ □, k = 3"
    display.figure_.draw_without_rendering()


def _rows() -> np.ndarray:
    return np.random.default_rng(1).standard_t(3, size=(2_000, 3))

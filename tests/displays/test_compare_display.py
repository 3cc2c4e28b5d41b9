"""CompareDisplay: one panel a data set and k, every method in it, files as their endings say."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import lwcs


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
    assert {"Uniform", "Lightweight + 1 step", "Refined", "MiniBatchKMeans"} <= shown
    sizes = [line.get_xdata() for line in panel.lines if len(line.get_xdata()) == 2]
    if x == "size":
        assert any(list(each) == [50, 200] for each in sizes)


def test_methods_can_be_chosen_and_unseen_rows_drawn(result):
    display = lwcs.CompareDisplay.from_result(result, methods=["refined"], holdout=True)
    assert {t.get_text() for t in display.figure_.legends[0].get_texts()} == {
        "Refined",
        "Refined + 1 step",
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

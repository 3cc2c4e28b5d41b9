"""Results on small data are what they were: pinned over methods, containers and divergences."""

from __future__ import annotations

import json

import pytest

from tests.pins.cases import PINS, Pin, cases

_CASES = dict(cases())
_PINNED: dict[str, Pin] = json.loads(PINS.read_text("utf-8"))
# What another BLAS may change: in float32, centers are rounded to seven digits.
_TOLERANCE = {"float64": 1e-9, "float32": 2e-6}


def test_every_case_is_pinned():
    assert set(_CASES) == set(_PINNED)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", _CASES)
def test_result_is_the_pinned_one(name):
    found, pinned = _CASES[name](), _PINNED[name]
    tolerance = _TOLERANCE["float32" if "32" in name else "float64"]
    assert set(found) == set(pinned)
    for part, value in pinned.items():
        if value is None or isinstance(value, int):
            assert found[part] == value, part
        else:
            assert found[part] == pytest.approx(value, rel=tolerance, abs=tolerance), part

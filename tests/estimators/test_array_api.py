"""scikit-learn's checks of the array API, with its dispatch on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn import config_context
from sklearn.utils import get_tags

from lwcs import CoresetKMeans, CoresetMixture

strict = pytest.importorskip("array_api_strict")

# SciPy reads SCIPY_ARRAY_API once, so that the checks run in a process of their own.
CHECKS = """
import json, sys, warnings
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_checks as checks
from lwcs import CoresetKMeans, CoresetMixture

warnings.simplefilter("error")
warnings.simplefilter("ignore", ConvergenceWarning)
estimator, found = eval(sys.argv[1]), []
name = type(estimator).__name__
values = [
    (checks.check_array_api_input_and_values, {"array_namespace": each, "dtype_name": dtype,
                                               "check_sample_weight": True})
    for each in ("array_api_strict", "torch") for dtype in ("float32", "float64")
]
yielded = [(each.func, each.keywords) for each in checks._yield_array_api_checks(estimator)]
for check, options in values + yielded:
    try:
        check(name, estimator, **options)
        outcome = "passed"
    except BaseException as error:
        skipped = type(error).__name__ in ("SkipTest", "Skipped")
        outcome = "skipped" if skipped else repr(error)
    found.append([check.__name__, str(options), outcome])
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    "estimator",
    [
        "CoresetKMeans(3)",
        "CoresetKMeans(3, coreset_size=20, polish=1)",
        "CoresetMixture(2)",
        "CoresetMixture(2, covariance_type='tied')",
    ],
)
def test_checks_of_scikit_learn(estimator):
    pytest.importorskip("torch", reason="needs torch: make test-gpu")
    ran = subprocess.run(
        [sys.executable, "-c", CHECKS, estimator],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert [each for each in found if each[2] not in ("passed", "skipped")] == []
    passed = [f"{name} {options}" for name, options, outcome in found if outcome == "passed"]
    for library in ("torch", "array_api_strict"):
        assert any("input_and_values" in each and library in each for each in passed)
    for name in ("check_array_api_mixed_inputs", "check_array_api_same_namespace"):
        assert any(each.startswith(name) for each in passed)


@pytest.mark.parametrize("estimator", [CoresetKMeans(2), CoresetMixture(2)])
def test_models_declare_it(estimator):
    assert get_tags(estimator).array_api_support


def test_with_dispatch_rows_are_asked_about_in_the_library_of_the_fit(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rows = np.random.default_rng(0).normal(size=(100, 2))
    model = CoresetKMeans(2, random_state=0).fit(strict.asarray(rows))
    np.testing.assert_array_equal(model.predict(rows), np.asarray(model.labels_))
    with (
        config_context(array_api_dispatch=True),
        pytest.raises(ValueError, match=r"CoresetKMeans\.predict\(\) must use the same namespace"),
    ):
        model.predict(rows)

"""A mixture that is saved is loaded as it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lwcs
from lwcs import CoresetMixture
from lwcs.solvers.families.gaussian import COVARIANCES
from lwcs.storage import persistence as storage
from tests.estimators.test_mixture import PARTS, blobs, drawn_from


@pytest.mark.parametrize(
    "family", [*list(PARTS)[1:], *("gaussian " + kind for kind in COVARIANCES)]
)
def test_what_is_saved_is_loaded(family, tmp_path):
    family, _, kind = family.partition(" ")
    X = pd.DataFrame(drawn_from("gamma" if family == "gaussian" else family, 900, 0))
    # One is called like a column of ours.
    X.columns = ["weight", *(f"x{j}" for j in range(1, X.shape[1]))]
    options = {"covariance_type": kind or "full", "random_state": 0, "max_iter": 500}
    model = CoresetMixture(X.shape[1], family=family, **options).fit(X)
    model.save(tmp_path / "m.parquet")
    again = lwcs.load(tmp_path / "m.parquet")
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.get_params() == model.get_params()
    assert again.bic(X) == model.bic(X)
    np.testing.assert_array_equal(again.sample(5)[0], model.sample(5)[0])
    assert (again.lower_bound_, again.n_iter_) == (model.lower_bound_, model.n_iter_)


def test_a_damaged_model_is_refused(tmp_path):
    model = CoresetMixture(2, random_state=0).fit(blobs(500))
    table = model.to_arrow()
    storage.write_table(table.drop_columns(["covariance"]), tmp_path / "m.parquet")
    with pytest.raises(ValueError, match="does not agree with its checksum"):
        lwcs.load(tmp_path / "m.parquet")


def test_the_file_holds_what_was_fitted_whatever_the_parameters_are_now(tmp_path):
    X = blobs(500)
    model = CoresetMixture(2, covariance_type="diag", random_state=0).fit(X)
    model.set_params(covariance_type="spherical").save(tmp_path / "m.parquet")
    assert lwcs.load(tmp_path / "m.parquet").score(X) == model.score(X)

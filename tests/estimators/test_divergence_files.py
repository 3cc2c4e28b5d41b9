"""Coresets and models by a divergence: saved, loaded, united, batch by batch, built elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import lwcs
from lwcs import CoresetKMeans, divergences
from lwcs.divergences import Divergence, as_divergence
from tests.estimators.divergence_rows import Burg, blobs, spectra, topics

MODELS = [
    ("kl", topics()[0]),
    (divergences.KL(smoothing=0.3), topics()[0]),
    (divergences.ItakuraSaito(floor=1e-3), spectra()[0]),
    (divergences.Mahalanobis(np.diag([1.0, 2.0, 3.0, 4.0, 5.0])), blobs()),
    ("cosine", blobs() + 9.0),
    (Burg(), spectra()[0]),
]


@pytest.mark.parametrize(("divergence", "X"), MODELS, ids=lambda v: getattr(v, "name", ""))
def test_what_is_saved_measures_as_before(divergence, X, tmp_path):
    model = CoresetKMeans(4, divergence=divergence, coreset_size=300, random_state=0).fit(X)
    model.save(tmp_path / "m.parquet")
    again = lwcs.load(tmp_path / "m.parquet")
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    assert again.score(X) == model.score(X)
    assert as_divergence(again.divergence) == as_divergence(divergence)
    model.coreset_.save(tmp_path / "c.parquet")
    coreset = lwcs.load(tmp_path / "c.parquet")
    assert coreset == model.coreset_
    assert coreset.cost(model.cluster_centers_) == model.coreset_.cost(model.cluster_centers_)


def test_a_file_by_a_divergence_that_is_gone_says_so(tmp_path):
    class Gone(Burg):
        name = "gone"

    lwcs.build(spectra()[0], 50, divergence=Gone()).save(tmp_path / "c.parquet")
    del Divergence._known["gone"]
    with pytest.raises(ValueError, match="'gone', which is not registered here; import the module"):
        lwcs.load(tmp_path / "c.parquet")


@pytest.mark.parametrize("name", ["itakura_saito", "mahalanobis"])
def test_unions_know_their_mean_and_cost_exactly(name):
    X, _ = spectra()
    own = divergences.Mahalanobis(np.diag(np.arange(1.0, 13.0))) if name == "mahalanobis" else name
    a, b = (lwcs.build(part, 100, divergence=own, random_state=0) for part in (X[:1000], X[1000:]))
    whole = lwcs.build(X, 100, divergence=own, random_state=0)
    union = a + b
    np.testing.assert_allclose(union.mean, whole.mean, rtol=1e-12)
    assert union.total_cost == pytest.approx(whole.total_cost, rel=1e-9)
    assert union.reduce(60, random_state=0).size == 60


def test_unions_of_smoothed_ones_are_smoothed_towards_the_common_mean():
    X, _ = topics()
    a, b = (lwcs.build(part, 100, divergence="kl", random_state=0) for part in (X[:1000], X[1000:]))
    union = a + b
    np.testing.assert_allclose(union.mean, np.asarray(X.mean(axis=0)).ravel(), rtol=1e-12)
    assert union.total_cost is None
    with pytest.raises(ValueError, match="differ in divergence"):
        a + lwcs.build(X, 100, divergence=divergences.KL(smoothing=0.5))


def test_batches_are_fitted_by_a_divergence(tmp_path):
    X, label = topics()
    model = CoresetKMeans(5, divergence="kl", coreset_size=1_000, n_init=3, random_state=0)
    for start in range(0, 4_000, 500):
        model.partial_fit(X[start : start + 500])
    assert adjusted_rand_score(label, model.predict(X)) > 0.9
    stream = lwcs.StreamingCoreset(200, divergence=divergences.KL(0.2), random_state=0)
    stream.update(X)
    stream.save(tmp_path / "s.parquet")
    again = lwcs.load(tmp_path / "s.parquet")
    assert again.coreset() == stream.coreset()
    assert again.coreset().divergence == divergences.KL(0.2)


def test_a_coreset_by_squared_distances_serves_any_divergence():
    """As in the paper, where d_A with A = c·I draws the rows."""
    X, label = spectra()
    coreset = lwcs.build(X, 1_500, random_state=0)
    model = CoresetKMeans(4, divergence="itakura_saito", n_init=3, random_state=0).fit(coreset)
    assert adjusted_rand_score(label, model.predict(X)) > 0.9
    with pytest.raises(ValueError, match=r"measured by ItakuraSaito.*but the model by SquaredEuc"):
        CoresetKMeans(4).fit(lwcs.build(X, 500, divergence="itakura_saito"))

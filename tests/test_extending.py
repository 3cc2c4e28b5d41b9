"""A sampler, a divergence and a family from outside of the package are built, fitted and saved."""

# ruff: noqa: ARG002  (the signatures are those of Sampler)

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import lwcs
from lwcs import CoresetKMeans, CoresetMixture, divergences, samplers
from lwcs.divergences import Divergence, Domain, ItakuraSaito
from lwcs.samplers import Draws, Sampler, Summary
from lwcs.samplers.first_pass import first_pass
from lwcs.solvers import families
from lwcs.solvers.families import Family, weighted_means
from lwcs.sources import LocalSource

SPEEDS = np.random.default_rng(0).rayleigh(
    np.where(np.random.default_rng(1).random((20_000, 1)) < 0.3, 1.0, 10.0), (20_000, 2)
)
SCALES = np.array([[1.0, 1.0], [10.0, 10.0]])


class AroundMedian(Sampler):
    """q(x) = ω/2Ω + ω·d(x, median)/2Φ, for dense rows in memory."""

    name = "own_around_median"

    def passes(self, source, geometry):
        return 2

    def draw(self, source, size, passes, run):
        if not isinstance(source, LocalSource):
            raise TypeError(f"method={self.name!r} needs rows in memory, not {source!r}")
        known = first_pass(source, run)
        geometry = known.geometry(run.geometry)
        rows = source.read(0, source.n_rows)
        weights = np.ones(len(rows)) if source.weights is None else source.weights
        median = geometry.measured(np.median(rows, axis=0, keepdims=True)).as_centers()
        costs = weights * geometry.measured(rows).distances_to(median)
        average = costs.sum() / weights.sum() or 1.0
        masses = weights * average + costs
        q = masses / masses.sum()
        counts = run.generator(0).multinomial(size, q)
        at = np.flatnonzero(counts)
        drawn = counts[at]
        return Draws(rows[at], at, drawn, drawn * weights[at] / (size * q[at]), known)


@dataclass(frozen=True)
class Evenly(Sampler):
    """As many evenly spaced rows as there are clusters, times `per_cluster`."""

    per_cluster: int = 10
    n_clusters: int | None = None
    name = "own_evenly"

    @property
    def label(self):
        return f"{self.name}, {self.per_cluster} per cluster"

    def passes(self, source, geometry):
        return 1

    def draw(self, source, size, passes, run):
        at = np.linspace(0, source.n_rows - 1, self.per_cluster * self.n_clusters).astype(np.int64)
        weights = np.full(len(at), source.n_rows / len(at))
        known = Summary(source.n_rows, float(source.n_rows))
        return Draws(source.take(at), at, np.ones_like(at), weights, known)


class Asinh(Divergence):
    """φ(x) = x·asinh(x/width) − √(width² + x²)."""

    name = "own_asinh"

    def __init__(self, width=1.0):
        self.width = float(width)

    def phi(self, x):
        return x * np.arcsinh(x / self.width) - np.hypot(self.width, x)

    def gradient(self, y):
        return np.arcsinh(y / self.width)


class Positive(Asinh):
    """The same for positive numbers alone."""

    name, domain = "own_positive_asinh", Domain(low=0.0, closed=False)


class Rayleigh(Family):
    """Rayleigh distributions, independent by column."""

    name, divergence = "own_rayleigh", ItakuraSaito()
    fitted: ClassVar = {"scale": "scales"}

    def fit(self, rows, weights):
        self.scales = np.sqrt(weighted_means(rows**2, weights) / 2.0)
        self.means = self.scales * np.sqrt(np.pi / 2.0)

    def log_density(self, rows):
        squares = self.scales**2
        constant = np.log(rows).sum(axis=1)[:, None] - np.log(squares).sum(axis=1)
        return constant - rows**2 @ (0.5 / squares).T

    def sample(self, component, n, rng):
        return rng.rayleigh(self.scales[component], (n, self.scales.shape[1]))

    def n_parameters(self):
        return self.scales.size


def blobs(n=6_000, seed=0):
    rng = np.random.default_rng(seed)
    return 8.0 * rng.normal(size=(4, 3))[rng.integers(4, size=n)] + rng.normal(size=(n, 3))


def test_they_are_listed():
    assert samplers.available()["own_around_median"] is AroundMedian
    assert divergences.available()["own_asinh"] is Asinh
    assert families.available()["own_rayleigh"] is Rayleigh


@pytest.mark.parametrize("divergence", ["sqeuclidean", "kl", Asinh(width=3.0)], ids=str)
def test_a_coreset_by_an_own_sampler_estimates_costs_and_is_saved(divergence, tmp_path):
    """The mean over 40 seeds is within 4 standard errors: a correct one fails once in 10,000."""
    X = np.abs(blobs())
    w = np.random.default_rng(1).random(len(X))
    everything = lwcs.build(X, 10, divergence=divergence, sample_weight=w).geometry()
    centers = everything.smoothed(X[:3])
    own = everything.measured(X).nearest(everything.centers(centers))[1]
    costs = []
    for seed in range(40):
        options = {"divergence": divergence, "sample_weight": w, "random_state": seed}
        coreset = lwcs.build(X, 300, method="own_around_median", **options)
        costs.append(coreset.cost(centers))
    assert abs(np.mean(costs) - w @ own) < 4.0 * np.std(costs, ddof=1) / np.sqrt(40)
    assert np.std(costs) < 0.2 * np.mean(costs)
    assert (coreset.method, coreset.size, coreset.n_samples) == ("own_around_median", 300, 6_000)
    assert coreset == lwcs.build(X, 300, method=AroundMedian(), **options)
    coreset.save(tmp_path / "c.parquet")
    assert lwcs.load(tmp_path / "c.parquet") == coreset
    union = coreset + coreset
    assert union.reduce(100, random_state=0).size == 100


def test_a_scale_and_equal_rows_reach_an_own_sampler():
    X = blobs() * [1.0, 10.0, 100.0]
    coreset = lwcs.build(lwcs.scan(X, scale="standard"), 200, method="own_around_median")
    np.testing.assert_allclose(coreset.scale, X.std(axis=0))
    same = lwcs.build(np.ones((50, 2)), 20, method="own_around_median", random_state=0)
    np.testing.assert_allclose(same.weights, same.counts * 2.5)


def test_bad_rows_are_named_under_an_own_sampler():
    X = blobs()
    X[17, 1] = np.nan
    with pytest.raises(ValueError, match="row 17, column 1 is nan"):
        lwcs.build(X, 50, method="own_around_median")
    with pytest.raises(TypeError, match="needs rows in memory, not PartitionedSource"):
        lwcs.build(lwcs.PartitionedSource([X]), 50, method="own_around_median")


def test_an_own_sampler_is_told_the_number_of_clusters_and_names_itself(tmp_path):
    X = blobs()
    coreset = lwcs.build(X, 1, method="own_evenly", n_clusters=4)
    assert (coreset.size, coreset.method) == (40, "own_evenly, 10 per cluster")
    assert lwcs.build(X, 1, method=Evenly(5, n_clusters=2), n_clusters=4).size == 10
    model = CoresetKMeans(4, method=Evenly(25), coreset_size=100, random_state=0).fit(X)
    np.testing.assert_array_equal(
        model.coreset_.indices, np.linspace(0, 5_999, 100).astype(np.int64)
    )
    model.coreset_.save(tmp_path / "c.parquet")
    assert lwcs.load(tmp_path / "c.parquet") == model.coreset_


def test_a_model_by_an_own_sampler_and_divergence_is_saved_and_loaded(tmp_path):
    X = blobs()
    model = CoresetKMeans(
        4, method="own_around_median", divergence=Asinh(width=3.0), coreset_size=500, random_state=0
    ).fit(X)
    assert (model.coreset_.method, model.coreset_.size) == ("own_around_median", 500)
    assert -model.score(X) == pytest.approx(model.inertia_)
    truth = Asinh(width=3.0)(X[:, None, :], model.cluster_centers_)
    np.testing.assert_array_equal(model.labels_, truth.argmin(axis=1))
    assert model.inertia_ == pytest.approx(truth.min(axis=1).sum())
    model.save(tmp_path / "m.parquet")
    again = lwcs.load(tmp_path / "m.parquet")
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    assert again.geometry_.divergence == Asinh(width=3.0)
    assert again.get_params()["method"] == "own_around_median"


def test_the_domain_of_an_own_divergence_is_checked():
    X = np.abs(blobs())
    X[9, 2] = -1.0
    message = "row 9, column 2 is -1.0; divergence='own_positive_asinh' requires x > 0"
    with pytest.raises(ValueError, match=message):
        lwcs.build(X, 50, divergence="own_positive_asinh")
    with pytest.raises(ValueError, match=message):
        CoresetKMeans(3, divergence=Positive(2.0)).fit(X)


@pytest.mark.parametrize("method", ["lightweight", "own_around_median"])
def test_a_mixture_of_an_own_family_is_fitted_saved_and_loaded(method, tmp_path):
    model = CoresetMixture(
        2, family="own_rayleigh", method=method, coreset_size=4_000, random_state=0
    ).fit(SPEEDS)
    assert model.coreset_.method == method
    # At least 600 effective draws per component: 10 % is over four standard errors of a scale.
    order = np.argsort(model.scales_[:, 0])
    np.testing.assert_allclose(model.scales_[order], SCALES, rtol=0.1)
    assert model.weights_[order] == pytest.approx([0.3, 0.7], abs=0.05)
    model.save(tmp_path / "m.parquet")
    again = lwcs.load(tmp_path / "m.parquet")
    np.testing.assert_array_equal(again.score_samples(SPEEDS), model.score_samples(SPEEDS))
    np.testing.assert_array_equal(again.sample(5)[0], model.sample(5)[0])


def test_the_names_of_built_in_samplers_are_taken():
    with pytest.raises(TypeError, match="name='uniform' is already the name of Uniform; choose"):

        class Clash(AroundMedian):
            name = "uniform"

    with pytest.raises(TypeError, match="name='uniform' is already the name of Uniform; choose"):

        class Uniform(AroundMedian):
            pass

    assert samplers.available()["uniform"] is lwcs.Uniform


def test_an_own_sampler_may_be_defined_again_and_is_called_like_its_class():
    try:
        for _ in range(2):

            class OwnAgain(AroundMedian):
                pass

        assert samplers.available()["ownagain"] is OwnAgain
        assert lwcs.build(blobs(), 20, method="ownagain").method == "ownagain"
    finally:
        del Sampler._known["ownagain"]


def test_a_name_that_is_not_registered_is_explained():
    with pytest.raises(ValueError, match="did you mean 'own_around_median'"):
        lwcs.build(blobs(), 20, method="own_around_mediam")
    with pytest.raises(TypeError, match="is not a sampler; pass one of"):
        lwcs.build(blobs(), 20, method=AroundMedian)

"""What a model remembers of the rows that it was fitted on."""

from __future__ import annotations

import numpy as np
import pytest

import lwcs
from lwcs.statistics.record import SampleSize, digest


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    sizes = (45_000, 13_500, 1_500)
    rows = [rng.normal(6 * j, 1.0, (n, 3)) for j, n in enumerate(sizes)]
    return rng.permutation(np.vstack(rows))


def shares_of(model, X):
    return np.bincount(model.predict(X), minlength=model.n_clusters) / len(X)


def test_the_record_has_the_cost_per_row_and_the_shares_of_the_clusters(X):
    model = lwcs.CoresetKMeans(3, random_state=0).fit(X)
    record = model.fitted_on_
    assert (record.n_samples, record.total_weight) == (len(X), len(X))
    assert record.cost.value == pytest.approx(model.inertia_ / len(X))
    assert record.cost.variance == 0.0
    costs = np.min(((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2), axis=1)
    assert record.spread == pytest.approx(costs.var(), rel=0.1)
    np.testing.assert_allclose(record.shares, shares_of(model, X))
    assert not record.share_variances.any()


def test_without_labels_the_shares_are_those_of_the_draws(X):
    model = lwcs.CoresetKMeans(3, compute_labels=False, random_state=0).fit(X)
    record = model.fitted_on_
    errors = (record.shares - shares_of(model, X)) / np.sqrt(record.share_variances)
    assert 0.0 < np.abs(errors).max() < 4.0
    assert record.share_variances.min() > 0.0


def test_weights_gaps_and_partitions_count_in_the_shares(X):
    """Rows that were dropped do not count; partitions, which have no labels, know the costs too."""
    w = np.random.default_rng(1).exponential(size=len(X))
    gaps = X.copy()
    gaps[::10, 1] = np.nan
    options = {"coreset_size": 2_000, "random_state": 0}
    own = lwcs.CoresetKMeans(3, **options).fit(lwcs.scan(gaps, weight=w, missing="drop"))
    there = own.labels_ >= 0
    assert there.sum() == 54_000
    expected = np.bincount(own.labels_[there], w[there])
    np.testing.assert_allclose(own.fitted_on_.shares, expected / expected.sum())
    parts = lwcs.CoresetKMeans(3, **options).fit(lwcs.PartitionedSource(np.array_split(X, 4)))
    np.testing.assert_allclose(parts.fitted_on_.shares, shares_of(parts, X))
    distances = ((X - parts.cluster_centers_[parts.predict(X)]) ** 2).sum(axis=1)
    costs = np.bincount(parts.predict(X), distances)
    np.testing.assert_allclose(parts.fitted_on_.cost_shares, costs / costs.sum())


def test_without_a_final_pass_the_cost_has_no_bias_of_the_fit(X):
    rows = np.random.default_rng(1).standard_t(3, size=(60_000, 5))
    model = lwcs.CoresetKMeans(50, compute_labels=False, random_state=0).fit(rows)
    record, truth = model.fitted_on_, -model.score(rows) / len(rows)
    assert abs(record.cost.value - truth) < 4.0 * np.sqrt(record.cost.variance)
    assert record.cost.value > model.inertia_ / len(rows)


def test_of_all_rows_nothing_is_estimated(X):
    record = lwcs.CoresetKMeans(3, random_state=0).fit(X[:5_000]).fitted_on_
    assert record.cost.variance == 0.0
    assert not record.share_variances.any()


def test_the_record_of_a_mixture_has_its_log_likelihood_and_weights(X):
    model = lwcs.CoresetMixture(3, random_state=0).fit(X)
    record = model.fitted_on_
    assert abs(record.cost.value + model.score(X)) < 4.0 * np.sqrt(record.cost.variance)
    assert record.shares == pytest.approx(model.weights_, abs=1e-3)


@pytest.mark.parametrize("kind", [lwcs.CoresetKMeans, lwcs.CoresetMixture])
def test_a_file_keeps_the_record(X, kind, tmp_path):
    model = kind(3, random_state=0).fit(X)
    model.save(tmp_path / "model.parquet")
    own, read = model.fitted_on_, lwcs.load(tmp_path / "model.parquet").fitted_on_
    assert read.saved() == own.saved()
    assert read.draws == digest(model.coreset_)


def test_rows_are_worth_as_many_as_are_left_and_weigh_alike(X, tmp_path):
    gaps, weights = X.copy(), np.where(np.arange(len(X)) % 3, 1.0, 4.0)
    gaps[::2, 0] = np.nan
    worth = weights.sum() ** 2 / (weights**2).sum()
    for source, sample_weight, expected in (
        (X, None, len(X)),
        (lwcs.scan(gaps, missing="drop"), None, len(X) / 2),
        (X, weights, worth),
    ):
        model = lwcs.CoresetKMeans(3, random_state=0).fit(source, sample_weight=sample_weight)
        assert model.fitted_on_.rows == SampleSize(pytest.approx(expected), known=True)
    assert not SampleSize.behind(model.coreset_).known


def test_coresets_of_other_draws_have_other_digests(X):
    one, other = (lwcs.build(X, 100, random_state=seed) for seed in (0, 1))
    assert digest(one) != digest(other)
    assert digest(one) == digest(lwcs.build(X, 100, random_state=0))

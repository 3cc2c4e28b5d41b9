"""The default: as many draws as it takes, and an answer that says how far it is off."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.hard_clusters import FAMILIES
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

import lwcs
from lwcs import CoresetKMeans
from lwcs.geometry import Geometry
from lwcs.solvers.lloyd import cluster
from lwcs.sources.memory.partitioned import PartitionedSource

RNG = np.random.default_rng(0)
HEAVY = RNG.standard_t(4, size=(60_000, 6)) + 20.0 * RNG.integers(0, 3, (60_000, 1))


def excess(model: CoresetKMeans, X: np.ndarray) -> float:
    """How much more the centers cost than after Lloyd's algorithm on all rows, from there."""
    found = cluster(X, np.ones(len(X)), Geometry(), model.n_clusters, init=model.cluster_centers_)
    return model.inertia_ / found.cost - 1.0


@pytest.mark.filterwarnings("ignore:.*of all squared distances:lwcs.ColumnWarning")
@pytest.mark.parametrize(
    ("load", "k"), [(load_iris, 3), (load_digits, 10), (load_breast_cancer, 4)]
)
def test_small_data_is_clustered_itself_as_well_as_by_ten_runs(load, k):
    X = load().data
    best = KMeans(k, n_init=10, random_state=0).fit(X).inertia_
    for seed in range(3):
        model = CoresetKMeans(k, random_state=seed).fit(X)
        assert model.coreset_.method == "all rows"
        assert (model.sampling_error_, model.sampling_error_bound_) == (0.0, 0.0)
        assert model.inertia_ <= 1.005 * best


def test_rows_of_which_every_second_one_would_be_drawn_are_all_clustered():
    model = CoresetKMeans(5, random_state=0).fit(HEAVY[:40_000])
    assert (model.coreset_.method, len(model.coreset_)) == ("all rows", 40_000)
    drawn = CoresetKMeans(3, random_state=0).fit(HEAVY[:40_002])
    assert drawn.coreset_ == lwcs.build(HEAVY[:40_002], 20_000, random_state=0)


def test_the_estimate_is_near_the_truth_and_the_bound_above_it():
    """12 fits, within two points each: from one of them, Lloyd finds another local optimum."""
    for k in (8, 60):
        for seed in range(6):
            model = CoresetKMeans(k, random_state=seed).fit(HEAVY)
            truth = excess(model, HEAVY)
            assert abs(model.sampling_error_ - truth) < 0.02
            assert truth <= model.sampling_error_bound_


def test_more_rows_are_drawn_for_a_smaller_target():
    rough = CoresetKMeans(30, random_state=0, compute_labels=False).fit(HEAVY)
    fine = CoresetKMeans(30, target_error=0.002, random_state=0, compute_labels=False).fit(HEAVY)
    assert rough.coreset_.size == 20_000
    assert rough.sampling_error_ > 0.002
    assert fine.coreset_.size > 1.2 * rough.coreset_.size
    assert fine.sampling_error_ <= 0.002
    assert fine.coreset_.seed != rough.coreset_.seed, "other draws, not the same again"


def test_a_target_that_is_not_reached_is_a_warning_with_the_figure():
    with pytest.warns(
        ConvergenceWarning, match=r"is about 0\.\d+ with .*target_error=0.0001; pass"
    ):
        model = CoresetKMeans(30, target_error=1e-4, random_state=0).fit(iter([HEAVY]))
    assert model.sampling_error_ > 1e-4
    assert model.coreset_.size == 20_000, "rows that can be read only once are drawn once"


@pytest.mark.parametrize("family", ["halving", "imbalanced"])
def test_clusters_that_the_draws_have_missed_are_found(family):
    """Lightweight draws alone cost up to 10⁵ times as much; here 3 seeds within 5 %."""
    make = FAMILIES[family]
    for seed in range(3):
        X = make(42_000, 20, 20, seed)
        centers = make.centers(42_000, 20, 20, seed)
        best = cluster(X, np.ones(len(X)), Geometry(), 20, init=centers).cost
        model = CoresetKMeans(20, random_state=seed).fit(X)
        assert model.inertia_ <= 1.05 * best
        assert model.labels_.shape == (42_000,)


def test_missed_clusters_are_found_in_partitions_too():
    make = FAMILIES["halving"]
    X, centers = make(42_000, 20, 20, 0), make.centers(42_000, 20, 20, 0)
    best = cluster(X, np.ones(len(X)), Geometry(), 20, init=centers).cost
    model = CoresetKMeans(20, random_state=0).fit(PartitionedSource(np.array_split(X, 5)))
    assert model.inertia_ <= 1.05 * best


def test_a_chosen_size_that_misses_clusters_is_a_warning():
    X = FAMILIES["halving"](42_000, 20, 20, 0)
    with pytest.warns(ConvergenceWarning, match=r"times as much on all rows .* missed clusters"):
        CoresetKMeans(20, coreset_size=2_000, method="lightweight", random_state=0).fit(X)


def test_threads_change_nothing():
    one, three = (CoresetKMeans(20, random_state=0, n_jobs=n).fit(HEAVY) for n in (1, 3))
    np.testing.assert_array_equal(one.cluster_centers_, three.cluster_centers_)
    assert one.sampling_error_ == three.sampling_error_
    assert one.sampling_error_bound_ == three.sampling_error_bound_


def test_a_file_gives_the_answer_of_the_same_rows_in_partitions(tmp_path):
    """Both in two rounds, and cut alike; an array is read once, and draws other rows."""
    np.savetxt(tmp_path / "rows.csv", HEAVY[:50_000], delimiter=",", header="a,b,c,d,e,f")
    text = (tmp_path / "rows.csv").read_text().removeprefix("# ")
    (tmp_path / "rows.csv").write_text(text)
    by_file = CoresetKMeans(10, random_state=0).fit(tmp_path / "rows.csv")
    by_parts = CoresetKMeans(10, random_state=0).fit(PartitionedSource([HEAVY[:50_000]]))
    assert by_file.coreset_.size == 20_000
    np.testing.assert_allclose(by_file.cluster_centers_, by_parts.cluster_centers_, rtol=1e-9)
    assert by_file.sampling_error_ == pytest.approx(by_parts.sampling_error_, rel=1e-6)


def test_an_integer_is_exactly_that():
    assert CoresetKMeans(10, coreset_size=1_000, random_state=0).fit(HEAVY).coreset_.size == 1_000
    options = {"coreset_size": 1_000, "method": "lightweight", "random_state": 0}
    model = CoresetKMeans(10, **options).fit(HEAVY)
    assert model.coreset_ == lwcs.build(HEAVY, 1_000, random_state=0)
    at_once = CoresetKMeans(10, init="k-means++", n_init=1, tol=1e-4, **options).fit(HEAVY)
    np.testing.assert_array_equal(model.cluster_centers_, at_once.cluster_centers_)
    own = model.coreset_.cost(model.cluster_centers_)
    assert model.sampling_error_ == pytest.approx(0.5 * (model.inertia_ / own - 1.0), rel=1e-6)
    assert model.sampling_error_bound_ > 2.0 * model.sampling_error_


def test_without_a_final_pass_nothing_is_known_unless_draws_are_held_back():
    options = {"coreset_size": 2_000, "compute_labels": False, "random_state": 0}
    unknown = CoresetKMeans(10, **options).fit(HEAVY)
    assert np.isnan([unknown.sampling_error_, unknown.sampling_error_bound_]).all()
    held = CoresetKMeans(10, holdout=0.25, **options).fit(HEAVY)
    assert held.coreset_.size == 2_000
    first = CoresetKMeans(10, coreset_size=2_000, random_state=0).fit(HEAVY)
    assert held.sampling_error_ == pytest.approx(first.sampling_error_, abs=0.05)
    assert held.sampling_error_bound_ > held.sampling_error_
    assert not np.array_equal(held.cluster_centers_, unknown.cluster_centers_), "fewer draws"


def test_polishing_takes_off_what_it_gains():
    plain = CoresetKMeans(30, coreset_size=1_500, random_state=0).fit(HEAVY)
    polished = CoresetKMeans(30, coreset_size=1_500, polish=2, random_state=0).fit(HEAVY)
    drop = 1.0 - polished.inertia_ / plain.inertia_
    assert drop > 0.01
    expected = plain.sampling_error_ - drop
    assert polished.sampling_error_ == pytest.approx(max(expected, 0.0), abs=1e-9)
    unlabelled = CoresetKMeans(
        30, coreset_size=1_500, polish=2, compute_labels=False, random_state=0
    ).fit(HEAVY)
    assert polished.sampling_error_ <= unlabelled.sampling_error_ < plain.sampling_error_


def test_a_coreset_is_solved_by_levels_and_judged_by_its_own_draws():
    coreset = lwcs.build(HEAVY, 16_000, random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CoresetKMeans(10, target_error=1e-6, random_state=0).fit(coreset)
    assert model.coreset_ is coreset
    assert 0.0 < model.sampling_error_ < model.sampling_error_bound_ < 0.05
    tiny = CoresetKMeans(10, random_state=0).fit(lwcs.build(HEAVY, 500, random_state=3))
    assert np.isnan(tiny.sampling_error_), "too few draws to hold any back"


@pytest.mark.parametrize("divergence", ["sqeuclidean", "kl"])
def test_sparse_rows_and_divergences_have_a_sampling_error(divergence):
    rng = np.random.default_rng(1)
    topics = rng.gamma(0.3, 1.0, (6, 30))
    counts = sp.csr_array(rng.poisson(topics[rng.integers(0, 6, 45_000)]))
    model = CoresetKMeans(6, divergence=divergence, random_state=0).fit(counts)
    assert model.coreset_.size == 20_000
    assert 0.0 <= model.sampling_error_ < 0.02
    assert model.sampling_error_ < model.sampling_error_bound_ < 0.1


def test_weights_are_copies():
    """A row with weight 3 is that row three times: the same cost within the sampling error."""
    weights = np.random.default_rng(2).integers(1, 4, 30_000)
    weighted = CoresetKMeans(10, random_state=0).fit(HEAVY[:30_000], sample_weight=weights)
    repeated = CoresetKMeans(10, random_state=0).fit(np.repeat(HEAVY[:30_000], weights, axis=0))
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=0.02)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target_error": 0}, "target_error=0 is not allowed; pass a finite number > 0"),
        ({"target_error": "small"}, "target_error='small' is not allowed"),
        ({"holdout": 0.9}, r"holdout=0.9 must be between 0 and 0.5"),
        ({"holdout": -1}, "holdout=-1 is not allowed"),
        ({"n_init": "many"}, "n_init='many' is not allowed; pass 'auto' or a number"),
        ({"n_init": 0}, "n_init=0"),
        ({"tol": "fine"}, "tol='fine' is not allowed; pass 'auto' or a number"),
        ({"coreset_size": "large"}, r"coreset_size='large' is not allowed; pass 'auto'"),
    ],
)
def test_bad_parameters_are_explained(options, words):
    with pytest.raises(ValueError, match=words):
        CoresetKMeans(3, **options).fit(HEAVY[:100])


def test_the_error_is_kept_in_the_file(tmp_path):
    model = CoresetKMeans(10, coreset_size=1_000, random_state=0).fit(HEAVY)
    model.save(tmp_path / "model.parquet")
    loaded = lwcs.load(tmp_path / "model.parquet")
    assert loaded.sampling_error_ == model.sampling_error_
    assert loaded.sampling_error_bound_ == model.sampling_error_bound_
    unknown = CoresetKMeans(10, coreset_size=1_000, compute_labels=False, random_state=0).fit(HEAVY)
    unknown.save(tmp_path / "unknown.parquet")
    assert np.isnan(lwcs.load(tmp_path / "unknown.parquet").sampling_error_)


def with_far_rows(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(n, 2)), rng.normal(size=(3, 2)) * 1e-3 + [1e4, 0.0]])


@pytest.mark.parametrize("method", ["uniform", "sensitivity"])
def test_samplers_that_know_no_mean_find_missed_clusters_too(method):
    X = with_far_rows(100_000)
    model = CoresetKMeans(4, method=method, random_state=0).fit(X)
    assert model.labels_[-1] != model.labels_[0]
    assert model.inertia_ < 2e5


def test_draws_that_cost_nothing_say_nothing():
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(200_000, 1))
    X[rng.choice(len(X), 50, replace=False)] = 0.0
    for seed in range(6):
        model = CoresetKMeans(3, random_state=seed).fit(iter([X]))
        assert model.inertia_ == pytest.approx(0.0, abs=1e-9)
        assert not model.sampling_error_ > 0.02


def test_a_chosen_size_that_costs_nothing_but_misses_rows_is_a_warning():
    X = np.random.default_rng(0).choice([-1.0, 1.0], size=(50_000, 1))
    X[:3] = 1e6
    with pytest.warns(ConvergenceWarning, match="on all rows, but nothing on the 200 draws"):
        CoresetKMeans(2, coreset_size=200, method="uniform", random_state=0).fit(X)


def test_draws_of_a_coreset_are_held_back_when_asked():
    coreset = lwcs.build(HEAVY, 1_000, random_state=0)
    model = CoresetKMeans(5, holdout=0.2, random_state=0).fit(coreset)
    assert 0.0 <= model.sampling_error_ < model.sampling_error_bound_
    assert model.inertia_ == pytest.approx(coreset.cost(model.cluster_centers_))
    with pytest.raises(
        ValueError, match=r"holdout=0.5 leaves \d+ distinct rows .* smaller holdout"
    ):
        CoresetKMeans(4, holdout=0.5, random_state=0).fit(lwcs.build(HEAVY, 6, random_state=0))


def test_nothing_is_held_back_where_all_rows_judge():
    options = {"coreset_size": 1_000, "random_state": 0}
    held = CoresetKMeans(5, holdout=0.2, **options).fit(HEAVY)
    plain = CoresetKMeans(5, **options).fit(HEAVY)
    np.testing.assert_array_equal(held.cluster_centers_, plain.cluster_centers_)
    assert held.sampling_error_ == plain.sampling_error_


def test_parts_of_a_union_do_not_judge_each_other():
    union = lwcs.build(HEAVY, 8_000, random_state=0) + lwcs.build(HEAVY, 8_000, random_state=1)
    assert np.isnan(CoresetKMeans(5, random_state=0).fit(union).sampling_error_)


def test_partial_fit_keeps_the_draws_of_a_fit():
    model = CoresetKMeans(3, random_state=0).fit(HEAVY)
    drawn = model.coreset_.size
    assert drawn == 20_000
    model.partial_fit(HEAVY[:100])
    assert model.coreset_.size >= drawn

"""Sizes and bounds are those of the paper's formulas, monotone, and refuse nonsense."""

from __future__ import annotations

from math import ceil, log
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs import theory
from lwcs.divergences import KL, ItakuraSaito


@pytest.mark.parametrize("k", [1, 2, 10, 500])
@pytest.mark.parametrize("c", [1.0, 7.5])
def test_theorem_two(k, c):
    expected = c * (13 * k * log(max(k, 2)) + log(1 / 0.05)) / 0.2**2
    assert theory.coreset_size(k, 13, 0.2, 0.05, constant=c) == ceil(expected)


def test_epsilon_is_the_way_back():
    m = theory.coreset_size(50, 20, 0.1, 0.01)
    assert theory.epsilon_for(m, 50, 20, 0.01) == pytest.approx(0.1, rel=1e-6)
    assert theory.epsilon_for(m, 50, 20, 0.01) <= 0.1


def test_equation_seven_and_theorem_four():
    expected = 30.0 / (0.2**2 * 0.05) * (13 * 10 * log(10) + log(20))
    assert theory.statistical_sample_size(30.0, 10, 13, 0.2, 0.05) == ceil(expected)
    # The summary is smaller than the sample by K/δ.
    ratio = theory.statistical_sample_size(30.0, 10, 13, 0.2, 0.05) / theory.coreset_size(
        10, 13, 0.2, 0.05
    )
    assert ratio == pytest.approx(30.0 / 0.05, rel=1e-3)


def test_theorem_one():
    assert theory.solution_bound(0.1, 10.0, 100.0) == pytest.approx(1.2 * 10.0 + 0.2 * 100.0)
    assert theory.solution_bound(0.1, 10.0, 100.0, approximation=3.0) == pytest.approx(
        3.0 * 1.2 * 10.0 + 4.0 * 0.1 * 100.0
    )
    # Never above the paper's φ* + 4εΦ, and equal to it where φ* = Φ.
    for best in (0.0, 3.0, 100.0):
        assert theory.solution_bound(0.3, best, 100.0) <= best + 4 * 0.3 * 100.0 + 1e-12
    assert theory.solution_bound(0.3, 100.0, 100.0) == pytest.approx(100.0 + 4 * 0.3 * 100.0)


def test_theorem_one_holds_for_a_coreset_with_its_measured_epsilon():
    """ε is taken from the coreset itself, over the two solutions that the proof uses."""
    X = np.random.default_rng(0).standard_t(3, size=(20_000, 3))
    full = lwcs.CoresetKMeans(8, coreset_size=10**6, n_init=5, random_state=0).fit(X)
    coreset = lwcs.build(X, 300, random_state=0)
    small = lwcs.CoresetKMeans(8, n_init=5, random_state=0).fit(coreset)
    gaps = []
    for centers in (full.cluster_centers_, small.cluster_centers_):
        cost = -_score(X, centers)
        gaps.append(2 * abs(cost - coreset.cost(centers)) / (cost + coreset.total_cost))
    epsilon = max(gaps)
    alpha = max(1.0, coreset.cost(small.cluster_centers_) / coreset.cost(full.cluster_centers_))
    bound = theory.solution_bound(epsilon, full.inertia_, coreset.total_cost, approximation=alpha)
    assert -_score(X, small.cluster_centers_) <= bound


def test_reductions_add_up():
    assert theory.reduced_epsilon(0.1, 1) == 0.1
    assert theory.reduced_epsilon(0.1, 2) == pytest.approx(0.1 + 0.1 * 1.15)
    assert np.all(np.diff([theory.reduced_epsilon(0.1, depth) for depth in range(1, 9)]) > 0)


def _score(X: np.ndarray, centers: np.ndarray) -> float:
    return -float(((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum())


def values(function, name, grid, **fixed):
    return [function(**{**fixed, name: value}) for value in grid]


SIZE = {"n_clusters": 10, "n_features": 5, "epsilon": 0.3, "delta": 0.1}
MONOTONE = [
    (theory.coreset_size, SIZE, "n_clusters", range(1, 40), 1),
    (theory.coreset_size, SIZE, "n_features", range(1, 40), 1),
    (theory.coreset_size, SIZE, "epsilon", np.linspace(0.01, 2.0, 30), -1),
    (theory.coreset_size, SIZE, "delta", np.linspace(0.01, 0.99, 30), -1),
    (theory.coreset_size, SIZE, "constant", np.linspace(0.1, 9.0, 30), 1),
    (theory.epsilon_for, {**SIZE, "size": 100}, "size", range(1, 900, 30), -1),
    (theory.epsilon_for, {**SIZE, "size": 100}, "n_clusters", range(1, 40), 1),
    (theory.epsilon_for, {**SIZE, "size": 100}, "n_features", range(1, 40), 1),
    (theory.epsilon_for, {**SIZE, "size": 100}, "delta", np.linspace(0.01, 0.99, 30), -1),
    (theory.epsilon_for, {**SIZE, "size": 100}, "constant", np.linspace(0.1, 9.0, 30), 1),
    *(
        (theory.statistical_sample_size, {**SIZE, "kurtosis": 3.0}, name, grid, sign)
        for name, grid, sign in (
            ("kurtosis", np.linspace(1.0, 50.0, 30), 1),
            ("n_clusters", range(1, 40), 1),
            ("n_features", range(1, 40), 1),
            ("epsilon", np.linspace(0.01, 1.0, 30), -1),
            ("delta", np.linspace(0.01, 0.99, 30), -1),
            ("constant", np.linspace(0.1, 9.0, 30), 1),
        )
    ),
    *(
        (theory.solution_bound, {"epsilon": 0.3, "optimal_cost": 5.0, "total_cost": 50.0}, *rest)
        for rest in (
            ("epsilon", np.linspace(0.01, 1.0, 30), 1),
            ("optimal_cost", np.linspace(0.0, 50.0, 30), 1),
            ("total_cost", np.linspace(5.0, 90.0, 30), 1),
            ("approximation", np.linspace(1.0, 20.0, 30), 1),
        )
    ),
    (theory.calibrated_size, {"n_clusters": 10, "error": 0.1}, "n_clusters", range(1, 40), 1),
    (
        theory.calibrated_size,
        {"n_clusters": 10, "error": 0.1},
        "error",
        np.linspace(0.01, 0.5, 30),
        -1,
    ),
]


@pytest.mark.parametrize(("function", "fixed", "name", "grid", "sign"), MONOTONE)
def test_monotone_in_every_argument(function, fixed, name, grid, sign):
    if function is theory.epsilon_for:
        fixed = {key: value for key, value in fixed.items() if key != "epsilon"}
    steps = sign * np.diff(values(function, name, grid, **fixed))
    # Sizes are rounded up, so that neighbours may be equal.
    assert (steps >= 0).all()
    assert steps.sum() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.coreset_size(0, 5, 0.1), "n_clusters"),
        (lambda: theory.coreset_size(2.5, 5, 0.1), "n_clusters"),
        (lambda: theory.coreset_size(10, 0, 0.1), "n_features"),
        (lambda: theory.coreset_size(10, 5, 0.0), "epsilon=0.0"),
        (lambda: theory.coreset_size(10, 5, -1.0), "epsilon=-1.0"),
        (lambda: theory.coreset_size(10, 5, float("nan")), "epsilon=nan"),
        (lambda: theory.coreset_size(10, 5, "0.1"), "epsilon='0.1'"),
        (lambda: theory.coreset_size(10, 5, 1e-170), "epsilon=1e-170"),
        (lambda: theory.coreset_size(10, 5, 0.1, 1.0), "delta=1.0"),
        (lambda: theory.coreset_size(10, 5, 0.1, 0.0), "delta=0.0"),
        (lambda: theory.coreset_size(10, 5, 0.1, constant=0.0), "constant=0.0"),
        (lambda: theory.epsilon_for(0, 10, 5), "size"),
        (lambda: theory.statistical_sample_size(0.9, 10, 5, 0.1), "kurtosis=0.9"),
        (lambda: theory.statistical_sample_size(float("inf"), 10, 5, 0.1), "kurtosis=inf"),
        (lambda: theory.statistical_sample_size(3.0, 10, 5, 1.5), "epsilon=1.5"),
        (lambda: theory.solution_bound(0.0, 1.0, 2.0), "epsilon=0.0"),
        (lambda: theory.solution_bound(0.1, 3.0, 2.0), "0 <= optimal_cost <= total_cost"),
        (lambda: theory.solution_bound(0.1, -1.0, 2.0), "0 <= optimal_cost <= total_cost"),
        (lambda: theory.solution_bound(0.1, 1.0, 2.0, approximation=0.5), "approximation=0.5"),
        (lambda: theory.calibrated_size(0, 0.1), "n_clusters"),
        (lambda: theory.calibrated_size(10, 0.0), "error=0.0"),
        (lambda: theory.calibrated_size(10, 2.0), "error=2.0"),
        (lambda: theory.reduced_epsilon(0.0, 2), "epsilon=0.0"),
        (lambda: theory.reduced_epsilon(0.1, 0), "depth"),
        (lambda: theory.kurtosis(np.ones((5, 2))), "all rows are equal"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_kurtosis_of_known_distributions():
    rng = np.random.default_rng(0)
    # Rows at one distance: exactly 1. A Gaussian in d dimensions: 1 + 2/d.
    assert theory.kurtosis([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]) == pytest.approx(1.0)
    assert theory.kurtosis(rng.standard_normal((200_000, 4))) == pytest.approx(1.5, abs=0.02)
    # Student's t with 9 degrees of freedom: (1 + 2/d)(ν − 2)/(ν − 4) = 1.5 · 7/5.
    tail = np.sqrt(9.0 / rng.chisquare(9.0, size=(400_000, 1)))
    assert theory.kurtosis(rng.standard_normal((400_000, 4)) * tail) == pytest.approx(2.1, rel=0.1)


def test_kurtosis_goes_with_weights_sparsity_and_partitions():
    rng = np.random.default_rng(0)
    X, w = rng.standard_t(5, size=(500, 3)), rng.integers(0, 4, size=500)
    expected = theory.kurtosis(np.repeat(X, w, axis=0))
    assert theory.kurtosis(X, sample_weight=w) == pytest.approx(expected)
    assert theory.kurtosis(sp.csr_array(X), sample_weight=w) == pytest.approx(expected)
    parts = [lwcs.scan(X[a:b], weight=w[a:b]) for a, b in ((0, 100), (100, 500))]
    assert theory.kurtosis(lwcs.PartitionedSource(parts)) == pytest.approx(expected)
    scaled = theory.kurtosis(lwcs.scan(X * [1.0, 50.0, 1e-3], scale="standard"))
    assert scaled == pytest.approx(theory.kurtosis(X / X.std(axis=0)))


def test_kurtosis_of_a_coreset_estimates_that_of_the_data():
    X = np.random.default_rng(0).standard_t(6, size=(100_000, 3))
    coreset = lwcs.build(X, 20_000, random_state=0)
    assert theory.kurtosis(coreset) == pytest.approx(theory.kurtosis(X), rel=0.1)
    scaled = lwcs.build(lwcs.scan(X, scale="standard"), 20_000, random_state=0)
    assert theory.kurtosis(scaled) == pytest.approx(theory.kurtosis(X / X.std(axis=0)), rel=0.1)
    with pytest.raises(ValueError, match="its own weights"):
        theory.kurtosis(coreset, sample_weight=np.ones(3))


def test_the_calibration_is_that_of_its_experiment():
    """The rows of the experiment are in docs/results/calibration; the fit is made anew."""
    from benchmarks.calibrate import CLUSTERS, DATA, RESULTS, fit

    root = Path(__file__).parents[2]
    cells = []
    for name in DATA:
        for k in CLUSTERS:
            stem = f"{name.replace(', d = ', '-')}-{k}"
            result = lwcs.load(root / RESULTS / "calibration" / f"{stem}.parquet")
            cells += result.cells(name, k)
    assert fit(cells) == (theory.CALIBRATED_AT, theory.CALIBRATED_POWER)
    lightweight = [cell for cell in cells if cell.key.method == "lightweight"]
    assert len(lightweight) == len(DATA) * len(CLUSTERS) * 5
    covered = [
        cell.error
        <= (theory.CALIBRATED_AT * cell.key.n_clusters / cell.key.size) ** theory.CALIBRATED_POWER
        for cell in lightweight
    ]
    assert np.mean(covered) >= 0.9


def test_bregman_sizes_grow_with_one_over_the_similarity_squared():
    hard = theory.coreset_size(10, 5, 0.1)
    assert theory.bregman_size(10, 5, 0.1, 1.0) == hard
    assert theory.bregman_size(10, 5, 0.1, 0.1) == pytest.approx(100 * hard, rel=1e-3)
    soft = theory.bregman_size(10, 5, 0.1, 1.0, 0.05, soft=True, constant=2.0)
    assert soft == ceil(2.0 * ((5 * 10) ** 2 + np.log(20.0)) / 0.01)


@pytest.mark.parametrize(
    ("similarity", "message"),
    [
        (0.0, "makes the bound infinite"),
        (1.5, "at most 1"),
        (-0.1, "at most 1"),
        ("kl", "at most 1"),
    ],
)
def test_a_similarity_that_says_nothing_is_refused(similarity, message):
    with pytest.raises(ValueError, match=message):
        theory.bregman_size(10, 5, 0.1, similarity)


def test_a_bound_beyond_all_data_is_called_empty():
    with pytest.warns(UserWarning, match="1e-15 gives a size of .* too large to be useful"):
        assert theory.bregman_size(10, 5, 0.1, 1e-15) > 10**30


def test_similarity_is_that_of_the_box_of_the_data():
    X = np.random.default_rng(0).uniform(0.5, 2.0, (1_000, 3))
    X[7, 1], X[500, 2] = 0.25, 4.0
    plain = KL(smoothing=0.0)
    assert theory.similarity(X, plain) == pytest.approx(0.25 / 4.0)
    assert theory.similarity(lwcs.PartitionedSource([X[:600], X[600:]]), "itakura_saito") == (
        pytest.approx((0.25 / 4.0) ** 2)
    )
    # Zeros of sparse rows count, and make KL unlike any squared distance.
    assert theory.similarity(sp.csr_array(np.array([[1.0, 0.0], [2.0, 3.0]])), plain) == 0.0
    assert theory.similarity(sp.csr_array(np.array([[1.0, 2.0], [2.0, 3.0]])), plain) == (
        pytest.approx(1.0 / 3.0)
    )
    assert theory.similarity(X - 5.0, "cosine") == 1.0
    with pytest.raises(ValueError, match=r"row 0, column 0 is -1.0; .*requires x >= 0"):
        theory.similarity(np.array([[-1.0, 2.0]]), "kl")
    with pytest.raises(ValueError, match="did you mean 'kl'"):
        theory.similarity(X, "kll")
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="row 3, column 2 is nan"):
        theory.similarity(X, "kl")


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_similarity_is_of_rows_as_they_are_measured(make):
    """Smoothed, or lifted to a floor, zeros are far from the edge; a column of zeros is nothing."""
    X = np.array([[1.0, 0.0, 0.0], [3.0, 4.0, 0.0]])
    # (1 − τ)·x + τ·mean: from 0.25·2 = 0.5 to 0.75·4 + 0.25·2 = 3.5.
    assert theory.similarity(make(X), KL(smoothing=0.25)) == pytest.approx(0.5 / 3.5)
    assert theory.similarity(make(X), ItakuraSaito(floor=0.5)) == pytest.approx((0.5 / 4.0) ** 2)


ABSURD = [0, -1, 0.0, -0.5, float("nan"), float("inf"), 1e308, 10**400, -(10**400), 1e-320, "x",
          None, True, 2**63]  # fmt: skip
SENSIBLE = {
    "coreset_size": (10, 5, 0.1, 0.1),
    "epsilon_for": (1_000, 10, 5, 0.1),
    "bregman_size": (10, 5, 0.1, 0.5, 0.1),
    "statistical_sample_size": (3.0, 10, 5, 0.1, 0.1),
    "solution_bound": (0.1, 1.0, 2.0),
    "reduced_epsilon": (0.1, 3),
    "calibrated_size": (10, 0.1),
}


@pytest.mark.parametrize("name", SENSIBLE)
@pytest.mark.filterwarnings("ignore:.*too large to be useful:UserWarning")
def test_absurd_arguments_give_a_bound_or_an_error_with_words(name):
    function, sensible = getattr(theory, name), SENSIBLE[name]
    assert function(*sensible) > 0
    for at in range(len(sensible)):
        for absurd in ABSURD:
            given = [*sensible[:at], absurd, *sensible[at + 1 :]]
            try:
                found = function(*given)
            except (ValueError, TypeError) as error:
                said = str(error)
            else:
                said = "" if np.isnan(float(found)) or found < 0 else f"a bound, {found}"
            assert len(said) > 5, given
            assert len(said) < 600, given
    if name not in ("solution_bound", "reduced_epsilon", "calibrated_size"):
        with pytest.raises(ValueError, match="constant=2\\*\\*1328 or more is not allowed"):
            function(*sensible, constant=10**400)


def test_a_bound_may_be_infinite_but_a_size_may_not():
    assert theory.solution_bound(1.0, 1e308, 1e308, approximation=1e300) == np.inf
    assert theory.solution_bound(1.0, 0.0, 0.0, approximation=1e308) == 0.0
    assert theory.reduced_epsilon(0.1, 10**12) == np.inf
    assert theory.reduced_epsilon(1e-40, 10**12) == pytest.approx(1e-28, rel=1e-9)
    with pytest.raises(ValueError, match="give an infinite size"):
        theory.coreset_size(10, 5, 1e-49, constant=1e300)
    assert theory.coreset_size(10, 5, 1e200) == 1


def test_reductions_grow_as_step_by_step():
    for epsilon in (0.01, 0.1, 1.0):
        total = epsilon
        for depth in range(1, 40):
            assert theory.reduced_epsilon(epsilon, depth) == pytest.approx(total, rel=1e-12)
            total += epsilon * (1.0 + 1.5 * total)


@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e-9, 1e9, 1e160, 1e190])
def test_kurtosis_does_not_depend_on_the_size_of_weights(factor):
    X, w = np.random.default_rng(0).standard_t(5, size=(500, 3)), np.arange(1.0, 501.0)
    expected = theory.kurtosis(X, sample_weight=w)
    assert theory.kurtosis(X, sample_weight=w * factor) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("factor", [1e-130, 1e-90, 1e-9, 1e9, 1e90, 1e130])
def test_kurtosis_does_not_depend_on_the_units_of_the_data(factor):
    X = np.random.default_rng(0).standard_t(5, size=(500, 3))
    assert theory.kurtosis(X * factor) == pytest.approx(theory.kurtosis(X), rel=1e-9)

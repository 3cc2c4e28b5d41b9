"""Coresets by a divergence follow d_φ(x, mean), are unbiased, and keep the two-term error.

Chi-squared and z-tests with fixed seeds; each fails a correct sampler with probability 1e-4
(Bonferroni over sets of centers), and there are 84 of them. The laws are written out here with
scipy's functions, not with ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import kl_div, logsumexp
from scipy.stats import norm

import lwcs
from lwcs import divergences
from lwcs.divergences import Divergence
from lwcs.geometry import Centers, Geometry, Measured
from lwcs.passes import full_cost
from lwcs.samplers.around_centers import (
    Assignment,
    approximation_factor,
    assign,
    draw_by_sensitivity,
)
from lwcs.samplers.sampler import Run
from tests.statistical.paths import data, in_parts, weights
from tests.statistical.verdicts import assert_follows, total_counts

FALSE_ALARM = 1e-4
M = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.4]])


@dataclass(frozen=True)
class Case:
    """A divergence, rows of its domain, what is done to rows first, and d_φ written out."""

    divergence: Divergence
    X: np.ndarray
    d: Callable[[np.ndarray, np.ndarray], np.ndarray]
    seen: Callable[[np.ndarray], np.ndarray] = lambda X: X

    def measured(self, w: np.ndarray) -> np.ndarray:
        """Rows as they are measured: seen, then smoothed."""
        rows, tau = self.seen(self.X), self.divergence.smoothing
        return (1.0 - tau) * rows + tau * (w @ rows / w.sum())

    def q(self, w: np.ndarray | None) -> np.ndarray:
        w = np.ones(len(self.X)) if w is None else w
        rows = self.measured(w)
        cost = w * self.d(rows, w @ rows / w.sum()).sum(axis=1)
        return 0.5 * w / w.sum() + 0.5 * cost / cost.sum()


def itakura_saito(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x / y - np.log(x / y) - 1.0


COUNTS = np.floor(np.abs(data()))
POSITIVE = np.abs(data()) + 0.1
CASES = {
    "kl": Case(divergences.KL(), COUNTS, kl_div),
    "kl, unsmoothed": Case(divergences.KL(smoothing=0.0), POSITIVE, kl_div),
    "kl_simplex": Case(
        divergences.SimplexKL(smoothing=0.2),
        COUNTS + np.eye(3)[2],
        kl_div,
        lambda X: X / X.sum(axis=1, keepdims=True),
    ),
    "itakura_saito": Case(divergences.ItakuraSaito(), POSITIVE, itakura_saito),
    "itakura_saito, floor": Case(
        divergences.ItakuraSaito(floor=0.5), COUNTS, itakura_saito, lambda X: np.maximum(X, 0.5)
    ),
    "exponential": Case(
        divergences.Exponential(),
        data() / 10.0,
        lambda x, y: np.exp(x) - np.exp(y) * (1.0 + x - y),
    ),
    "logistic": Case(
        divergences.Logistic(),
        np.minimum(COUNTS, 5.0) / 5.0,
        lambda x, y: kl_div(x, y) + kl_div(1.0 - x, 1.0 - y),
    ),
    "mahalanobis": Case(divergences.Mahalanobis(M), data(), lambda x, y: (x - y) @ M * (x - y)),
    "cosine": Case(
        divergences.Cosine(),
        data() + 30.0 * np.eye(3)[2],
        lambda x, y: (x - y) ** 2,
        lambda X: X / np.linalg.norm(X, axis=1, keepdims=True),
    ),
}
ALL = pytest.mark.parametrize("name", CASES)


def build(case: Case, rows: object, seed: int, size: int, **options: object) -> lwcs.Coreset:
    divergence = case.divergence
    return lwcs.build(rows, size, divergence=divergence, random_state=seed, n_jobs=1, **options)


@pytest.mark.usefixtures("small_partitions")
@ALL
@pytest.mark.parametrize("kind", ["sparse", "weighted", "partitioned"])
def test_draws_follow_the_divergence_from_the_mean(name, kind):
    case, w = CASES[name], weights() if kind == "weighted" else None
    rows = {"sparse": sp.csr_array, "weighted": np.asarray, "partitioned": in_parts}[kind](case.X)
    options = {} if w is None else {"sample_weight": w}
    path = (lambda s, m: build(case, rows, s, m, **options)), w
    assert_follows(total_counts(path, 400, 50), case.q(w))


@pytest.mark.usefixtures("small_partitions")
def test_stratified_draws_follow_it_too():
    case, rng, counts = CASES["kl"], np.random.default_rng(0), np.zeros(150, dtype=np.int64)
    method = lwcs.Lightweight(draws="stratified")
    for seed in range(2000):
        coreset = build(case, case.X, seed, 20, method=method)
        counts[rng.choice(np.repeat(coreset.indices, coreset.counts))] += 1
    assert_follows(counts, case.q(None))


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("passes", [1, 2])
def test_by_name_draws_follow_the_papers_squared_distance(passes):
    case, method = CASES["itakura_saito"], lwcs.Lightweight(distance="sqeuclidean")
    path = (lambda s, m: build(case, case.X, s, m, method=method, passes=passes)), None
    squared = replace(case, d=lambda x, y: (x - y) ** 2)
    assert_follows(total_counts(path, 400, 50), squared.q(None))
    coreset = build(case, case.X, 0, 50, method=method)
    assert coreset.details["distance"] == "sqeuclidean"
    assert coreset.total_cost is None


def center_sets(case: Case) -> list[np.ndarray]:
    rows, rng = case.measured(np.ones(len(case.X))), np.random.default_rng(3)
    sets = [
        rows.mean(axis=0, keepdims=True),
        rows[:40].mean(axis=0, keepdims=True),
        np.stack([part.mean(axis=0) for part in np.array_split(rows[rng.permutation(150)], 8)]),
    ]
    return [case.divergence.constrain(centers) for centers in sets]


def true_cost(case: Case, centers: np.ndarray, w: np.ndarray) -> float:
    rows = case.measured(w)
    return float(w @ np.min([case.d(rows, center).sum(axis=1) for center in centers], axis=0))


METHODS = {
    "lightweight": {},
    "d_A": {"method": lwcs.Lightweight(distance="sqeuclidean")},
    "uniform": {"method": "uniform"},
    "sensitivity": {"method": "sensitivity", "n_clusters": 4},
    "refined": {"method": "refined", "n_clusters": 4},
}


@pytest.mark.usefixtures("small_partitions")
@ALL
@pytest.mark.parametrize("method", METHODS)
def test_costs_are_unbiased(name, method):
    """And Σw/Ω + φ_C({mean})/Φ = 2, drawn by the divergence itself."""
    case, sets = CASES[name], center_sets(CASES[name])
    sparse = method == "sensitivity"
    rows = sp.csr_array(case.X) if sparse else case.X
    truth = np.array([true_cost(case, centers, np.ones(150)) for centers in sets])
    estimates = np.empty((150, len(sets)))
    for seed in range(len(estimates)):
        coreset = build(case, rows, seed, 40, **METHODS[method])
        estimates[seed] = [coreset.cost(centers) for centers in sets]
        if method == "lightweight":
            own = coreset.geometry()
            mean = Centers(own.mean[None, :], own)
            at_mean = own.measured(coreset.points).distances_to(mean) @ coreset.weights
            total = coreset.weights.sum() / coreset.total_weight + at_mean / coreset.total_cost
            assert total == pytest.approx(2.0)
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    z = (estimates.mean(axis=0) - truth) / error
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / 2 / len(sets)), z


@pytest.mark.usefixtures("small_partitions")
def test_costs_of_streams_are_unbiased():
    """Rows of a stream are drawn by squared distances, and measured by the divergence."""
    case, sets = CASES["kl"], center_sets(CASES["kl"])[1:]
    truth = np.array([true_cost(case, centers, np.ones(150)) for centers in sets])
    estimates = np.empty((150, len(sets)))
    for seed in range(len(estimates)):
        stream = lwcs.StreamingCoreset(40, divergence="kl", random_state=seed)
        stream.update(case.X)
        estimates[seed] = [stream.coreset().cost(centers) for centers in sets]
    z = (estimates.mean(axis=0) - truth) / (estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates)))
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / 2 / len(sets)), z


@dataclass(frozen=True)
class Real:
    """Real rows, with rows from which centers are chosen."""

    rows: object
    divergence: Divergence
    size: int
    """Draws for ε = 0.1; spectra span eleven decades, and need more."""

    @property
    def n(self) -> int:
        return self.rows.shape[0]

    @cache  # noqa: B019  # two of these live as long as the tests
    def coreset(self, seed: int, size: int) -> lwcs.Coreset:
        return lwcs.build(self.rows, size, divergence=self.divergence, random_state=seed)

    def __hash__(self) -> int:
        return id(self.rows)

    def written_out(self) -> np.ndarray:
        """d_φ of every row from the mean, by scipy's functions on dense parts of the rows."""
        mean, parts = np.asarray(self.rows.mean(axis=0), dtype=np.float64).ravel(), []
        for start in range(0, self.n, 500):
            part = self.rows[start : start + 500]
            dense = np.asarray(part.toarray() if sp.issparse(part) else part, dtype=np.float64)
            tau = self.divergence.smoothing
            d = kl_div if self.divergence.name == "kl" else itakura_saito
            parts.append(d((1.0 - tau) * dense + tau * mean, mean).sum(axis=1))
        return np.concatenate(parts)


@pytest.fixture(scope="module", params=["kl on 20 Newsgroups", "Itakura-Saito on mel spectra"])
def real(request: pytest.FixtureRequest) -> Real:
    if request.param.startswith("kl"):
        return Real(request.getfixturevalue("news"), divergences.KL(), 5_000)
    return Real(request.getfixturevalue("mel"), divergences.ItakuraSaito(), 20_000)


def real_sets(real: Real) -> list[np.ndarray]:
    """24 sets: means of random groups of rows, and of few rows, smoothed as rows are."""
    rng, own = np.random.default_rng(0), real.coreset(0, 2_000).geometry()
    sets = []
    for k in (1, 2, 5, 20):
        for members in (1, 20, 500):
            for _ in range(2):
                groups = [real.rows[rng.choice(real.n, members)] for _ in range(k)]
                rows = [own.measured(group).full(slice(None)) for group in groups]
                sets.append(np.stack([each.mean(axis=0) for each in rows]))
    return sets


def test_draws_of_real_rows_follow_the_divergence(real):
    d = real.written_out()
    counts = np.zeros(real.n, dtype=np.int64)
    for seed in range(12):
        coreset = lwcs.build(real.rows, 20_000, divergence=real.divergence, random_state=seed)
        assert coreset.total_cost == pytest.approx(d.sum(), rel=1e-6)
        counts[coreset.indices] += coreset.counts
    assert_follows(counts, 0.5 / real.n + 0.5 * d / d.sum())


def test_real_costs_are_unbiased_and_keep_the_two_term_error(real):
    """|φ_X − φ_C| ≤ ε/2·φ_X + ε/2·Φ, ε = 0.1, 24 sets of centers; z-tests over 20 coresets."""
    source, sets = lwcs.scan(real.rows), real_sets(real)
    coresets = [real.coreset(seed, real.size) for seed in range(20)]
    own = coresets[0].geometry()
    full = np.array([full_cost(source, own.centers(centers)) for centers in sets])
    some = sets[::3]
    costs = np.array([[coreset.cost(centers) for centers in some] for coreset in coresets])
    z = (costs.mean(axis=0) - full[::3]) / (costs.std(axis=0, ddof=1) / np.sqrt(len(costs)))
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / 2 / len(some)), z
    allowed = 0.5 * full + 0.5 * coresets[0].total_cost
    for coreset in coresets[:3]:
        errors = np.abs([coreset.cost(centers) for centers in sets] - full) / allowed
        assert errors.max() < 0.1, errors.max()


def soft_cost(rows: Measured, w: np.ndarray, centers: np.ndarray, shares: np.ndarray) -> float:
    """Σω·(−ln Σ_j π_j·e^(−d(x, m_j)))."""
    given = rows.geometry.centers(centers)
    each = [rows.distances(given, np.full(len(rows), j)) for j in range(len(given))]
    return float(w @ -logsumexp(np.log(shares)[:, None] - np.stack(each), axis=0))


def test_the_soft_cost_keeps_the_two_term_error_too(real):
    """The same bound with ε = 0.1 for the cost of a mixture: 6 sets of centers, 3 coresets."""
    rng, sets = np.random.default_rng(1), real_sets(real)[::4]
    shares = [rng.dirichlet(np.ones(len(centers))) for centers in sets]
    own = real.coreset(0, real.size).geometry()
    all_rows, ones = own.measured(real.rows), np.ones(real.n)
    full = [soft_cost(all_rows, ones, *pair) for pair in zip(sets, shares, strict=True)]
    for seed in range(3):
        coreset = real.coreset(seed, real.size)
        drawn = own.measured(coreset.points)
        for centers, pi, cost in zip(sets, shares, full, strict=True):
            error = abs(soft_cost(drawn, coreset.weights, centers, pi) - cost)
            assert error < 0.1 * (0.5 * cost + 0.5 * coreset.total_cost)


@pytest.mark.usefixtures("small_partitions")
@pytest.mark.parametrize("kept", [True, False], ids=["in memory", "partitioned"])
@pytest.mark.parametrize("name", ["kl", "itakura_saito"])
def test_sensitivities_are_those_of_the_divergence(name, kept):
    """s = α·d/c + 2α·S_i/(Ω_i·c) + 4Ω/Ω_i around given centers, written out."""
    case, w, alpha = CASES[name], weights(), approximation_factor(4)
    rows = case.measured(w)
    centers = np.stack([part.mean(axis=0) for part in np.array_split(rows[w > 0], 4)])
    each = np.stack([case.d(rows, center).sum(axis=1) for center in centers])
    label, d = each.argmin(axis=0), each.min(axis=0)
    weight, cost = np.bincount(label, w, 4), np.bincount(label, w * d, 4)
    average = cost.sum() / w.sum()
    s = alpha * d / average + (2 * alpha * cost / weight / average + 4 * w.sum() / weight)[label]
    source = lwcs.scan(case.X, weight=w) if kept else in_parts(case.X, w)
    own = Geometry(case.divergence, mean=w @ case.seen(case.X) / w.sum())
    given = own.centers(centers)
    counts = np.zeros(150, dtype=np.int64)
    for seed in range(400):
        run = Run(seed, Geometry(case.divergence), 1)
        initial = assign(source, given, run) if kept else Assignment(given)
        draws = draw_by_sensitivity(source, initial, 4, 50, None, run)
        counts[draws.indices] += draws.counts
    assert_follows(counts, w * s / (w @ s))

"""method="auto": lightweight where that is enough, around its centers or uniform where better."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.hard_clusters import AT_THE_MEAN, FAMILIES

import lwcs
from lwcs import CoresetKMeans
from lwcs.passes import euclidean_cost
from lwcs.sizing import decision
from lwcs.solvers.lloyd import solve
from lwcs.solvers.points import Points
from lwcs.sources.memory.partitioned import PartitionedSource

RNG = np.random.default_rng(0)
HEAVY = RNG.standard_t(4, size=(60_000, 6)) + 20.0 * RNG.integers(0, 3, (60_000, 1))
ROUND = RNG.normal(size=(60_000, 10))


def fitted(X, k: int, **options) -> CoresetKMeans:
    return CoresetKMeans(k, method="auto", random_state=0, **options).fit(X)


def over_best(model: CoresetKMeans, X: np.ndarray, places: np.ndarray) -> float:
    """Cost over that of Lloyd's algorithm on all rows, from where they were made."""
    best = solve(Points.of(X, None), len(places), init=places).cost
    return euclidean_cost(lwcs.scan(X), model.cluster_centers_) / best


def test_it_stays_with_lightweight_to_the_last_bit_where_that_is_enough():
    own, plain = fitted(HEAVY, 8), CoresetKMeans(8, method="lightweight", random_state=0).fit(HEAVY)
    assert own.coreset_ == plain.coreset_
    assert np.array_equal(own.cluster_centers_, plain.cluster_centers_)
    assert own.sampling_error_ == plain.sampling_error_
    assert "enough to reach the target" in own.diagnosis_.choice
    assert (own.diagnosis_.asked, own.diagnosis_.used) == ("auto", "lightweight")


@pytest.mark.parametrize("family", [FAMILIES["geometric"], FAMILIES["halving"], AT_THE_MEAN])
@pytest.mark.parametrize("size", ["auto", 1_500])
def test_data_on_which_lightweight_fails_is_drawn_around_centers(family, size):
    """Also where no final pass is asked for, which the draws alone would call a success."""
    X, places = family(100_000, 10, 20, 0), family.centers(100_000, 10, 20, 0)
    model = fitted(X, 20, coreset_size=size, compute_labels=False)
    assert over_best(model, X, places) < 1.05
    assert model.coreset_.method == "refined"
    assert model.coreset_.size == (20_000 if size == "auto" else size)
    assert "labels_" not in vars(model)
    assert model.diagnosis_.errors["lightweight"] > 10 * model.diagnosis_.errors["refined"]


def test_all_rows_are_looked_at_where_draws_that_agree_may_have_missed_clusters():
    """The draws that are not used have missed them too, so that they find no error."""
    family = FAMILIES["halving"]
    X, places = family(100_000, 20, 20, 0), family.centers(100_000, 20, 20, 0)
    options = {"compute_labels": False, "random_state": 1}
    with pytest.warns(UserWarning, match=r"^lightweight draws are not right.*'refined'"):
        plain = CoresetKMeans(20, method="lightweight", **options).fit(X)
    assert plain.sampling_error_ < 0.02
    assert over_best(plain, X, places) > 100.0
    model = CoresetKMeans(20, method="auto", **options).fit(X)
    assert over_best(model, X, places) < 1.01
    assert model.diagnosis_.on_all_rows
    assert "missed clusters" in model.diagnosis_.choice
    assert model.inertia_ == pytest.approx(euclidean_cost(lwcs.scan(X), model.cluster_centers_))


def test_fewer_draws_around_centers_take_the_place_of_all_rows():
    """Where lightweight draws grow until all rows are taken, a twentieth of them is enough."""
    X, places = AT_THE_MEAN(200_000, 5, 20, 1), AT_THE_MEAN.centers(200_000, 5, 20, 1)
    plain = CoresetKMeans(20, method="lightweight", random_state=0, compute_labels=False)
    assert plain.fit(X).coreset_.exact
    model = fitted(X, 20, compute_labels=False)
    assert (model.coreset_.method, model.coreset_.size) == ("refined", 20_000)
    assert over_best(model, X, places) < 1.01


@pytest.fixture
def slow_to_read(monkeypatch) -> None:
    """All data is so large that a pass is worth saving."""
    monkeypatch.setattr(decision, "_WORTH_BYTES", 0)


def test_rows_about_equally_far_from_their_mean_are_drawn_uniformly_if_that_is_judged(slow_to_read):
    model = fitted(ROUND, 20)
    assert model.coreset_ == lwcs.build(ROUND, 20_000, method="uniform", random_state=0)
    assert model.diagnosis_.on_all_rows
    assert "equally far" in str(model.diagnosis_)
    unjudged = fitted(ROUND, 20, compute_labels=False)
    assert unjudged.coreset_.method == "lightweight", "nothing would tell what they have missed"


def test_rows_that_uniform_draws_have_missed_are_found(slow_to_read):
    """Single rows far away, which the pilot does not contain."""
    X = np.vstack([ROUND, 500.0 * np.eye(10)[:3]])
    for size in ("auto", 1_000):
        model = fitted(X, 13, coreset_size=size)
        assert model.coreset_.method != "uniform"
        assert np.bincount(model.labels_, minlength=13).min() == 1


def test_files_and_partitions_and_sparse_rows_and_weights_are_chosen_for(tmp_path):
    X, k = FAMILIES["halving"](60_000, 5, 18, 0), 18
    np.save(tmp_path / "x.npy", X)
    parts = np.array_split(X, 3)
    for data in (str(tmp_path / "x.npy"), PartitionedSource(parts), sp.csr_array(X)):
        model = fitted(data, k, compute_labels=False)
        assert model.coreset_.method == "refined"
        assert euclidean_cost(lwcs.scan(X), model.cluster_centers_) < 1.05 * 60_000 * 5e-8
    weighted = CoresetKMeans(k, method="auto", random_state=0, compute_labels=False)
    weighted.fit(X, sample_weight=np.full(len(X), 2.0))
    assert weighted.coreset_.method == "refined"


@pytest.fixture(scope="module")
def uneven() -> np.ndarray:
    """30 clusters of sizes 1:300, small ones wide: lightweight draws are 10 % worse, not lost."""
    rng, k = np.random.default_rng(0), 30
    sizes = np.geomspace(1.0, 300.0, k)
    whose = rng.choice(k, 40_000, p=sizes / sizes.sum())
    spreads = np.geomspace(3.0, 0.3, k)[whose]
    noise = spreads[:, None] * rng.normal(size=(len(whose), 8))
    return 20.0 * rng.normal(size=(k, 8))[whose] + noise


def test_a_size_that_leaves_no_choice_is_warned_of_as_if_lightweight_was_asked_for(uneven):
    options = {"coreset_size": 2_500, "compute_labels": False, "init": "local-search"}
    with pytest.warns(
        UserWarning,
        match=r"^lightweight draws are not right.*with method='refined'; leave out coreset_size, "
        r"or pass method='refined'$",
    ):
        own = fitted(uneven, 30, **options)
    with pytest.warns(UserWarning, match=r"^lightweight draws.*; pass that, or method='auto'$"):
        plain = CoresetKMeans(30, method="lightweight", random_state=0, **options).fit(uneven)
    assert own.coreset_ == plain.coreset_
    fitted(uneven, 30, compute_labels=False)
    CoresetKMeans(30, method="refined", random_state=0, **options).fit(uneven)


@pytest.mark.parametrize("method", ["auto", "lightweight"])
def test_rows_that_are_gone_are_warned_of_and_can_be_written_to_a_file(uneven, method):
    model = CoresetKMeans(30, coreset_size=2_500, method=method, random_state=0)
    with pytest.warns(UserWarning, match=r"^lightweight draws are.*write the rows to a file first"):
        model.fit(iter([uneven]))


def test_rows_that_are_gone_are_advised_of_a_method_that_reads_them_once(uneven):
    far = np.vstack([uneven, [1e4 * np.ones(8)] * 40])
    model = CoresetKMeans(30, coreset_size=2_500, method="uniform", random_state=0)
    with pytest.warns(UserWarning, match=r"^uniform draws are.*method='lightweight'; pass that$"):
        model.fit(iter([np.random.default_rng(0).permutation(far)]))


def test_a_pilot_hides_no_error_but_that_of_its_rows(slow_to_read, monkeypatch):
    def broken(*_: object) -> bool:
        raise ValueError("a defect")

    monkeypatch.setattr(decision, "_isotropic", broken)
    with pytest.raises(ValueError, match="a defect"):
        fitted(ROUND, 20)


def test_rows_that_a_pilot_refuses_are_refused_as_without_one(slow_to_read):
    X = ROUND.copy()
    X[7:, 3] = np.nan
    said = []
    for method in ("auto", "lightweight"):
        with pytest.raises(ValueError, match="column 3 is nan") as refused:
            CoresetKMeans(20, method=method, random_state=0).fit(X)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_rows_that_can_be_read_only_once_leave_no_choice():
    model = fitted(iter([HEAVY]), 8)
    assert model.coreset_.method == "lightweight"
    assert "only once" in str(model.diagnosis_)


def test_batches_are_drawn_from_as_by_lightweight():
    models = [CoresetKMeans(3, method=method, random_state=0) for method in ("auto", "lightweight")]
    for model in models:
        for batch in np.array_split(HEAVY[:5_000], 3):
            model.partial_fit(batch)
    assert np.array_equal(models[0].cluster_centers_, models[1].cluster_centers_)
    assert models[0].diagnosis_.used == "lightweight"


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito", "cosine"])
def test_divergences_are_diagnosed(divergence):
    X = RNG.gamma(2.0, size=(45_000, 4)) + 5.0 * RNG.integers(0, 3, (45_000, 1)) + 0.1
    model = fitted(X, 5, divergence=divergence)
    assert set(model.diagnosis_.errors) == {"uniform", "lightweight", "refined"}
    assert 0.0 < model.diagnosis_.cost_share < 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: lwcs.build(HEAVY, 100, method="auto"),
        lambda: lwcs.CoresetMixture(2, method="auto").fit(HEAVY),
    ],
)
def test_where_nothing_is_chosen_auto_is_refused_with_words(make):
    with pytest.raises(ValueError, match=r"method='auto' is for CoresetKMeans.*pass one of"):
        make()


def test_all_rows_say_that_nothing_was_sampled():
    found = fitted(HEAVY[:5_000], 3).diagnosis_
    assert "nothing was sampled" in str(found)
    assert (found.errors, found.on_all_rows) == ({}, True)


def test_a_misspelt_method_is_told_what_is_allowed():
    with pytest.raises(ValueError, match=r"'auto', 'lightweight'.*did you mean 'auto'"):
        CoresetKMeans(3, method="Auto").fit(HEAVY)

"""Clusters that are real are found again; parts of a cluster, and noise, are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.structure_data import segment
from scipy import sparse

import lwcs
from lwcs.storage.fields import Fields

FEW = 5
# Some clusters are elongated along one column, as the fit says.
pytestmark = pytest.mark.filterwarnings("ignore:.*of all squared distances:lwcs.ColumnWarning")


def blobs(k: int, d: int, n: int, *, stretch: float = 1.0, sizes: str = "equal") -> Any:
    """Rows of k Gaussians whose nearest centers are 8 standard deviations apart, and whose each."""
    rng = np.random.default_rng(k * d)
    weights = np.ones(k) if sizes == "equal" else np.geomspace(1.0, 10.0, k)
    whose = np.repeat(np.arange(k), np.round(n * weights / weights.sum()).astype(int))
    side = int(np.ceil(np.sqrt(k)))
    centers = np.zeros((k, d))
    centers[:, 0], centers[:, 1] = np.arange(k) % side, np.arange(k) // side
    rows = rng.normal(size=(len(whose), d))
    rows[:, 0] *= stretch
    return rows + 8.0 * stretch * centers[whose], whose


@pytest.fixture(scope="module")
def four() -> Any:
    return blobs(4, 2, 2_000)[0]


def same(one: lwcs.Stability, other: lwcs.Stability) -> bool:
    return one.pairs == other.pairs and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("score", "jaccard", "share", "share_error", "center_error")
    )


@pytest.mark.parametrize("sizes", ["equal", "unequal"])
@pytest.mark.parametrize("stretch", [1.0, 5.0], ids=["round", "elongated"])
@pytest.mark.parametrize(("k", "d"), [(4, 2), (10, 10), (6, 50)])
def test_whole_clusters_score_high_parts_low(k: int, d: int, stretch: float, sizes: str) -> None:
    """docs/results/stability.md has no cell that fails; seeds are fixed."""
    X, whose = blobs(k, d, 400 * k, stretch=stretch, sizes=sizes)
    for many in (k, k + 2):
        model = lwcs.CoresetKMeans(many, random_state=0, n_jobs=1).fit(X)
        scores = model.stability(n_bootstrap=FEW).score
        table = np.zeros((many, k))
        np.add.at(table, (model.labels_, whose), 1)
        # The part that is of one Gaussian: two small ones may share a center.
        pure = table.max(axis=1) > 0.9 * table.sum(axis=1)
        part = table.max(axis=1) / table.sum(axis=0)[table.argmax(axis=1)]
        whole = pure & (part > 0.9)
        assert whole.sum() >= k - 2
        assert (scores[whole] > 0.85).all()
        assert (scores[pure & (part < 0.7)] < 0.6).all()


@pytest.mark.parametrize(("seed", "k"), [(44, 4), (48, 4), (104, 6)])
def test_a_segment_keeps_its_score_where_its_neighbour_is_cut(seed: int, k: int) -> None:
    """Parts of the neighbour show no valley to a segment of 6 %; the whole shows one."""
    X, whose = segment(seed)
    model = lwcs.CoresetKMeans(k, random_state=seed).fit(X)
    found = model.stability(n_bootstrap=2)
    own = int(np.bincount(model.labels_[whose == whose.max()]).argmax())
    assert found.jaccard[own] > 0.95
    assert found.score[own] > 0.95
    assert not any(own in pair for pair in found.pairs)


def test_plain_overlaps_would_call_halves_stable() -> None:
    """An elongated cluster is cut at the same place every time: `jaccard` alone cannot tell."""
    X = np.random.default_rng(0).normal(size=(2_000, 2)) * [10.0, 1.0]
    found = lwcs.CoresetKMeans(2, random_state=0).fit(X).stability(n_bootstrap=FEW)
    assert (found.jaccard > 0.85).all()
    assert (found.score < 0.6).all()
    assert found.pairs == ((0, 1),)


def test_uniform_noise_has_no_stable_cluster() -> None:
    X = np.random.default_rng(0).uniform(size=(3_000, 3))
    found = lwcs.CoresetKMeans(6, random_state=0).fit(X).stability(n_bootstrap=FEW)
    assert (found.score < 0.6).all()


def test_shares_and_centers_have_the_errors_that_other_draws_show() -> None:
    """Over 40 coresets; each ratio of standard deviations errs by 16 %, so 1 in 100 runs fails."""
    X = blobs(3, 2, 60_000)[0]
    how = {"coreset_size": 2_000, "init": X[[0, 20_000, 40_000]], "compute_labels": False}
    shares, centers = [], []
    for seed in range(40):
        model = lwcs.CoresetKMeans(3, random_state=seed, **how).fit(X)
        shares.append(model.fitted_on_.shares)
        centers.append(model.cluster_centers_)
    found = model.stability(n_bootstrap=40)
    np.testing.assert_allclose(found.share_error, np.std(shares, axis=0), rtol=0.5)
    np.testing.assert_allclose(found.share_error, np.sqrt(model.fitted_on_.share_variances))
    np.testing.assert_allclose(found.center_errors, np.std(centers, axis=0), rtol=0.5)
    np.testing.assert_allclose(found.center_error, np.linalg.norm(found.center_errors, axis=1))


def test_same_seed_same_result_for_any_number_of_threads(four: Any) -> None:
    one = lwcs.CoresetKMeans(5, random_state=3, n_jobs=1).fit(four).stability(n_bootstrap=FEW)
    two = lwcs.CoresetKMeans(5, random_state=3, n_jobs=2).fit(four).stability(n_bootstrap=FEW)
    other = lwcs.CoresetKMeans(5, random_state=3).fit(four)
    assert same(one, two)
    assert not same(one, other.stability(n_bootstrap=FEW, random_state=4))


@pytest.mark.parametrize("unit", [1e-150, 1e140])
def test_the_unit_of_the_numbers_does_not_matter(four: Any, unit: float) -> None:
    found = lwcs.CoresetKMeans(4, random_state=0).fit(four * unit).stability(n_bootstrap=FEW)
    assert (found.score > 0.85).all()
    assert (found.center_error / unit < 1.0).all()
    assert (found.center_error / unit > 0.01).all()


def test_sparse_rows_weights_and_float32_are_judged_alike(four: Any) -> None:
    wanted = lwcs.CoresetKMeans(4, random_state=0).fit(four).stability(n_bootstrap=FEW)
    for rows in (sparse.csr_array(four), four.astype(np.float32), four):
        weights = np.full(len(four), 3.0) if rows is four else None
        model = lwcs.CoresetKMeans(4, random_state=0).fit(rows, sample_weight=weights)
        found = model.stability(n_bootstrap=FEW)
        np.testing.assert_allclose(np.sort(found.score), np.sort(wanted.score), atol=0.02)


def test_weights_count(four: Any) -> None:
    """A cluster whose rows have little weight has a small share."""
    weights = np.where(np.arange(len(four)) < 500, 0.3, 1.0)
    model = lwcs.CoresetKMeans(4, random_state=0).fit(four, sample_weight=weights)
    found = model.stability(n_bootstrap=FEW)
    assert found.share.min() == pytest.approx(150 / 1650)
    assert (found.score > 0.85).all()


def test_divergences_are_judged() -> None:
    rng = np.random.default_rng(0)
    rates = np.repeat([[2.0, 30.0, 10.0], [30.0, 2.0, 10.0], [10.0, 10.0, 60.0]], 400, axis=0)
    model = lwcs.CoresetKMeans(3, divergence="kl", random_state=0).fit(rng.poisson(rates) + 0.0)
    assert (model.stability(n_bootstrap=FEW).score > 0.85).all()
    many = lwcs.CoresetKMeans(4, divergence="kl", random_state=0).fit(rng.poisson(rates) + 0.0)
    assert (np.sort(many.stability(n_bootstrap=FEW).score)[:2] < 0.6).all()


def test_scaled_columns_are_judged_in_their_scale() -> None:
    """Clusters differ in columns that are tiny beside the noise of the other."""
    rng = np.random.default_rng(0)
    corners = np.repeat(np.eye(3), 1_000, axis=0) + rng.normal(size=(3_000, 3)) * 0.05
    X = np.column_stack([rng.normal(size=3_000) * 1e6, corners])
    source = lwcs.scan(X, scale="standard")
    found = lwcs.CoresetKMeans(3, random_state=0).fit(source).stability(n_bootstrap=FEW)
    assert (found.score > 0.85).all()
    plain = lwcs.CoresetKMeans(3, random_state=0).fit(X).stability(n_bootstrap=FEW)
    assert (plain.score < 0.6).all()


def test_a_loaded_model_keeps_the_result_and_judges_given_data(four: Any, tmp_path: Any) -> None:
    model = lwcs.CoresetKMeans(5, random_state=0).fit(four)
    model.save(tmp_path / "m.parquet")
    loaded = lwcs.load(tmp_path / "m.parquet")
    assert not hasattr(loaded, "stability_")
    with pytest.raises(ValueError, match=r"no coreset; pass the data or a coreset"):
        loaded.stability()
    found = model.stability(n_bootstrap=FEW)
    again = loaded.stability(four, n_bootstrap=FEW)
    assert same(found, again)
    assert same(found, loaded.stability(model.coreset_, n_bootstrap=FEW))
    loaded.save(tmp_path / "n.parquet")
    kept = lwcs.load(tmp_path / "n.parquet").stability_
    assert same(kept, found)
    assert str(kept) == str(found)
    assert kept.center_errors is None


def test_files_tables_and_streams_are_judged(four: Any, tmp_path: Any) -> None:
    model = lwcs.CoresetKMeans(4, random_state=0).fit(pa.table({"a": four[:, 0], "b": four[:, 1]}))
    table = pa.table({"b": four[:, 1], "a": four[:, 0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    batches = lwcs.scan(iter([four[:1_000], four[1_000:]]))
    for data in (table, str(tmp_path / "rows.parquet"), batches):
        assert (model.stability(data, n_bootstrap=2).score > 0.85).all()


def test_damaged_results_in_a_file_are_refused(four: Any) -> None:
    model = lwcs.CoresetKMeans(3, random_state=0).fit(four)
    good = model.stability(n_bootstrap=2).saved()
    read = lwcs.Stability.read(Fields({"stability": good}), 3)
    assert read is not None
    assert same(read, model.stability_)
    for name, value in {
        "score": [0.5, 2.0, 0.5], "jaccard": [0.5], "share": None, "share_error": [-1.0, 0, 0],
        "center_error": "x", "pairs": [1, 0] * len(model.stability_.pairs) or [1],
        "n_pairs": 10**9, "n_bootstrap": 0, "draws": 1.5,
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"stability.{name}"):
            lwcs.Stability.read(Fields({"stability": {**good, name: value}}), 3)


def test_a_further_fit_forgets_the_result(four: Any) -> None:
    model = lwcs.CoresetKMeans(4, random_state=0).partial_fit(four)
    model.stability(n_bootstrap=2)
    assert not hasattr(model.partial_fit(four), "stability_")
    model.stability(n_bootstrap=2)
    assert not hasattr(model.fit(four), "stability_")


def test_text_and_tables_show_the_least_stable_first() -> None:
    X = blobs(24, 2, 4_800)[0]
    found = lwcs.CoresetKMeans(25, random_state=0).fit(X).stability(n_bootstrap=4)
    lines = str(found).splitlines()
    assert lines[0].startswith(f"{(found.score > 0.85).sum()} of 25 clusters are stable")
    assert lines[2].split()[0] == str(int(np.argmin(found.score)))
    assert lines[-3].startswith("and 5 more, which score")
    assert lines[-2].startswith("No gap between these clusters, which may be parts of one: ")
    assert found._repr_html_().count("<tr>") == 26
    table = pa.table(found)
    assert table.column_names[:3] == ["cluster", "score", "jaccard"]
    assert table["score"].to_pylist() == found.score.tolist()


def test_one_cluster_and_as_many_as_rows_are_judged() -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    one = lwcs.CoresetKMeans(1, random_state=0).fit(X).stability(n_bootstrap=2)
    assert one.score.tolist() == [1.0]
    each = lwcs.CoresetKMeans(12, random_state=0).fit(X).stability(n_bootstrap=4)
    assert (each.score < 0.85).any()


def test_progress_is_shown(four: Any) -> None:
    seen: list[Any] = []
    model = lwcs.CoresetKMeans(4, random_state=0).fit(four)
    model.set_params(verbose=seen.append).stability(n_bootstrap=3)
    steps = [each.done for each in seen if each.stage == "bootstrap"]
    assert max(steps) == 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n_bootstrap": 1}, ValueError, "n_bootstrap=1 is too small"),
        ({"n_bootstrap": "30"}, TypeError, "n_bootstrap='30' is not an integer"),
        ({"random_state": -1}, ValueError, "random_state=-1 is negative"),
        ({"data": np.full((20, 2), np.nan)}, ValueError, "nan"),
        ({"data": np.zeros((20, 3))}, ValueError, "3 features"),
        ({"data": np.zeros((3, 2))}, ValueError, "n_clusters=4"),
        ({"sample_weight": np.ones(5)}, ValueError, "has its own weights"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_with_words(
    four: Any, arguments: Any, error: type[Exception], words: str
) -> None:
    model = lwcs.CoresetKMeans(4, random_state=0).fit(four)
    with pytest.raises(error, match=words):
        model.stability(**arguments)
    assert not hasattr(model, "stability_")


def test_coresets_of_other_data_are_refused(four: Any) -> None:
    model = lwcs.CoresetKMeans(4, random_state=0).fit(four)
    with pytest.raises(ValueError, match="3 features"):
        model.stability(lwcs.build(np.random.default_rng(0).normal(size=(500, 3)), 100))


def test_words_count_every_cluster() -> None:
    """Also those between stable and not, and one in the singular."""
    zeros = np.zeros(4)
    found = lwcs.Stability(np.array([0.9, 0.7, 0.7, 0.2]), *[zeros] * 3, None, zeros, (), 2, 9, 9)
    assert found.words() == (
        "1 of 4 clusters is stable (score > 0.85), 1 is not (score < 0.6), 2 are in between"
    )
    assert "jaccard: how much of a cluster is found again" in str(found)


def test_the_length_of_an_error_is_measured_as_distances_are():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(c, 1.0, (500, 2)) for c in (0, 8)]) * [1.0, 1e6]
    found = lwcs.CoresetKMeans(2, random_state=0).fit(lwcs.scan(X, scale="standard")).stability()
    lengths = np.linalg.norm(found.center_errors / X.std(axis=0), axis=1)
    np.testing.assert_allclose(found.center_error, lengths, rtol=1e-6)
    assert found.center_error.max() < 0.1

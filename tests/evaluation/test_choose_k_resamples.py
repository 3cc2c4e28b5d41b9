"""choose_k makes its choice again: how often each k was chosen, and the three ways to say none."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.structure_data import gaussians, zipf
from sklearn.datasets import load_wine

import lwcs
from lwcs.evaluation.k_selection_result import KRow
from lwcs.evaluation.k_selection_verdict import judge_clusters
from tests.evaluation.mixtures import separated


@pytest.fixture(scope="module")
def near() -> np.ndarray:
    """Four Gaussians, two of them so near that other draws do not tell them apart."""
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [3.6, 0.0]])
    return centers[rng.integers(0, 4, 30_000)] + rng.normal(size=(30_000, 2))


@pytest.fixture(scope="module")
def choices(near) -> list[lwcs.KChoice]:
    return [
        lwcs.choose_k(near, [3, 4, 5], size=3_000, n_bootstrap=2, random_state=seed)
        for seed in range(4)
    ]


def test_an_uncertain_choice_says_how_uncertain_it_is(choices):
    """That another seed would choose 3 or 4 is said by every seed on its own, or by most."""
    assert {choice.k for choice in choices} <= {3, 4}
    split = [choice for choice in choices if {3, 4} <= set(choice.resamples)]
    assert len(split) >= 2
    for choice in choices:
        assert choice.k == next(iter(choice.resamples))
        assert sum(choice.resamples.values()) == pytest.approx(1.0)
        for row in choice.rows:
            assert row.chosen == choice.resamples.get(row.k, 0.0)
            assert (row.why is None) == (row.k == choice.k)


def test_the_resamples_are_named_everywhere(choices):
    choice = next(each for each in choices if {3, 4} <= set(each.resamples))
    other = 7 - choice.k
    own, less = (f"{100 * choice.resamples[k]:.0f} %" for k in (choice.k, other))
    assert f"k = {choice.k} in {own} of resamples, k = {other} in {less}" in str(choice)
    assert f"Also worth a look: k = {other}: chosen in {less} of resamples" in choice.words()
    assert f"k={choice.k} in {own} of resamples" in repr(choice)
    assert choice.to_arrow()["chosen"].to_pylist() == [row.chosen for row in choice.rows]
    assert choice.to_arrow()["why"].to_pylist()[2] == choice.row(5).why
    json.dumps(choice.row(3).record())


def test_reasons_are_given_for_every_k_that_was_not_chosen():
    choice = lwcs.choose_k(separated(3_000, 2, 4, seed=0), range(2, 7), random_state=0)
    assert choice.resamples == {4: 1.0}
    assert "k = 4 are more" in choice.row(3).why
    assert "no valley" in choice.row(5).why
    assert "Not k = 5, 6: some borders have no valley" in choice.words()


def test_thirty_groups_by_zipf_are_found():
    X = gaussians(np.random.default_rng(0), zipf(30), 5, 6_000, 12.0)[0]
    for seed in range(2):
        assert lwcs.choose_k(X, range(26, 34, 2), n_bootstrap=2, random_state=seed).k == 30


def test_small_groups_that_fresh_starts_miss_are_found_again():
    """The solution from the original centers is cheaper than those from fresh starts."""
    X = gaussians(np.random.default_rng(3), zipf(30, 1.5), 5, 12_000, 12.0)[0]
    choice = lwcs.choose_k(X, [20, 22, 24], n_bootstrap=2, random_state=0)
    assert choice.k == 24
    assert choice.row(24).stability > 0.95


def test_some_clusters_that_do_not_stand_out_are_not_no_structure():
    """Three cultivars in 178 rows: the data tells them apart in a part of the resamples."""
    X = load_wine().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for seed in range(3):
        choice = lwcs.choose_k(X, range(2, 6), n_bootstrap=2, random_state=seed)
        assert choice.k == 3 or choice.outcome == "none stands out"
        assert choice.resamples.get(3, 0.0) > 0.1
        assert any(each.k == 3 for each in choice.runners_up) or choice.k == 3


def test_noise_has_no_structure_and_a_few_rows_are_too_few():
    noise = np.random.default_rng(0).normal(size=(3_000, 3))
    choice = lwcs.choose_k(noise, range(2, 6), random_state=0)
    assert (choice.k, choice.outcome) == (None, "no structure")
    assert choice.resamples == {None: 1.0}
    assert "none in 100 % of resamples" in choice.words()
    choice = lwcs.choose_k(noise[:30], range(2, 6), random_state=0)
    assert (choice.k, choice.outcome) == (None, "too few rows")
    assert all("too few rows" in row.why for row in choice.rows)


def test_most_resamples_decide_and_of_equally_many_those_of_more_clusters():
    rows = [KRow(k, separated=True) for k in (2, 3, 4)]
    for chosen, k in (([4, 3, 3, 0], 3), ([4, 4, 3, 3], 4), ([0, 0, 0, 4], None)):
        verdict = judge_clusters(rows, np.array(chosen))
        assert verdict.k == k
        assert verdict.outcome == ("structure" if k else "none stands out")


def test_mixtures_are_chosen_by_resamples_of_the_held_out_draws(near):
    choice = lwcs.choose_k(near, [1, 3, 4, 5], model="mixture", size=3_000, random_state=0)
    assert choice.k == 4
    assert choice.resamples[4] > 0.5
    assert "above that of k = " in choice.row(1).why
    assert [row.chosen for row in choice.rows] == [choice.resamples.get(k, 0.0) for k in choice.ks]
    one = lwcs.choose_k(
        np.random.default_rng(0).normal(size=(300, 1)), [1, 2], model="mixture", random_state=0
    )
    assert (one.k, one.outcome) == (1, "no structure")

"""compare(): every cell once, the same costs however often it was stopped, honest references."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.comparing.methods import METHODS, Problem, solutions
from lwcs.comparing.result import CompareResult, Key, Trial
from lwcs.passes import euclidean_cost

FAST = ("full", "uniform", "lightweight", "refined")


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return np.random.default_rng(0).standard_t(3, size=(3_000, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def result(X) -> CompareResult:
    return lwcs.compare(X, [4, 9], sizes=[50, 200], repeats=3, full_repeats=2)


def costs(result: CompareResult) -> dict[Key, float]:
    return {trial.key: trial.cost for trial in result.trials}


def test_every_cell_has_its_seeds(result):
    pytest.importorskip("faiss", reason="faiss is not installed")
    keys = [trial.key for trial in result.trials]
    assert len(keys) == len(set(keys))
    expected = {
        Key("data", k, method, polish, size, seed)
        for k in (4, 9)
        for seed in range(3)
        for method in METHODS
        for size in ((50, 200) if method in METHODS[2:6] else (0,))
        for polish in ((0, 1) if size else (0,))
        if not (method.startswith("full") and seed == 2)
    }
    assert set(keys) == expected


def test_costs_are_those_of_the_estimator(X, result):
    model = lwcs.CoresetKMeans(
        4, coreset_size=200, polish=1, method="refined", random_state=2, compute_labels=True
    ).fit(X)
    assert costs(result)[Key("data", 4, "refined", 1, 200, 2)] == pytest.approx(model.inertia_)


def test_errors_are_relative_to_all_full_solutions_and_the_faster_solver():
    def trial(method: str, seed: int, cost: float, seconds: float) -> Trial:
        return Trial(
            Key("d", 3, method, 0, 0 if "full" in method else 10, seed), 0.0, seconds, cost
        )

    result = CompareResult(
        (
            trial("full", 0, 100.0, 4.0),
            trial("full", 1, 104.0, 4.0),
            trial("full-sklearn", 0, 96.0, 8.0),
            trial("lightweight", 0, 110.0, 0.5),
            trial("lightweight", 1, 130.0, 0.5),
        )
    )
    cells = {cell.key.method: cell for cell in result.cells("d", 3)}
    lightweight = cells["lightweight"]
    np.testing.assert_allclose(lightweight.errors, [0.1, 0.3])
    assert lightweight.speedup == 8.0
    assert cells["full-sklearn"].speedup == 0.5
    # Student's t for two seeds: 12.706 · 0.1.
    assert lightweight.interval == pytest.approx(1.2706, rel=1e-3)
    assert "20.0 % ± 127.1" in result.to_markdown()
    assert "8.0×" in result.to_markdown()


def test_a_comparison_is_read_back(X, tmp_path):
    path = tmp_path / "c.parquet"
    result = lwcs.compare(X, 4, sizes=[50], methods=FAST, repeats=2, path=path)
    assert lwcs.load(path) == result
    assert pq.read_table(path).num_rows == len(result.trials)


def test_a_stopped_run_goes_on_where_it_was(X, tmp_path, monkeypatch):
    path, done = tmp_path / "c.parquet", []
    options = {"sizes": [50, 100], "methods": FAST, "repeats": 2, "path": path}
    whole = lwcs.compare(X, 4, **{**options, "path": None})

    def interrupted(method, *args):
        done.append(method)
        if len(done) == 9:
            raise KeyboardInterrupt
        return solutions(method, *args)

    monkeypatch.setattr("lwcs.comparing.solutions", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lwcs.compare(X, 4, **options)
    before = lwcs.load(path)
    assert 0 < len(before.trials) < len(whole.trials)
    monkeypatch.undo()
    after = lwcs.compare(X, 4, **options)
    assert costs(after) == costs(whole)
    assert set(before.trials) <= set(after.trials)


SCRIPT = """
import numpy as np, lwcs
X = np.random.default_rng(0).standard_t(3, size=(3_000, 4)).astype(np.float32)
lwcs.compare(X, 4, sizes=[50, 100], methods=("full", "uniform", "lightweight", "refined"),
             repeats=12, path={path!r})
"""


def test_a_killed_run_gives_the_same_rows_in_the_end(X, tmp_path):
    """SIGKILL again and again, at different moments; the file is readable at each of them."""
    path = tmp_path / "c.parquet"
    whole = lwcs.compare(X, 4, sizes=[50, 100], methods=FAST, repeats=12)
    delays, kills = iter([0.0, 0.05, 0.15, 0.1, 0.02, 0.08]), 0
    for delay in delays:
        child = subprocess.Popen([sys.executable, "-c", SCRIPT.format(path=str(path))])
        size = path.stat().st_size if path.exists() else 0
        deadline = time.monotonic() + 60.0
        # Wait for its first row, so that the kill falls into the run and not into its imports.
        while child.poll() is None and time.monotonic() < deadline:
            if path.exists() and path.stat().st_size != size:
                break
            time.sleep(0.005)
        time.sleep(delay)
        child.kill()
        kills += child.wait() == -signal.SIGKILL
        if path.exists():
            assert len(lwcs.load(path).trials) > 0
    assert kills >= 3
    after = lwcs.compare(X, 4, sizes=[50, 100], methods=FAST, repeats=12, path=path)
    assert costs(after) == costs(whole)
    assert costs(lwcs.load(path)) == costs(whole)


def test_more_seeds_are_added_to_those_there(X, tmp_path):
    path = tmp_path / "c.parquet"
    few = lwcs.compare(X, 4, sizes=[50], methods=FAST, repeats=1, path=path)
    more = lwcs.compare(X, 4, sizes=[50], methods=FAST, repeats=3, path=path)
    assert set(few.trials) < set(more.trials)


def test_a_file_of_another_experiment_is_refused(X, tmp_path):
    path = tmp_path / "c.parquet"
    lwcs.compare(X, 4, sizes=[50], methods=("full",), repeats=1, path=path)
    with pytest.raises(ValueError, match="n_samples=3000, not 2000"):
        lwcs.compare(X[:2_000], 4, methods=("full",), repeats=1, path=path)
    with pytest.raises(ValueError, match="spread="):
        lwcs.compare(2 * X, 4, methods=("full",), repeats=1, path=path)
    coreset = tmp_path / "coreset.parquet"
    lwcs.build(X, 10, random_state=0).save(coreset)
    with pytest.raises(ValueError, match="is not a saved comparison"):
        lwcs.compare(X, 4, methods=("full",), repeats=1, path=coreset)


def test_rows_held_out_are_unseen_and_reported(X):
    result = lwcs.compare(X, 4, sizes=[100], methods=FAST, repeats=2, holdout_rows=500)
    assert all(trial.holdout_cost > 0.0 for trial in result.trials)
    seen, unseen = result.cells("data", 4), result.cells("data", 4, holdout=True)
    assert [cell.error for cell in seen] != [cell.error for cell in unseen]
    # Costs of the two parts add up to that of all rows, for the same centers.
    from lwcs.comparing import _held_out

    train, test = _held_out(lwcs.scan(X), 500, 0)
    assert (train.n_rows, test.n_rows) == (2_500, 500)
    (answer,) = solutions("full", Problem(train, 4, 0, 1), 0, (0,))
    total = euclidean_cost(train, answer.centers) + euclidean_cost(test, answer.centers)
    assert total == pytest.approx(euclidean_cost(lwcs.scan(X), answer.centers))
    with pytest.raises(ValueError, match="no rows were held out"):
        lwcs.compare(X, 4, methods=("full",), repeats=1).cells("data", 4, holdout=True)


def test_weights_count(X):
    w = np.random.default_rng(1).random(len(X))
    result = lwcs.compare(X, 4, sizes=[100], repeats=1, sample_weight=w)
    full = {t.key.method: t.cost for t in result.trials if t.key.size == 0}
    assert full["full"] < 0.7 * lwcs.compare(X, 4, methods=("full",), repeats=1).trials[0].cost
    assert full["full-sklearn"] == pytest.approx(full["full"], rel=0.2)


def test_sparse_data_leaves_faiss_out(X):
    result = lwcs.compare(sp.csr_array(X), 4, sizes=[100], repeats=1)
    assert {t.key.method for t in result.trials} == set(METHODS) - {"faiss"}


def test_sizes_below_k_are_left_out(X):
    with pytest.warns(UserWarning, match=r"sizes=\[50\] are left out for n_clusters=60; pass"):
        result = lwcs.compare(X, [4, 60], sizes=[50], methods=FAST, repeats=1)
    assert {t.key.size for t in result.trials if t.key.n_clusters == 60} == {0}


def test_bad_input_is_refused(X):
    with pytest.raises(ValueError, match="did you mean 'lightweight'"):
        lwcs.compare(X, 4, methods=("lightwieght",))
    with pytest.raises(ValueError, match="leaves no rows"):
        lwcs.compare(X, 4, methods=("full",), repeats=1, holdout_rows=3_000)
    with pytest.raises(TypeError, match="rows in memory"):
        lwcs.compare(lwcs.PartitionedSource([X, X]), 4)
    with pytest.raises(ValueError, match="scale the data itself"):
        lwcs.compare(lwcs.scan(X, scale="standard"), 4)
    with pytest.raises(ValueError, match="repeats"):
        lwcs.compare(X, 4, repeats=0)
    with pytest.raises(ValueError, match="add 'full' or 'full-sklearn'"):
        lwcs.compare(X, 4, methods=("lightweight",))
    with pytest.raises(ValueError, match="n_clusters=5000 is more than the 3000 rows"):
        lwcs.compare(X, 5000)
    with pytest.raises((TypeError, ValueError), match="random_state"):
        lwcs.compare(X, 4, random_state=None)
    with pytest.raises(ValueError, match="too large for other libraries"):
        lwcs.compare(X, 4, random_state=2**32)
    with pytest.raises(ValueError, match="nothing to draw"):
        lwcs.CompareDisplay.from_result(CompareResult(()))


def test_the_table_shows_every_method(result):
    text = str(result)
    assert "Lightweight + 1 step" in text
    assert "data, k = 9" in text
    assert "m = 200" in result.to_markdown()
    assert repr(result) == f"CompareResult({len(result.trials)} solutions of data)"


def test_a_full_cost_of_zero_has_no_relative_errors_but_zero_and_infinity():
    from lwcs.plotting.curves import CompareDisplay

    keys = [Key("d", 4, method, 0, size, 0) for method, size in (("full", 0), ("uniform", 5))]
    exact, worse = (
        CompareResult((Trial(keys[0], 0.0, 1.0, 0.0), Trial(keys[1], 0.0, 0.0, cost)))
        for cost in (0.0, 2.5)
    )
    assert [cell.error for cell in exact.cells("d", 4)] == [0.0, 0.0]
    assert [cell.error for cell in worse.cells("d", 4)] == [0.0, np.inf]
    assert worse.cells("d", 4)[1].speedup == np.inf
    assert "inf %" in worse.to_markdown()
    twice = worse + CompareResult((Trial(Key("d", 4, "uniform", 0, 5, 1), 0.0, 0.0, 3.0),))
    assert np.isnan(twice.cells("d", 4)[1].interval)
    assert str(worse)
    CompareDisplay.from_result(worse)


def test_rows_that_are_all_centers_can_be_compared():
    X = np.repeat(np.arange(3.0)[:, None], 20, axis=0)
    result = lwcs.compare(X, 3, sizes=[30], methods=["full", "lightweight"], repeats=2)
    assert {cell.error for cell in result.cells("data", 3)} == {0.0}

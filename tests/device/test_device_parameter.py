"""device= and precision=: rows of the host and of files go through a device that is asked for."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import lwcs
from lwcs import CoresetKMeans
from lwcs.arrays.device import check_device
from lwcs.geometry.device_rows import DeviceRows
from tests.cli.running import run

torch = pytest.importorskip("torch", reason="needs torch: make test-gpu")

rng = np.random.default_rng(0)
N = 30_000
ROWS = rng.standard_normal((N, 4)) + 7.0 * rng.integers(0, 5, (N, 1))


@pytest.fixture
def measured(monkeypatch):
    """How many rows were measured on a device, and how their products were taken."""
    seen: list[tuple[int, str]] = []
    of = DeviceRows.of

    def watched(geometry, points, first_row):
        seen.append((len(points), geometry.precision_of_products))
        return of(geometry, points, first_row)

    monkeypatch.setattr(DeviceRows, "of", watched)
    return seen


def kmeans(**options):
    return CoresetKMeans(5, coreset_size=1_000, random_state=0, **options)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = str(tmp_path_factory.mktemp("rows") / "rows.parquet")
    pq.write_table(pa.table({f"x{j}": ROWS[:, j] for j in range(4)}), path)
    return path


def test_rows_of_the_host_go_through_the_device(measured):
    expected, seen = kmeans().fit(ROWS), len(measured)
    assert not seen
    model = kmeans(device="cpu").fit(ROWS)
    # At least the scan and the labels are of all rows.
    assert sum(rows for rows, _ in measured) > 2 * N
    for found in (model.cluster_centers_, model.labels_, model.coreset_.points):
        assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(model.coreset_.indices, expected.coreset_.indices)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, rtol=1e-6)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    measured.clear()
    np.testing.assert_array_equal(model.predict(ROWS), expected.labels_)
    assert sum(rows for rows, _ in measured) == N
    np.testing.assert_allclose(model.transform(ROWS), expected.transform(ROWS), rtol=1e-6)
    assert model.score(ROWS) == pytest.approx(expected.score(ROWS))


def test_files_go_through_the_device(measured, file):
    expected, model = kmeans().fit(file), kmeans(device="cpu", polish=1).fit(file)
    assert sum(rows for rows, _ in measured) > 2 * N
    np.testing.assert_array_equal(model.coreset_.indices, expected.coreset_.indices)
    assert model.inertia_ <= expected.inertia_
    measured.clear()
    found = model.predict(file)
    assert sum(rows for rows, _ in measured) == N
    np.testing.assert_array_equal(found, model.set_params(device=None).predict(file))


def test_build_on_a_device_draws_the_same_rows(measured, file):
    for rows in (ROWS, file):
        expected = lwcs.build(rows, 500, random_state=0)
        assert not measured
        coreset = lwcs.build(rows, 500, random_state=0, device="cpu")
        assert sum(n for n, _ in measured) >= N
        measured.clear()
        np.testing.assert_array_equal(coreset.indices, expected.indices)
        np.testing.assert_allclose(coreset.weights, expected.weights, rtol=1e-9)


def test_tensors_of_the_host_go_through_it_and_come_back_as_tensors(measured):
    model = kmeans(device="cpu").fit(torch.from_numpy(ROWS))
    assert measured
    assert isinstance(model.labels_, torch.Tensor)


def test_a_coreset_and_batches_are_clustered_on_the_device(measured):
    coreset = lwcs.build(ROWS, 1_000, random_state=0)
    expected = kmeans().fit(coreset).cluster_centers_
    np.testing.assert_allclose(kmeans(device="cpu").fit(coreset).cluster_centers_, expected)
    assert measured
    measured.clear()
    kmeans(device="cpu").partial_fit(ROWS)
    assert measured


def test_tf32_is_asked_for_by_the_user(measured):
    rows = ROWS.astype(np.float32)
    model = kmeans(device="cpu").fit(rows)
    assert {products for _, products in measured} <= {"data", "float64"}
    measured.clear()
    fast = kmeans(device="cpu", precision="tf32").fit(rows)
    assert "tf32" in {products for _, products in measured}
    # On the CPU, there are no such products.
    np.testing.assert_array_equal(fast.labels_, model.labels_)
    np.testing.assert_array_equal(kmeans(precision="tf32").fit(rows).labels_, model.labels_)
    with pytest.raises(ValueError, match="precision='half'"):
        kmeans(precision="half").fit(rows)


def test_a_saved_model_keeps_its_precision_and_forgets_the_device(tmp_path):
    """Another machine may have no GPU."""
    model = kmeans(device="cpu", precision="tf32").fit(ROWS)
    model.set_params(device="cuda:3").save(tmp_path / "model.parquet")
    loaded = lwcs.load(tmp_path / "model.parquet")
    assert loaded.get_params()["device"] is None
    assert loaded.get_params()["precision"] == "tf32"
    assert loaded.geometry_.device is None
    np.testing.assert_array_equal(loaded.predict(ROWS), model.labels_)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("tpu", r"device='tpu' is not supported; pass 'cuda'"),
        ("mps", r"device='mps' is not supported"),
        ("", r"device='' is not supported"),
        (0, r"device=0 is of type int; pass a name such as 'cuda'"),
    ],
)
def test_names_of_devices_are_checked(device, words):
    for ask in (
        lambda: kmeans(device=device).fit(ROWS),
        lambda: lwcs.build(ROWS, 10, device=device),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            ask()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_before_rows_are_read():
    words = r"device='cuda' is not available: torch .* finds no CUDA device; leave out device="
    with pytest.raises(ValueError, match=words):
        kmeans(device="cuda").fit("no such file.parquet")
    with pytest.raises(ValueError, match=words):
        lwcs.build("no such file.parquet", 10, device="cuda")


def test_devices_are_numbered(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert check_device("cuda") == "cuda:1"
    assert check_device("cuda:0") == "cuda:0"
    assert check_device(None) is None
    with pytest.raises(ValueError, match="this machine has 'cuda:0', 'cuda:1'"):
        check_device("cuda:2")


def test_without_torch_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'pip install "lwcs\[gpu\]"'):
        kmeans(device="cuda").fit(ROWS)


def test_rows_on_another_device_are_refused(monkeypatch):
    monkeypatch.setattr("lwcs.estimators.coreset_kmeans.check_device", lambda _: "cuda:0")
    monkeypatch.setenv("LWCS_KERNEL", "device")
    X = torch.from_numpy(ROWS)
    words = r"X is on the device 'cpu', but device='cuda:0'; leave out device="
    for rows in (X, [X[:10_000], X[10_000:]], lwcs.build(X, 100, random_state=0)):
        with pytest.raises(ValueError, match=words):
            kmeans(device="cuda").set_params(coreset_size=50).fit(rows)


@pytest.mark.parametrize("divergence", ["kl", "cosine"])
def test_divergences_are_measured_on_the_device(divergence):
    rows = np.abs(ROWS) + 1
    model = kmeans(divergence=divergence, device="cpu").fit(rows)
    expected = kmeans(divergence=divergence).fit(rows)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    assert model.inertia_ == pytest.approx(expected.inertia_, rel=1e-9)


def test_as_large_as_it_takes_on_a_device():
    found = CoresetKMeans(5, random_state=0, device="cpu").fit(ROWS)
    expected = CoresetKMeans(5, random_state=0).fit(ROWS)
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-6)


def test_what_is_computed_on_the_host_is_refused():
    class Own(lwcs.divergences.SquaredEuclidean):
        pass

    words = r"device='cpu' is for dense rows and divergences that take tensors; Own.* on the CPU"
    with pytest.raises(ValueError, match=words):
        kmeans(divergence=Own(), device="cpu").fit(ROWS)
    for rows in (sp.csr_array(ROWS), [sp.csr_array(ROWS)]):
        with pytest.raises(ValueError, match="sparse rows are computed on the CPU"):
            kmeans(device="cpu").fit(rows)
    with pytest.raises(ValueError, match="sparse rows"):
        kmeans(device="cpu").fit(ROWS).predict(sp.csr_array(ROWS))


def test_commands_take_a_device(measured, file, tmp_path):
    out = {name: str(tmp_path / f"{name}.parquet") for name in ("coreset", "model", "labels")}
    on = ("--device", "cpu", "--quiet")
    for command in (
        ("build", file, "--size", "500", "--seed", "0", "-o", out["coreset"]),
        ("fit", file, "-k", "5", "--size", "1000", "--seed", "0", "-o", out["model"]),
        ("assign", file, out["model"], "-o", out["labels"]),
    ):
        measured.clear()
        code, _, words = run(*command, *on)
        assert code == 0, words
        assert sum(rows for rows, _ in measured) >= N
    expected = lwcs.build(file, 500, random_state=0)
    np.testing.assert_array_equal(lwcs.load(out["coreset"]).indices, expected.indices)
    measured.clear()
    assert run("assign", file, out["model"], "-o", out["labels"], "--quiet")[0] == 0
    assert not measured


def test_commands_refuse_in_their_own_words(file, tmp_path):
    out = str(tmp_path / "out.parquet")
    code, _, words = run("build", file, "--size", "9", "--device", "tpu", "-o", out)
    assert code == 1
    assert "--device tpu is not supported" in words
    assert "leave out --device" in words
    model = str(tmp_path / "mixture.parquet")
    lwcs.CoresetMixture(2, random_state=0).fit(ROWS[:1000]).save(model)
    code, _, words = run("assign", file, model, "--device", "cpu", "-o", out, "--columns", "x*")
    assert code == 2
    assert "a mixture is computed on the CPU" in words

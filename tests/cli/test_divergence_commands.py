"""Divergences and mixtures on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs import divergences
from tests.cli.running import run
from tests.estimators.divergence_rows import spectra, topics


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X, counts = spectra()[0], topics()[0]
    pq.write_table(pa.table({f"band{j}": X[:, j] for j in range(12)}), "spectra.parquet")
    sp.save_npz("counts.npz", sp.csr_matrix(counts))
    return tmp_path


def test_the_number_of_passes_that_are_made_is_accepted(folder):
    build = ["build", "spectra.parquet", "--size", "50", "--divergence", "kl", "-o", "c.parquet"]
    assert run(*build, "--passes", "3", "--quiet")[0] == 0
    code, _, said = run(*build, "--passes", "2")
    assert code == 1
    assert "makes 3 passes over this data" in said
    for wrong in ("0", "two", "-1", "1.5"):
        code, _, said = run(*build, f"--passes={wrong}")
        assert code == 2
        assert f"{wrong!r} is not 'auto' or an integer" in said


def test_fit_assign_and_inspect_by_a_divergence(folder):
    arguments = ["-k", "4", "--divergence", "itakura_saito", "--floor", "1e-6", "--seed", "0"]
    code, out, _ = run("fit", "spectra.parquet", *arguments, "--cost", "--json", "-o", "m.parquet")
    assert code == 0
    facts, model = json.loads(out), lwcs.load("m.parquet")
    assert facts["divergence"] == "itakura_saito"
    assert model.geometry_.divergence == divergences.ItakuraSaito(floor=1e-6)
    assert run("assign", "spectra.parquet", "m.parquet", "-o", "l.parquet")[0] == 0
    labels = pq.read_table("l.parquet")
    assert labels.column_names == ["row", "label", "divergence"]
    assert np.sum(labels["divergence"]) == pytest.approx(facts["cost"])
    own = model.predict(pq.read_table("spectra.parquet"))
    np.testing.assert_array_equal(labels["label"], own)
    code, out, _ = run("inspect", "m.parquet", "--json")
    assert json.loads(out)["divergence"] == "ItakuraSaito(floor=1e-06)"


def test_topics_of_a_sparse_file(folder):
    options = ["--divergence", "kl_simplex", "--smoothing", "0.2", "--seed", "1"]
    assert run("build", "counts.npz", "--size", "800", *options, "-o", "c.parquet", "-q")[0] == 0
    coreset = lwcs.load("c.parquet")
    assert coreset.divergence == divergences.SimplexKL(smoothing=0.2)
    assert sp.issparse(coreset.points)
    # A coreset knows what it is for.
    assert run("fit", "c.parquet", "-k", "5", "--seed", "1", "-o", "m.parquet", "-q")[0] == 0
    assert lwcs.load("m.parquet").geometry_.divergence == coreset.divergence
    assert run("assign", "counts.npz", "m.parquet", "-o", "l.csv", "-q")[0] == 0
    assert Path("l.csv").read_text().startswith('"row","label","divergence"')


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("spectra.parquet", ["--family", "gamma"]),
        ("spectra.parquet", ["--covariance", "tied", "--columns", "band1,band2,band3"]),
        ("counts.npz", ["--family", "multinomial"]),
    ],
)
def test_a_mixture_is_fitted_inspected_and_assigned(folder, file, options):
    code, out, _ = run("mixture", file, "-n", "3", *options, "--seed", "0", "--json", "-o", "m")
    assert code == 0
    facts, model = json.loads(out), lwcs.load("m")
    assert facts["components"] == len(model.weights_) == 3
    assert facts["log_likelihood"] == pytest.approx(model.lower_bound_)
    code, out, _ = run("inspect", "m", "--json")
    assert json.loads(out)["kind"] == "mixture"
    assert json.loads(out)["family"] == facts["family"]
    code, out, _ = run("assign", file, "m", "--json", "-o", "l.parquet")
    assert code == 0
    labels = pq.read_table("l.parquet")
    assert labels.column_names == ["row", "label", "log_likelihood"]
    total = json.loads(out)["log_likelihood"]
    assert np.sum(labels["log_likelihood"]) == pytest.approx(total)
    if file.endswith("npz"):
        rows = sp.load_npz(file)
        np.testing.assert_array_equal(labels["label"], model.predict(rows))
        assert model.score_samples(rows).sum() == pytest.approx(total)


def test_a_mixture_of_a_coreset(folder):
    assert run("build", "spectra.parquet", "--size", "500", "-o", "c.parquet", "-q")[0] == 0
    assert run("mixture", "c.parquet", "-n", "2", "-o", "m.parquet", "-q")[0] == 0
    code, _, said = run("mixture", "c.parquet", "-n", "2", "--columns", "x", "-o", "m.parquet")
    assert (code, "leave out --columns" in said) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "spectra.parquet", "-k", "2", "--divergence", "kld"], 2, "'kl'"),
        (
            ["fit", "spectra.parquet", "-k", "2", "--divergence", "kl", "--floor", "1"],
            2,
            "--divergence kl does not take --floor",
        ),
        (
            ["fit", "spectra.parquet", "-k", "2", "--divergence", "kl", "--smoothing", "1"],
            2,
            "1.0 is not in the range",
        ),
        (
            ["fit", "spectra.parquet", "-k", "2", "--divergence", "kl", "--standardize"],
            1,
            "--standardize is only for squared Euclidean distances",
        ),
        (
            ["fit", "counts.npz", "-k", "2", "--divergence", "itakura_saito"],
            1,
            "requires x > 0",
        ),
        (["mixture", "spectra.parquet", "-n", "2", "--family", "poison"], 2, "'poisson'"),
        (["mixture", "spectra.parquet", "-n", "9", "--size", "3"], 2, "--size 3 is smaller"),
        (["mixture", "counts.npz", "-n", "2", "--family", "gamma"], 1, "requires x > 0"),
    ],
)
def test_mistakes_are_answered_in_one_line(folder, arguments, code, message):
    found, out, said = run(*arguments, "-o", "c")
    assert (found, out) == (code, "")
    assert message in said
    assert "Traceback" not in said
    assert not Path("c").exists()


def test_a_coreset_for_another_divergence_is_refused(folder):
    run("build", "counts.npz", "--size", "50", "--divergence", "kl", "-o", "c.parquet", "-q")
    for divergence in ("sqeuclidean", "cosine"):
        code, _, said = run(
            "fit", "c.parquet", "-k", "2", "--divergence", divergence, "-o", "m.parquet"
        )
        assert (code, "is measured by KL(smoothing=0.1)" in said) == (1, True)


def test_the_command_offers_every_family_and_covariance_type():
    from lwcs.solvers import families
    from lwcs.solvers.families.gaussian import COVARIANCES

    code, out, _ = run("mixture", "--help")
    assert code == 0
    offered = "".join(out.split())
    assert f"[{'|'.join(families.available())}]" in offered
    assert f"[{'|'.join(COVARIANCES)}]" in offered


def test_inspect_shows_the_options_of_the_family(folder):
    options = ["--covariance", "diag", "-o", "m.parquet", "-q"]
    assert run("mixture", "spectra.parquet", "-n", "2", *options)[0] == 0
    facts = json.loads(run("inspect", "m.parquet", "--json")[1])
    assert (facts["covariance_type"], facts["reg_covar"]) == ("diag", 1e-6)

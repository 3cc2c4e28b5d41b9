"""A model remembers how its file was read: other commands on the same file need no flags."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import lwcs
from lwcs.storage.persistence import read_table
from tests.cli.running import run

N = 600
RNG = np.random.default_rng(0)
FLAGS = ("--thousands", "'", "--missing", "drop", "--dates", "days", "--columns", "paid,day,x")


def german(values):
    return [
        f"{value:,.2f}".replace(".", ";").replace(",", "'").replace(";", ",") for value in values
    ]


@pytest.fixture
def data(tmp_path):
    frame = pd.DataFrame(
        {
            "customer_id": RNG.permutation(N),
            "paid": german(RNG.lognormal(9.0, 1.0, N)),
            "day": pd.date_range("2024-01-01", periods=N).strftime("%d.%m.%Y"),
            "x": [f"{value:.4f}".replace(".", ",") for value in RNG.normal(size=N)],
        }
    )
    frame.loc[5, "x"] = ""
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False, sep=";")
    return str(path)


@pytest.fixture
def model(data, tmp_path):
    path = str(tmp_path / "m.parquet")
    flags = ("--decimal", ",", "--delimiter", ";", *FLAGS)
    assert run("fit", data, "-k", "3", "-o", path, "--seed", "0", "--standardize", *flags)[0] == 0
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("assign", "DATA", "MODEL", "-o", "OUT.csv"),
        ("certify", "DATA", "MODEL"),
        ("drift", "MODEL", "DATA"),
        ("report", "MODEL", "DATA", "-o", "OUT.html"),
    ],
)
def test_every_command_reads_the_file_of_a_model_as_its_fit_did(command, data, model, tmp_path):
    words = [
        word.replace("DATA", data).replace("MODEL", model).replace("OUT", str(tmp_path / "out"))
        for word in command
    ]
    code, out, said = run(*words, "--json")
    assert code == 0, said
    assert json.loads(out)["dropped"] == 1
    # Nor is there a word about columns: the model says which they are.
    assert "Warning" not in said


def test_python_reads_the_file_of_a_model_as_its_fit_did(data, model):
    loaded = lwcs.load(model)
    assert loaded.reading_ == {
        "delimiter": ";", "decimal": ",", "thousands": "'", "missing": "drop", "dates": "days",
    }  # fmt: skip
    labels = loaded.predict(data)
    assert (len(labels), labels[5]) == (N, -1)
    assert lwcs.certify(data, loaded).n_samples == N - 1
    assert not lwcs.drift(loaded, data, random_state=0).drifted


def test_what_is_given_again_counts(data, model, tmp_path):
    code, _, said = run("certify", data, model, "--missing", "error")
    assert code == 1
    assert "missing value in row 5" in said
    # Another file of the same rows may be written otherwise, or have no dialect at all.
    frame = pd.read_csv(data, sep=";", decimal=",", thousands="'")
    frame["day"] = pd.to_datetime(frame["day"], format="%d.%m.%Y")
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "u.csv", index=False)
    found = lwcs.load(model).predict(data).tolist()
    assert lwcs.load(model).predict(str(tmp_path / "t.parquet")).tolist() == found
    out = str(tmp_path / "l.csv")
    flags = ("--decimal", ".", "--delimiter", ",", "--thousands", " ")
    assert run("assign", str(tmp_path / "u.csv"), model, "-o", out, *flags)[0] == 0
    assert pd.read_csv(out)["label"].fillna(-1).tolist() == found


def test_a_pipe_is_read_as_the_file_was(data, model):
    with open(data, "rb") as file:
        code, out, said = run("certify", "-", model, "--format", "csv", "--json", stdin=file.read())
    assert code == 0, said
    assert json.loads(out)["dropped"] == 1


def test_a_coreset_remembers_for_the_models_that_are_fitted_to_it(data, tmp_path):
    coreset, model = str(tmp_path / "c.parquet"), str(tmp_path / "m.parquet")
    flags = ("--decimal", ",", "--delimiter", ";", *FLAGS)
    assert run("build", data, "--size", "200", "-o", coreset, *flags)[0] == 0
    assert run("fit", coreset, "-k", "2", "-o", model)[0] == 0
    assert len(lwcs.load(model).predict(data)) == N


def test_a_mixture_remembers_too(data, tmp_path):
    model = str(tmp_path / "m.parquet")
    flags = ("--decimal", ",", "--delimiter", ";", *FLAGS)
    assert run("mixture", data, "-n", "2", "-o", model, "--seed", "0", *flags)[0] == 0
    assert run("assign", data, model, "-o", str(tmp_path / "l.csv"))[0] == 0


@pytest.mark.parametrize(
    "reading", [{"columns": "x"}, {"header": "yes"}, {"missing": "fill"}, {"decimal": 3}, []]
)
def test_a_file_cannot_make_up_options(reading, model, tmp_path):
    from lwcs.storage.persistence import with_metadata

    table, metadata = read_table(model)
    kind = metadata.pop("kind")
    damaged = with_metadata(table, kind, metadata | {"reading": reading})
    with pytest.raises(ValueError, match="reading"):
        lwcs.CoresetKMeans.from_arrow(damaged)


def test_what_the_fit_has_said_of_columns_is_not_said_again(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"customer_id": rng.permutation(N), "x": rng.normal(size=N), "name": "n"})
    data, model = str(tmp_path / "t.csv"), str(tmp_path / "m.parquet")
    frame.to_csv(data, index=False)
    said = run("fit", data, "-k", "2", "-o", model)[2]
    assert "'customer_id' looks like an identifier" in said
    assert "'name' (text)" in said
    for words in (
        ("assign", data, model, "-o", str(tmp_path / "l.csv")),
        ("certify", data, model),
        ("drift", model, data),
        ("report", model, data, "-o", str(tmp_path / "r.html")),
    ):
        code, _, said = run(*words)
        assert (code, "Warning" in said) == (0, False), said

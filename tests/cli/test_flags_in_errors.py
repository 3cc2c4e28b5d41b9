"""Errors and warnings of commands speak of flags, not of parameters in Python."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lwcs
from lwcs.cli import main
from lwcs.cli.errors import Commands, Flags
from tests.cli.running import run


def said_by(command: str, message: str) -> str:
    return Flags(main.commands[command], main.commands.values()).rewrite(message)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("drop such rows with missing='drop'", "drop such rows with --missing drop"),
        ("select them with columns=[…]", "select them with --columns …"),
        ("with lwcs.scan(data, columns=[…])", "with --columns …"),
        ("with lwcs.scan(…, weight=…)", "with --weight …"),
        ("leave it out with exclude=['id']", "leave it out with --exclude id"),
        ("exclude=['id', 'a b', …] (or not)", "exclude id,'a b',… (or not)"),
        ("columns= must be unique", "--columns must be unique"),
        ("column='xx' is not one of 'x'", "column 'xx' is not one of 'x'"),
        ("n_clusters=5 is more", "-k 5 is more"),
        ("pass n_clusters=k", "pass -k K"),
        ("a smaller n_clusters", "a smaller -k"),
        ("n_clusters <= 3", "-k <= 3"),
        ("build one with size > 300", "build one with --size > 300"),
        ("coreset_size=3 is smaller", "--size 3 is smaller"),
        ("scale='standard' is not", "--standardize is not"),
        ("scan the data without scale=", "leave out --standardize"),
        ("pass passes=2 or 'auto'", "pass --passes 2 or 'auto'"),
        ("random_state=-1 is negative", "--seed -1 is negative"),
        ("header=False", "--no-header"),
        ("header=True", "--header"),
        ("delimiter=';'", "--delimiter ';'"),
        ("decimal=',', as it", "--decimal ',', as it"),
        ('thousands="\'"', "--thousands ''\"'\"''"),
        (
            "pass one of them, for example np.load('a')['b']",
            "save one of them in a file of its own",
        ),
        (
            "pass one of them, for example lwcs.scan(h5py.File('a')['b'])",
            "save one of them in a file of its own",
        ),
        ("delimiter='\\t'", "--delimiter $'\\t'"),
        ("pass ItakuraSaito(floor=…), or", "pass --floor …, or"),
        ("a larger max_iter or tol", "a larger --max-iter or --tol"),
        ("use lwcs.build", "use `lwcs build`"),
    ],
)
def test_parameters_become_flags(message, expected):
    assert expected in said_by("fit", message)


@pytest.mark.parametrize(
    "message",
    [
        "'size=5/columns=3.parquet' does not exist",
        "row 3 of size=5/a.parquet",
        "row 3 of data/size=5",
        "column \"it's n_clusters=3\" of 'n_clusters'",
        "not for KL(smoothing=0.1); its size and columns are missing",
        "Lloyd's method, scikit-learn's 'missing=1'",
        "k >= 1, x > 0 and 2**32",
    ],
)
def test_names_paths_and_plain_words_stay(message):
    assert said_by("fit", message) == message


def test_flags_are_those_of_the_command():
    assert said_by("mixture", "n_components=3") == "-k 3"
    assert said_by("compare", "n_clusters=3, holdout_rows=5") == "-k 3, --holdout-rows 5"
    # A coreset may have been built with an option that this command does not have.
    assert said_by("mixture", "scale='standard' is refused") == "--standardize is refused"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    names = pa.array(["n"] * 300)
    pq.write_table(pa.table({"x": X[:, 0], "y": X[:, 1], "name": names}), "d.parquet")
    gaps = pa.array([None if i == 7 else float(v) for i, v in enumerate(X[:, 0])])
    pq.write_table(pa.table({"x": gaps, "y": X[:, 1]}), "g.parquet")
    pq.write_table(pa.table({"x": np.repeat([1.0, 2.0, 5.0], 100)}), "same.parquet")
    sp.save_npz("s.npz", sp.csr_matrix(np.eye(20)))
    np.save("a.npy", X)
    lwcs.build(X, 50, divergence="cosine", random_state=0).save("c.parquet")
    lwcs.build(lwcs.scan(X, scale="standard"), 50, random_state=0).save("scaled.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build g.parquet --size 5", "row 7 of g.parquet; .* with --missing drop"),
        ("build d.parquet --size 5 --columns xx", "column 'xx' is not one of .* mean 'x'"),
        ("build d.parquet --size 5 --columns x,x", "--columns must be unique"),
        ("build d.parquet --size 5 --columns name", "'name' holds .*--columns …"),
        ("build d.parquet --size 5 --weight ww", "column 'ww' is not one of"),
        ("build d.parquet --size 5 --method refined", "--method refined .* pass -k K"),
        ("build d.parquet --size 5 --passes 1 --standardize", "--passes 1 .* with --standardize"),
        ("build a.npy --size 5 --columns x", "--columns x names columns, .*; leave it out"),
        ("build c.parquet --size 5", "saved by lwcs .*; pass the rows"),
        ("fit d.parquet -k 400", "the number of rows, 300, should be >= -k 400; .* smaller -k"),
        ("fit c.parquet -k 90", "the coreset has .* rows but -k 90"),
        ("fit d.parquet -k 2 --divergence kl", "--divergence kl requires x >= 0"),
        ("fit s.npz -k 2 --divergence itakura_saito", "requires x > 0.*: pass --floor …"),
        ("fit c.parquet -k 2 --divergence kl", "measured by Cosine.*; leave out --divergence"),
        ("fit d.parquet -k 2 --divergence kl --standardize", "; leave out --standardize"),
        ("mixture d.parquet -n 400", "should be >= -k 400"),
        ("mixture d.parquet -n 2 --family gamma", "--family gamma requires x > 0"),
        ("mixture s.npz -n 2", "--family gaussian does not accept sparse rows; pass dense rows$"),
        ("mixture scaled.parquet -n 2", "--standardize is not supported.*leave out --standardize"),
        ("compare d.parquet -k 400 --columns x,y", "-k 400 is more than the 300 rows"),
        ("compare d.parquet --holdout-rows 300 --columns x,y", "--holdout-rows 300 leaves no rows"),
    ],
)
def test_errors_of_commands_name_flags(folder, arguments, message):
    code, _, said = run(*arguments.split(), "-o", "o" if "compare" in arguments else "o.parquet")
    said = said.strip().splitlines()[-1]
    assert code == 1, said
    assert re.search(message, said), said
    assert not re.search(r"\w=['\[\d…]", said.replace("(smoothing=0.1)", "")), said
    assert "lwcs." not in said


def test_warnings_are_one_line_each_in_the_words_of_the_command(folder):
    arguments = ["fit", "same.parquet", "-k", "5", "-o", "m.parquet"]
    code, _, said = run(*arguments)
    assert code == 0
    (line,) = [one for one in said.splitlines() if one.startswith("Warning: ")]
    assert "-k (5): the data has only 3 distinct rows; pass -k <= 3" in line
    assert ".py" not in said
    assert run(*arguments, "--quiet") == (0, "", "")
    options = ["--n-init", "2", "--max-iter", "1", "--tol", "0", "--columns", "x,y", "--seed", "0"]
    said = run("fit", "d.parquet", "-k", "9", *options, "-o", "m.parquet")[2]
    assert "Warning: Lloyd's algorithm did not converge in --max-iter 1 iterations" in said


def test_a_warning_is_shown_once_and_other_filters_stay():
    @click.command()
    @click.option("--missing")
    def warned(missing: str) -> None:
        for _ in range(2):
            warnings.warn("rows are lost\nwith missing='drop'", UserWarning, stacklevel=2)
        warnings.warn("an old name", DeprecationWarning, stacklevel=2)

    from click.testing import CliRunner

    done = CliRunner().invoke(Commands("all", {"warned": warned}), ["warned"])
    assert done.stderr == "Warning: rows are lost with --missing drop\n"
    assert isinstance(done.exception, DeprecationWarning), "as the filters of these tests say"

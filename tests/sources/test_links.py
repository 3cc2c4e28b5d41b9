"""Links in folders: every file counts once, and links that lead out are left out and named."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import lwcs
from lwcs.runtime.warnings import ColumnWarning
from tests.sources.parts import points, write_parts

KINDS = ["parquet", "csv", "npy"]


def write(folder: Path, name: str, kind: str, rows: int = 10) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    X = points("float64", rows)
    if kind == "parquet":
        Path(write_parts(folder / "tmp", X, [])).joinpath("000.parquet").rename(
            folder / f"{name}.parquet"
        )
        (folder / "tmp").rmdir()
    elif kind == "csv":
        np.savetxt(folder / f"{name}.csv", X, delimiter=",", header="a,b,c,d", comments="")
    else:
        np.save(folder / f"{name}.npy", X)


def count(data: object) -> int:
    return lwcs.build(data, 5, random_state=0).n_samples


def said_by(data: object) -> tuple[int, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = count(data)
    return rows, " | ".join(str(each.message) for each in caught)


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_beside_what_it_leads_to_counts_rows_once(kind, tmp_path):
    data = tmp_path / "data"
    write(data / "2024", "a", kind)
    write(data / "2023", "a", kind, 7)
    (data / "latest").symlink_to("2024")
    (data / "self").symlink_to(".")
    (data / "again.dat").symlink_to(data / "self")
    (data / "2023" / f"copy.{kind}").symlink_to(f"../2024/a.{kind}")
    for wish in (data, f"{data}/*", f"{data}/*/*.{kind}", f"{data}/**/*.{kind}", f"{data}/**"):
        assert count(wish) == 17, wish
    assert count(f"{data}/l*/*.{kind}") == 10
    assert count(data / "latest") == 10
    assert count(f"{data}/self/self/20*/a.{kind}") == 17
    assert count([data / "latest", data / "2023" / f"a.{kind}"]) == 17


def test_what_is_read_has_its_own_name_not_that_of_a_link(tmp_path):
    write(tmp_path / "data" / "z", "a", "csv")
    (tmp_path / "data" / "a").symlink_to("z")
    (tmp_path / "data" / "0.csv").symlink_to("z/a.csv")
    path = tmp_path / "data" / "z" / "a.csv"
    path.write_text(path.read_text() + "1,2,3,\n")
    with pytest.raises(ValueError, match=r"row 10 of .*data/z/a\.csv"):
        count(tmp_path / "data")


def test_a_link_to_a_hidden_place_in_the_folder_is_followed(tmp_path):
    data = tmp_path / "data"
    write(data / ".store", "a", "csv")
    (data / "b.csv").symlink_to(".store/a.csv")
    (data / "c.csv").symlink_to(".store/a.csv")
    assert count(data) == 10
    assert count(f"{data}/*.csv") == 10


def test_links_that_lead_out_are_left_out_and_named(tmp_path):
    data = tmp_path / "data"
    write(data, "a", "csv")
    write(tmp_path / "other", "b", "csv", 7)
    (data / "folder").symlink_to(tmp_path / "other")
    (data / "file.csv").symlink_to(tmp_path / "other" / "b.csv")
    (data / "gone.csv").symlink_to(tmp_path / "nothing.csv")
    (data / "README").symlink_to(tmp_path / "nothing")
    (data / "_hidden").symlink_to(tmp_path / "other")
    with pytest.warns(ColumnWarning) as caught:
        assert count(data) == 10
    (warning,) = caught
    said = str(warning.message)
    for name in ("folder", "file.csv", "gone.csv"):
        assert repr(f"{data}/{name}") in said
    assert "README" not in said
    assert "_hidden" not in said
    assert warning.filename == __file__
    with pytest.warns(ColumnWarning, match=r"'\S*/file.csv', '\S*/gone.csv';"):
        assert count(f"{data}/*.csv") == 10
    # By name they are read, and a pattern that cannot match them says nothing.
    assert said_by(data / "folder") == (7, "")
    assert said_by([data / "a.csv", data / "file.csv"]) == (17, "")
    assert said_by(f"{data}/a*") == (10, "")


def test_a_file_that_is_named_twice_is_refused(tmp_path):
    write(tmp_path, "a", "csv")
    write(tmp_path, "b", "csv")
    (tmp_path / "link.csv").symlink_to("a.csv")
    a, b, link = (str(tmp_path / name) for name in ("a.csv", "b.csv", "link.csv"))
    for again in (a, f"{tmp_path}/./a.csv", link, f"{tmp_path}/*.csv", str(tmp_path)):
        with pytest.raises(ValueError, match="is named twice, by") as refused:
            lwcs.scan([a, again])
        assert repr(again) in str(refused.value)
    assert count([a, b]) == 20

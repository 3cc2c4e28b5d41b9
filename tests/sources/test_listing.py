"""Patterns look only into folders that can match, here and on a store."""

from __future__ import annotations

import os

import pytest

import lwcs
from lwcs.sources.remote.paths import file_name, find, format_of
from lwcs.storage.locations import Access
from tests.sources.parts import points, table
from tests.sources.stores import spied


@pytest.fixture
def folder(tmp_path):
    import pyarrow.parquet as pq

    for name in ("a.parquet", "2023/b.parquet", "2024/c.parquet", "2024/x/d.parquet", "other/e.pq"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(points(rows=10)), path)
    (tmp_path / "data" / "other" / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "data" / "_log").mkdir()
    return tmp_path


CASES = [
    ("data/*.parquet", ["a"], ["data"]),
    ("data/20*/*.parquet", ["b", "c"], ["data", "data/2023", "data/2024"]),
    ("data/2024/*/*.parquet", ["d"], ["data/2024", "data/2024/x"]),
    ("data/*/*.pq", ["e"], ["data", "data/2023", "data/2024", "data/other"]),
]


def names(paths) -> list[str]:
    return sorted(os.path.basename(path).split(".")[0] for path in paths)


@pytest.mark.parametrize(("pattern", "expected", "looked"), CASES)
def test_a_store_is_asked_for_folders_that_can_match(pattern, expected, looked, folder):
    filesystem, handler = spied(folder)
    assert names(find(pattern, Access(filesystem)).paths) == expected
    assert sorted(handler.listed) == [(each, False) for each in looked]


@pytest.mark.parametrize(("pattern", "expected", "looked"), CASES)
def test_only_folders_that_can_match_are_opened(pattern, expected, looked, folder, monkeypatch):
    opened, original = [], os.scandir

    def scandir(path):
        opened.append(os.path.relpath(path, folder))
        return original(path)

    monkeypatch.setattr("lwcs.sources.remote.paths.os.scandir", scandir)
    assert names(find(f"{folder}/{pattern}").paths) == expected
    assert sorted(opened) == looked


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("data", ["a", "b", "c", "d", "e"]),
        ("data/**/*.parquet", ["a", "b", "c", "d"]),
        ("data/2024/**", ["c", "d"]),
        ("data/20*", ["b", "c", "d"]),
        ("data/*", ["a"]),
    ],
)
def test_a_store_has_the_files_of_the_same_folder_here(pattern, expected, folder):
    filesystem, _ = spied(folder)
    found = find(pattern, Access(filesystem))
    assert names(found.paths) == expected
    assert names(find(f"{folder}/{pattern}").paths) == expected
    assert set(found.stamps) == set(found.paths)


def test_two_stars_are_one_listing(folder):
    filesystem, handler = spied(folder)
    find("data/**/*.parquet", Access(filesystem))
    assert handler.listed == [("data", True)]


def test_an_unreadable_folder_matters_only_if_it_can_match(folder, monkeypatch):
    filesystem, handler = spied(folder)
    handler.failing["data/other"] = PermissionError(13, "no")
    assert names(find("data/20*/*.parquet", Access(filesystem)).paths) == ["b", "c"]
    with pytest.raises(PermissionError, match=r"access was refused.*data/other"):
        find("data/*/*.parquet", Access(filesystem))
    original = os.scandir

    def scandir(path):
        if path.endswith("other"):
            raise PermissionError(13, "no", path)
        return original(path)

    monkeypatch.setattr("lwcs.sources.remote.paths.os.scandir", scandir)
    assert names(find(f"{folder}/data/20*/*.parquet").paths) == ["b", "c"]
    with pytest.raises(PermissionError, match=r"data/other"):
        find(f"{folder}/data/*/*.parquet")


def test_the_query_of_a_url_is_no_part_of_a_name():
    url = "https://host/a/rows.csv.gz?X-Amz-Signature=ab/cd.parquet&x=1"
    assert file_name(url) == "rows.csv.gz"
    assert format_of(url) == "csv"
    assert format_of("https://host/rows?name=x.parquet") is None
    # Elsewhere, a question mark is part of a name.
    assert format_of("s3/rows?.parquet") == "parquet"


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("csv", "a.csv"), ("tsv", "a.tsv"), ("feather", "a.feather"), ("npy", "a.npy")],
)
def test_a_format_that_is_given_is_that_of_the_ending(wanted, name, tmp_path):
    import numpy as np
    import pyarrow.feather as feather

    X = points()
    path = str(tmp_path / name)
    if wanted == "npy":
        np.save(path, X)
    elif wanted == "feather":
        feather.write_feather(table(X), path)
    else:
        sign = "," if wanted == "csv" else "\t"
        np.savetxt(path, X, delimiter=sign, header=sign.join("abcd"), comments="")
    expected = lwcs.build(path, 50, random_state=0)
    for plain in ("plain", "folder/part-0"):
        (tmp_path / plain).parent.mkdir(exist_ok=True)
        (tmp_path / plain).write_bytes((tmp_path / name).read_bytes())
        place = tmp_path / plain.split("/")[0]
        coreset = lwcs.build(lwcs.scan(place, format=wanted), 50, random_state=0)
        np.testing.assert_array_equal(coreset.points, expected.points)
    with pytest.raises(ValueError, match="cannot be read"):
        lwcs.scan(path, format="parquet")

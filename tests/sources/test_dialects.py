"""Text files as people write them: recognized and said, or as the options say."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

import lwcs
from lwcs.runtime.warnings import ColumnWarning
from lwcs.sources import scan

ROWS = [[1.5, 2.0], [3.25, -4.0], [1000.0, 6.0]]


def rows_of(source: lwcs.Source) -> list[list[float]]:
    blocks = [pending.block() for pending in source.pending()]
    return np.concatenate([block.points for block in blocks]).tolist()


def write(folder: Path, text: str | bytes, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def said_by(path: object, **options: object) -> tuple[lwcs.Source, str]:
    """What scan returns, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        source = scan(path, **options)
    assert all(each.category is ColumnWarning for each in caught)
    # The line that is named is the one of the caller.
    assert all(each.filename == __file__ for each in caught)
    return source, " | ".join(str(each.message) for each in caught)


def why(source: lwcs.Source, column: str) -> str:
    return source._files.schema.field(column).metadata[b"lwcs.why"].decode()


UNUSUAL = [
    ("a;b\n1.5;2\n3.25;-4\n1000;6\n", {"delimiter": ";"}),
    ("a\tb\n1.5\t2\n3.25\t-4\n1e3\t6\n", {"delimiter": "\t"}),
    ("a|b\n1.5|2\n3.25|-4\n1000|6\n", {"delimiter": "|"}),
    ("a;b\n1,5;2\n3,25;-4\n1000;6\n", {"delimiter": ";", "decimal": ","}),
    ("a\tb\r\n1,5\t2\r\n3,25\t-4\r\n1000\t6\r\n", {"delimiter": "\t", "decimal": ","}),
    ('a,b\n"1,5","2"\n"3,25","-4,0"\n"1000","6"\n', {"decimal": ","}),
]


@pytest.mark.parametrize(("text", "options"), UNUSUAL)
def test_delimiters_and_decimal_commas_are_recognized_and_said_or_given(text, options, tmp_path):
    path = write(tmp_path, text)
    source, said = said_by(path)
    assert source.feature_names == ("a", "b")
    assert rows_of(source) == ROWS
    for name, value in options.items():
        assert f"{name}={value!r}" in said
    assert repr(str(path)) in said
    source, said = said_by(path, **options)
    assert rows_of(source) == ROWS
    assert said == ""


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1.5,2\n3.25,-4\n1000,6\n",
        '"a","b"\n"1.5","2"\n"3.25","-4"\n"1000","6"\n',
        "a,b\r1.5,2\r3.25,-4\r1000,6\r",
        "a,b\n\n1.5, 2\n3.25,-4 \n\n+1E3,6\n",
        "\ufeffa,b\n1.5,2\n3.25,-4\n1000,6",
    ],
)
def test_of_an_ordinary_file_nothing_is_said(text, tmp_path):
    source, said = said_by(write(tmp_path, text))
    assert source.feature_names == ("a", "b")
    assert rows_of(source) == ROWS
    assert said == ""


def test_a_tsv_has_tabs_and_text_with_semicolons_is_not_cut(tmp_path):
    source, said = said_by(write(tmp_path, "a\tb\n1\t2\n", "x.tsv"))
    assert (rows_of(source), said) == ([[1.0, 2.0]], "")
    source, _ = said_by(write(tmp_path, "a,notes\n1,hello; there\n2,bye; you\n"))
    assert source.feature_names == ("a",)


def test_a_file_without_a_header_keeps_its_first_row(tmp_path):
    path = write(tmp_path, "1.5,2\n3.25,-4\n1000,6\n")
    source, said = said_by(path)
    assert source.feature_names == ("x0", "x1")
    assert rows_of(source) == ROWS
    assert "no header" in said
    assert "x0 … x1" in said
    assert "header=False" in said
    source, said = said_by(path, header=False)
    assert (rows_of(source), said) == (ROWS, "")
    source, said = said_by(path, header=True)
    assert (source.feature_names, rows_of(source), said) == (("1.5", "2"), ROWS[1:], "")
    assert lwcs.build(scan(path, header=False), 5).n_samples == 3


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("1,2\n3,4\n5,6\n", ("x0", "x1"), "no header"),
        ("0,1,2\n3,4,5\n6,7,8\n", ("x0", "x1", "x2"), "no header"),
        ("7.5\n2\n", ("x0",), "named x0;"),
        ("DE,5,7\nFR,1,2\n", ("x1", "x2"), "no header"),
        ("-,5,2\n3,1,7\n4,8,1\n", ("x1", "x2"), "no header"),
        ("true,3\nfalse,1\n", ("x0", "x1"), "no header"),
        ("0,1,2\n1.5,2.5,0\n2,1,7\n", ("0", "1", "2"), "counts up"),
        (",0,1\n0,1.5,2.5\n1,2,1\n", ("", "0", "1"), "counts up"),
        ("c,2020,2021,2022\nDE,1,2,7\nFR,5,7,3\n", ("2020", "2021", "2022"), "counts up"),
        ("km,2020,2021,2022\n1,1,2,7\n1,5,7,3\n", ("km", "2020", "2021", "2022"), ""),
        ("é,ß\n1,2\n", ("é", "ß"), ""),
        ("a,b\n,\n1,2\n", ("a", "b"), ""),
    ],
)
def test_names_are_told_from_numbers(text, names, said, tmp_path):
    source, warned = said_by(write(tmp_path, text))
    assert source.feature_names == names
    assert said in warned
    assert bool(said) == bool(warned)


def test_thousands_are_given_and_otherwise_explained(tmp_path):
    path = write(tmp_path, 'a,b\n"1,234",2\n"1,234,567.5",3\n12,4\n')
    source, _ = said_by(path)
    assert source.feature_names == ("b",)
    assert why(source, "a").startswith("text, although 3 of the first 3 values can be read")
    assert "'1,234' in row 0" in why(source, "a")
    assert "pass thousands=','" in why(source, "a")
    source, said = said_by(path, thousands=",")
    assert rows_of(source) == [[1234.0, 2.0], [1234567.5, 3.0], [12.0, 4.0]]
    assert said == ""
    path = write(tmp_path, "a;b\n1.234,5;2\n1.234.567,25;3\n 12 ;NA\n")
    source, _ = said_by(path)
    assert "pass thousands='.'" in why(source, "a")
    source, _ = said_by(path, delimiter=";", thousands=".", missing="drop")
    assert rows_of(source)[:2] == [[1234.5, 2.0], [1234567.25, 3.0]]
    for sign in (" ", "'", "\u202f"):
        path = write(tmp_path, f"a,b\n1{sign}234,2\n5{sign}678,3\n")
        assert rows_of(scan(path, thousands=sign)) == [[1234.0, 2.0], [5678.0, 3.0]]


def test_groups_of_thousands_have_three_digits(tmp_path):
    path = write(tmp_path, "a,b\n" + "1234,2\n" * 50_000 + '"1,2",3\n')
    with pytest.raises(ValueError, match=r"'a' holds numbers, but '1,2' in row 50000 of"):
        lwcs.build(scan(path, thousands=","), 5)


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("-", "if '-' stands for a missing value"),
        ('"1,234"', "pass thousands=','"),
        ('"1,5"', "pass decimal=','"),
        ("about 5", "correct it in the file"),
        (" ", "missing value"),
        ("0x10", "correct it in the file"),
    ],
)
def test_a_column_that_is_nearly_of_numbers_says_why_it_is_text(value, remedy, tmp_path):
    text = "a,b\n" + "1.5,2\n" * 12 + f"{value},3\n" + "4,5\n" * 10
    source, _ = said_by(write(tmp_path, text))
    assert source.feature_names == ("b",)
    said = why(source, "a")
    assert said.startswith("text, although 22 of the first 23 values are numbers: ")
    assert "in row 12" in said
    assert remedy in said


def test_other_text_says_nothing_and_dates_say_that_they_are_dates(tmp_path):
    path = write(tmp_path, "t,d,n\nword,2024-01-31,1\n5,2024-02-01 12:30,2\nx,,3\n")
    source, _ = said_by(path)
    assert source._files.schema.field("t").metadata is None
    assert "dates or times, for example '2024-01-31' in row 0" in why(source, "d")


@pytest.mark.parametrize("value", ["", "NA", "n/a", "NaN", "null", "NULL", "None", "<NA>", "#N/A"])
def test_missing_values_are_those_of_pandas(value, tmp_path):
    path = write(tmp_path, f"a,b\n1,2\n{value},3\n4,5\n")
    with pytest.raises(ValueError, match="'a' has a missing value in row 1"):
        lwcs.build(path, 5)
    coreset = lwcs.build(scan(path, missing="drop"), 50, random_state=0)
    assert coreset.details["dropped"] == 1
    assert set(map(tuple, coreset.points)) == {(1.0, 2.0), (4.0, 5.0)}


def test_true_and_false_are_one_and_zero(tmp_path):
    path = write(tmp_path, "a,b\ntrue,1\nFalse,2\nTRUE,3\nNA,4\n")
    source = scan(path, missing="drop")
    assert source.feature_names == ("a", "b")
    assert rows_of(source)[:3] == [[1.0, 1.0], [0.0, 2.0], [1.0, 3.0]]


def test_quoted_fields_hold_delimiters_quotes_and_ends_of_lines(tmp_path):
    text = 'a,b,t\n1,2,"x\ny"\n3,4,"z, ""q"""\n' + '5,6,"x\n,\n"\n' * 100_000
    source, said = said_by(write(tmp_path, text), columns=["a", "b"])
    assert said == ""
    assert rows_of(source) == [[1.0, 2.0], [3.0, 4.0], *([[5.0, 6.0]] * 100_000)]


@pytest.mark.parametrize("rows", [2, 300_000])
@pytest.mark.parametrize("opening", ['"open', '"'])
def test_a_quote_that_is_not_closed_does_not_swallow_rows(opening, rows, tmp_path):
    text = "a,b,t\n1,2,x\n" + "1,2,x\n" * 2 * rows + f"3,4,{opening}y\n" + "5,6,x\n" * rows
    where = "row 5 of .*" if rows == 2 else r"after \d+ .*"
    with pytest.raises(ValueError, match=f"{where}quote (that is|may) not( be)? closed"):
        lwcs.build(scan(write(tmp_path, text), columns=["a", "b"]), 5)
    # Quotes within a value, and at the end of the file, are no such thing.
    text = 'a,b,t\n1,2,5" disk\n3,4,","\n5,6,""\n7,8,"x"'
    assert len(rows_of(scan(write(tmp_path, text), columns="a"))) == 4
    path = write(tmp_path, text + '\n9,1,6" disk\n')
    assert len(rows_of(scan(path, columns="a"))) == 5


def test_a_row_that_is_very_long_is_explained(tmp_path):
    text = "a,t\n" + "1,x\n" * 40_000 + f"2,{'y' * 3_000_000}\n" + "1,x\n"
    with pytest.raises(ValueError, match=r"one of the rows after \d+ has more than 1 MB"):
        lwcs.build(scan(write(tmp_path, text), columns="a"), 5)


NAMES = "größe,b\n1.5,2\n3.25,-4\n1000,6\n"


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
        ("cp1252", "cp1252"),
        ("latin-1", "cp1252"),
    ],
)
def test_encodings_are_recognized_and_said_or_given(encoding, named, tmp_path):
    path = write(tmp_path, NAMES.encode(encoding))
    source, said = said_by(path)
    assert source.feature_names == ("größe", "b")
    assert rows_of(source) == ROWS
    assert (f"encoding={named!r}" in said) if named else said == ""
    source, said = said_by(path, encoding=encoding)
    assert (source.feature_names, rows_of(source), said) == (("größe", "b"), ROWS, "")


def test_the_wrong_encoding_is_refused_with_the_place(tmp_path):
    path = write(tmp_path, NAMES.encode("cp1252"))
    with pytest.raises(ValueError, match=r"x\.csv' is not written in utf-8: line 1 .* 'gr'") as no:
        scan(path, encoding="utf-8")
    assert "encoding='cp1252'" in str(no.value)
    late = "a,b\n" + "1,2\n" * 40_000
    path = write(tmp_path, late.encode() + "1,ß\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"not written in ascii, as the bytes after row \d+ show"):
        lwcs.build(scan(path, encoding="ascii"), 5)
    with pytest.raises(ValueError, match=r"column 'b' holds numbers, but .* in row 40000 of"):
        lwcs.build(path, 5)
    with pytest.raises(ValueError, match="holds binary data"):
        scan(write(tmp_path, b"a,b\n" + bytes(100)))


def test_every_file_has_an_encoding_of_its_own_which_is_said_once(tmp_path):
    write(tmp_path, NAMES, "a.csv")
    write(tmp_path, NAMES.encode("cp1252"), "b.csv")
    source, said = said_by(tmp_path)
    assert said == ""
    with pytest.warns(ColumnWarning, match=r"b\.csv' is read with encoding='cp1252'") as caught:
        assert lwcs.build(source, 5, random_state=0).n_samples == 6
    assert len(caught) == 1


def test_further_files_are_read_as_the_first_one(tmp_path):
    write(tmp_path, "a;b\n1,5;2\n", "a.csv")
    write(tmp_path, "b;a\n-4;3,25\n6;1000\n", "b.csv")
    source, said = said_by(tmp_path)
    assert rows_of(source) == ROWS
    assert said.count("delimiter") == 1
    write(tmp_path, "1;2\n", "c.csv")
    with pytest.raises(ValueError, match=r"c\.csv' has no column 'a'"):
        rows_of(scan(tmp_path, delimiter=";", decimal=","))


@pytest.mark.parametrize("length", [100, 2_000])
def test_a_header_longer_than_what_is_read_at_once(length, tmp_path):
    columns = 1_000
    names = [f"{j:0{length}}_" for j in range(columns)]
    lines = [",".join(names), ",".join(["1"] * columns), ",".join(["2.5"] * columns)]
    path = write(tmp_path, "\n".join(lines) + "\n")
    assert len(lines[0]) > 2**16
    source = scan(path)
    assert source.feature_names == tuple(names)
    assert rows_of(source) == [[1.0] * columns, [2.5] * columns]


def test_a_line_without_an_end_is_refused_before_memory_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr("lwcs.sources.files.csv_dialects._TOO_LONG", 2**18)
    with pytest.raises(ValueError, match="fewer than three lines"):
        scan(write(tmp_path, "1," * 2**18))


@pytest.mark.parametrize("start", ["a,b\n", ""], ids=["header", "no header"])
def test_text_among_numbers_is_named_by_row_and_column(start, tmp_path):
    text = start + "1,2\n" * 40_000 + "1,oops\n" + "1,2\n" * 300_000
    path = write(tmp_path, text)
    name = "b" if start else "x1"
    with pytest.raises(ValueError, match=rf"column '{name}' .* 'oops' in row 40000 of .*x\.csv"):
        lwcs.build(scan(path, header=bool(start)), 5)
    path = write(tmp_path, start + "1,2\n" * 400_000 + "7\n")
    with pytest.raises(ValueError, match=r"row 400000: Expected 2 columns, got 1: 7"):
        lwcs.build(scan(path, header=bool(start)), 5)


def test_compressed_files_have_dialects_too(tmp_path):
    path = write(tmp_path, gzip.compress(UNUSUAL[3][0].encode()), "x.csv.gz")
    source, said = said_by(path)
    assert rows_of(source) == ROWS
    assert "delimiter=';', decimal=','" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ",,"}, "delimiter=',,' is not allowed"),
        ({"delimiter": "x"}, "delimiter='x' is not allowed"),
        ({"delimiter": "§"}, "pass an ASCII character"),
        ({"decimal": ""}, "decimal='' is not allowed"),
        ({"thousands": "-"}, "thousands='-' is not allowed"),
        ({"thousands": ",", "decimal": ","}, "are the same"),
        ({"encoding": "utf9"}, "encoding='utf9' is not known"),
        ({"encoding": "base64"}, "encoding='base64' is not known"),
    ],
)
def test_impossible_dialects_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        scan(write(tmp_path, "a,b\n1,2\n"), **options)


def test_dialects_are_refused_for_what_is_no_text(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    lwcs_parquet = tmp_path / "x.parquet"
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1.0]}), lwcs_parquet)
    for data in (np.eye(3), tmp_path / "x.npy", lwcs_parquet, [np.eye(3), np.eye(3)]):
        with pytest.raises(ValueError, match=r"delimiter= is for text files \(CSV\)"):
            scan(data, delimiter=";")

"""Paths that lead to no file: pipes, devices, bad links, other hosts, names that are not UTF-8."""

from __future__ import annotations

import os
import socket
import sys

import pytest

import lwcs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kinds of files that Unix has")
TEXT = "a,b\n1,2\n3,4\n5,6\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("reads", [lwcs.scan, lwcs.load])
def test_a_pipe_is_not_waited_for(reads, folder):
    os.mkfifo("pipe.csv")
    with pytest.raises(ValueError, match=r"'pipe\.csv' is (a pipe, which can be read only|not a)"):
        reads("pipe.csv")


def test_devices_and_sockets_hold_no_rows(folder):
    with pytest.raises(ValueError, match="'/dev/zero' is a device, from which no rows are read"):
        lwcs.scan("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s.csv")
        with pytest.raises(ValueError, match=r"'s\.csv' is a socket"):
            lwcs.scan("s.csv")


@pytest.mark.parametrize("reads", [lwcs.scan, lwcs.load])
def test_links_that_lead_nowhere_say_so(reads, folder):
    os.symlink("loop.csv", "loop.csv")
    os.symlink("two.csv", "one.csv")
    os.symlink("one.csv", "two.csv")
    for name in ("loop.csv", "one.csv"):
        with pytest.raises(
            FileNotFoundError, match=f"'{name}' is a symbolic link that leads in a c"
        ):
            reads(name)
    os.symlink("nowhere.csv", "dangling.csv")
    with pytest.raises(
        FileNotFoundError, match=r"leads to '.*/nowhere\.csv', which does not exist"
    ):
        reads("dangling.csv")


@pytest.mark.parametrize("start", ["file://localhost", "file://", "file:", "FILE://LocalHost"])
def test_file_uris_of_this_machine_are_read(start, folder):
    (folder / "a b.csv").write_text(TEXT)
    found = lwcs.scan(f"{start}{folder}/a%20b.csv", columns=["a"])
    assert lwcs.build(found, 3, random_state=0).n_samples == 3


def test_file_uris_of_other_machines_are_refused(folder):
    with pytest.raises(ValueError, match="names the machine 'other', whose files are not reached"):
        lwcs.scan(f"file://other{folder}/x.csv")


@pytest.fixture
def latin(folder):
    """A folder with a file of a name in another encoding; macOS has no such names."""
    try:
        (folder / os.fsdecode(b"caf\xe9.txt")).write_text("no rows")
    except OSError:
        pytest.skip("this file system has UTF-8 names alone")
    return folder


def test_names_that_are_not_utf8_are_left_alone_where_they_hold_no_rows(latin):
    assert lwcs.scan(latin).n_features == 2
    assert lwcs.scan(f"{latin}/*.csv").n_features == 2


def test_files_whose_names_are_not_utf8_are_named(latin):
    wrong = latin / os.fsdecode(b"caf\xe9.csv")
    wrong.write_text(TEXT)
    for data in (latin, f"{latin}/*.csv", wrong):
        with pytest.raises(
            ValueError, match=r"the name of '.*caf\\udce9\.csv' is not UTF-8.*renam"
        ):
            lwcs.scan(data)


def test_folders_whose_names_are_not_utf8_are_entered_by_others(latin, monkeypatch):
    inside = latin / os.fsdecode(b"caf\xe9")
    inside.mkdir()
    (inside / "x.csv").write_text(TEXT)
    monkeypatch.chdir(inside)
    assert lwcs.build(lwcs.scan("x.csv"), 3, random_state=0).n_samples == 3


def test_a_missing_file_is_told_with_the_name_that_is_next_to_it(folder):
    for reads in (lwcs.scan, lwcs.load):
        with pytest.raises(
            FileNotFoundError, match=r"'X\.cvs' does not exist; did you mean 'x\.csv'"
        ):
            reads("X.cvs")
        with pytest.raises(FileNotFoundError, match=r"'zebra' does not exist$"):
            reads("zebra")

"""What is fetched ahead from a store: all bytes, by few requests, within a limit."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.sources.remote import prefetch
from lwcs.sources.remote.prefetch import Piece, PrefetchedFile, WaitingThreads
from tests.sources.parts import points, table, write_parts
from tests.sources.stores import spied

DATA = np.random.default_rng(0).bytes(100_000)


class Fetching:
    """Gives bytes, and notes what it was asked for."""

    def __init__(self):
        self.requests, self.lock = [], threading.Lock()

    def __call__(self, start, stop):
        with self.lock:
            self.requests.append((start, stop))
        return DATA[start:stop]


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def held(file: PrefetchedFile) -> int:
    """Number of bytes of all answers that a file refers to, now or later."""
    sent = [each.content for each in file._requests if each.content is not None]
    return sum(len(content.result()) for content in sent)


def test_after_an_error_nobody_waits_for_threads():
    answered = threading.Event()
    with pytest.raises(KeyboardInterrupt), WaitingThreads(1) as pool:  # noqa: PT012
        first, second = pool.submit(answered.wait), pool.submit(answered.wait)
        raise KeyboardInterrupt
    assert not first.done()
    assert second.cancelled()
    answered.set()


def test_near_pieces_are_one_request_and_large_ones_are_several(pool, monkeypatch):
    monkeypatch.setattr(prefetch, "_CHEAP", 10)
    monkeypatch.setattr(prefetch, "_HOLE", 10)
    monkeypatch.setattr(prefetch, "LARGEST", 100)
    fetch = Fetching()
    lanes = [[Piece(0, 20)], [Piece(25, 40)], [Piece(60, 80)], [Piece(200, 500)]]
    file = PrefetchedFile(fetch, len(DATA), pool, lanes, 10**6)
    file.begin()
    for lane in lanes:
        for piece in lane:
            file.seek(piece.start)
            assert file.read(piece.stop - piece.start) == DATA[piece.start : piece.stop]
    assert sorted(fetch.requests) == [(0, 40), (60, 80), (200, 300), (300, 400), (400, 500)]


def test_lanes_are_read_in_turns_within_the_limit(pool, monkeypatch):
    monkeypatch.setattr(prefetch, "_SMALLEST", 100)
    monkeypatch.setattr(prefetch, "_CHEAP", -1)
    monkeypatch.setattr(prefetch, "_HOLE", -1)
    fetch, most = Fetching(), 4_000
    lanes = [[Piece(at, at + 10_000), Piece(at + 40_000, at + 50_000)] for at in (0, 10_000)]
    file = PrefetchedFile(fetch, len(DATA), pool, lanes, most, in_turns=True)
    file.begin()
    for step in range(0, 20_000, 250):
        for lane in lanes:
            at = lane[step // 10_000].start + step % 10_000
            file.seek(at)
            assert file.read(250) == DATA[at : at + 250]
            assert held(file) <= most
    assert sum(stop - start for start, stop in fetch.requests) == 40_000


@pytest.mark.parametrize("most", [25_000, 45_000])
@pytest.mark.parametrize("step", [250, 1_000])
def test_row_groups_that_there_is_room_for_take_few_requests(pool, monkeypatch, most, step):
    monkeypatch.setattr(prefetch, "LARGEST", 8_000)
    fetch = Fetching()
    # Four row groups of twenty columns, which are read in turns.
    lanes = [[Piece(at + j * 1_000, at + (j + 1) * 1_000) for at in range(0, 80_000, 20_000)]
             for j in range(20)]  # fmt: skip
    file = PrefetchedFile(fetch, len(DATA), pool, lanes, most, in_turns=True)
    file.begin()
    for group in range(4):
        for within in range(0, 1_000, step):
            for lane in lanes:
                at = lane[group].start + within
                file.seek(at)
                assert file.read(step) == DATA[at : at + step]
                assert held(file) <= most
    groups = ((0, 8_000), (8_000, 16_000), (16_000, 20_000))
    expected = [(at + a, at + b) for at in range(0, 80_000, 20_000) for a, b in groups]
    assert sorted(fetch.requests) == expected


def test_pieces_that_are_read_one_by_one_take_few_requests_in_little_room(pool, monkeypatch):
    monkeypatch.setattr(prefetch, "_SMALLEST", 100)
    fetch = Fetching()
    lanes = [[Piece(at, at + 900), Piece(at + 45_000, at + 45_900)] for at in range(0, 45_000, 900)]
    file = PrefetchedFile(fetch, len(DATA), pool, lanes, 20_000)
    file.begin()
    for at in range(0, 90_000, 300):
        file.seek(at)
        assert file.read(300) == DATA[at : at + 300]
        assert held(file) <= 20_000
    # Five chunks of 900 bytes are in each.
    assert sorted(fetch.requests) == [(at, at + 4_500) for at in range(0, 90_000, 4_500)]


class Zeros(Fetching):
    """Gives zeros, of a file of any size."""

    def __call__(self, start, stop):
        super().__call__(start, stop)
        return bytes(stop - start)


@pytest.mark.parametrize(
    ("count", "size", "every", "step"),
    [
        (2_000, 200_000, 200_000, 200_000),  # many columns
        (2_000, 200_000, 200_000, 30_000),  # of which each is read in several turns
        (200, 20_000, 500_000, 20_000),  # a few columns of many
        (300, 20_000, 39_000, 20_000),  # with what lies between them
        (3, 9_000_000, 9_000_000, 2_000_000),  # large ones
    ],
)
@pytest.mark.parametrize("in_turns", [False, True])
def test_what_is_held_is_within_the_limit(pool, count, size, every, step, in_turns):
    most, fetch = 2_000_000, Zeros()
    lanes = [[Piece(at, at + size)] for at in range(0, count * every, every)]
    file = PrefetchedFile(fetch, count * every, pool, lanes, most, in_turns=in_turns)
    file.begin()
    assert held(file) <= most
    for within in range(0, size, step):
        for lane in lanes[:60]:
            file.seek(lane[0].start + within)
            file.read(min(step, size - within))
            assert held(file) <= most


def test_bytes_that_nobody_wants_are_fewer_than_those_beside_them(pool):
    most, fetch = 10**9, Zeros()
    lanes = [[Piece(at, at + 20_000)] for at in range(0, 10**8, 500_000)]
    file = PrefetchedFile(fetch, 10**8, pool, lanes, most)
    assert file.most_held == 200 * 20_000
    file.begin()
    assert held(file) == file.most_held
    near = PrefetchedFile(fetch, 10**8, pool, [[Piece(0, 20_000)], [Piece(35_000, 50_000)]], most)
    assert near.most_held == 50_000


def test_what_is_not_planned_is_read_too(pool):
    fetch = Fetching()
    file = PrefetchedFile(fetch, len(DATA), pool, [[Piece(100, 200)]], 1000)
    file.begin()
    assert file.read() == DATA
    for at, whence, first in ((150, 0, 150), (-50, 1, 120), (-10, 2, len(DATA) - 10)):
        assert file.seek(at, whence) == first
        assert file.read(20) == DATA[first : first + 20]


@pytest.mark.parametrize(("kept", "reads"), [(prefetch._KEPT, 0), (0, 4)])
def test_the_bytes_of_a_store_give_the_coreset_of_the_rows(tmp_path, monkeypatch, kept, reads):
    monkeypatch.setattr(prefetch, "_KEPT", kept)
    X = points("float64")
    write_parts(tmp_path / "p", X, [300], row_group_size=50)
    filesystem, handler = spied(tmp_path)
    source = lwcs.scan("p", filesystem=filesystem)
    handler.read.clear()
    coreset = lwcs.build(source, 100, random_state=0, passes=2)
    expected = lwcs.build(X, 100, random_state=0, passes=2)
    np.testing.assert_array_equal(coreset.points, expected.points)
    # Two files and two passes; small files were fetched with their footers, and are kept.
    assert len(handler.read) == reads


@pytest.mark.parametrize(("fetched", "requests"), [(2**30, 8), (2**16, 160)])
def test_large_row_groups_give_the_coreset_of_the_rows(tmp_path, monkeypatch, fetched, requests):
    monkeypatch.setattr("lwcs.sources.blocks.Budget.small", 0)
    monkeypatch.setattr("lwcs.sources.blocks.Budget.batch", 2**14)
    monkeypatch.setattr("lwcs.sources.blocks.Budget.fetched", fetched)
    monkeypatch.setattr("lwcs.sources.files.parquet._BUFFER", 2**13)
    monkeypatch.setattr(prefetch, "_SMALLEST", 2**13)
    X = points("float64", 20_000)
    options = {"compression": "none", "use_dictionary": False, "row_group_size": 5_000}
    pq.write_table(table(X), tmp_path / "a.parquet", **options)
    filesystem, handler = spied(tmp_path)
    source = lwcs.scan("a.parquet", filesystem=filesystem)
    monkeypatch.setattr(prefetch, "_KEPT", 0)
    handler.read.clear()
    coreset = lwcs.build(source, 100, random_state=0, passes=2)
    expected = lwcs.build(X, 100, random_state=0, passes=2)
    np.testing.assert_array_equal(coreset.points, expected.points)
    np.testing.assert_array_equal(coreset.weights, expected.weights)
    assert len(handler.read) == requests


def test_columns_are_fetched_and_no_others(tmp_path):
    X = points("float64", 100_000)
    pq.write_table(table(X), tmp_path / "a.parquet", compression="none", use_dictionary=False)
    filesystem, handler = spied(tmp_path)
    source = lwcs.scan("a.parquet", columns=["x0"], filesystem=filesystem)
    handler.read.clear()
    assert sum(batch.n_rows for _, batch in source.batches()) == 100_000
    assert sum(n for _, _, n in handler.read) < 1.1 * X[:, 0].nbytes


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_failing_disk_is_no_damaged_file(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(prefetch, "_KEPT", 0)
    if kind == "parquet":
        write_parts(tmp_path / "p", points(), [])
    else:
        (tmp_path / "p").mkdir()
        path = tmp_path / "p" / "000.csv"
        np.savetxt(path, points(), delimiter=",", header="a,b,c,d", comments="")
    filesystem, handler = spied(tmp_path)
    source = lwcs.scan("p", filesystem=filesystem)
    handler.failing[f"p/000.{kind}"] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match=f"reading failed.*p/000.{kind}") as failed:
        lwcs.build(source, 10, random_state=0)
    assert failed.value.errno == errno.EIO
    handler.failing.clear()
    assert lwcs.build(source, 10, random_state=0).n_samples == len(points())


def test_errors_of_a_disk_have_an_errno_and_those_of_contents_have_none():
    from lwcs.storage.locations import explaining

    with (
        pytest.raises(OSError, match=r"reading failed.*'a\.parquet'") as failed,
        explaining(["a.parquet"]),
    ):
        raise OSError(errno.EIO, "Error reading bytes from file")
    assert failed.value.errno == errno.EIO
    with pytest.raises(ValueError, match="truncated"), explaining(["a.parquet"]):
        raise OSError("Couldn't deserialize thrift")


def test_a_change_on_a_store_is_noticed_in_one_pass(tmp_path):
    write_parts(tmp_path / "p", points(), [300])
    filesystem, _ = spied(tmp_path)
    file = tmp_path / "p" / "001.parquet"
    os.utime(file, (1_000, 1_000.25))
    source = lwcs.scan("p", filesystem=filesystem)
    # Stores tell parts of a second in some answers, and not in others.
    os.utime(file, (1_000, 1_000.75))
    assert lwcs.build(source, 10, passes=1, random_state=0).n_samples == len(points())
    os.utime(file, (1_000, 1_002))
    with pytest.raises(ValueError, match=r"001\.parquet' changed while it was being read"):
        lwcs.build(source, 10, passes=1, random_state=0)

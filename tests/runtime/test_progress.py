"""Progress, if it is asked for: a bar on a terminal, lines without one, calls of a function."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import lwcs
from lwcs.runtime import progress
from lwcs.runtime.journal import Journal
from lwcs.runtime.parallel import READER

SCRIPT = """
import numpy, lwcs
X = numpy.random.default_rng(0).normal(size=(300_000, 4))
lwcs.build(X, 100, random_state=0, passes={passes}, progress={progress})
"""


def on_a_terminal(script: str) -> str:
    """What a real process writes to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait() == 0
    return seen.decode()


@pytest.mark.parametrize(
    ("passes", "labels"), [(1, ["reading"]), (2, ["first pass", "second pass"])]
)
def test_every_pass_has_its_bar_on_a_terminal(passes, labels):
    seen = on_a_terminal(SCRIPT.format(passes=passes, progress=True))
    for label in labels:
        assert label in seen


def test_nothing_is_drawn_unasked():
    assert on_a_terminal(SCRIPT.format(passes=1, progress=False)) == ""


def test_a_short_job_writes_nothing_where_there_is_no_terminal():
    script = SCRIPT.format(passes=1, progress=True)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


# --- Lines instead of a bar, and calls of a function.


@pytest.fixture
def at_every_step(monkeypatch):
    """As if every step took long enough to be told of."""
    monkeypatch.setattr(progress, "LINES_EVERY", 0.0)
    monkeypatch.setattr(progress, "_CALLS_EVERY", 0.0)


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(300_000, 4))


def test_without_a_terminal_lines_say_stage_rows_percent_rate_and_time_left(
    X, at_every_step, capfd
):
    lwcs.build(X, 100, random_state=0, passes=2, progress=True)
    lines = capfd.readouterr().err.splitlines()
    pattern = r"(first|second) pass: [\d,]+ rows, \d+ %, [\d.]+ M rows/s, \d+ s left"
    full = [line for line in lines if re.fullmatch(pattern, line)]
    assert {line.partition(":")[0] for line in full} == {"first pass", "second pass"}
    assert "first pass: 300,000 rows, 100 %" in "\n".join(full)


def test_a_fit_tells_of_its_iterations_too(X, at_every_step, capfd):
    lwcs.CoresetKMeans(5, random_state=0, n_jobs=1, verbose=1).fit(X)
    told = {line.partition(":")[0] for line in capfd.readouterr().err.splitlines()}
    assert {"reading", "seeding", "Lloyd", "split and merge", "labels"} <= told


def test_a_callback_is_called_by_the_callers_thread_and_at_the_end_of_every_stage(X, at_every_step):
    calls: list[tuple[int, lwcs.Progress]] = []

    def note(now: lwcs.Progress) -> None:
        calls.append((threading.get_ident(), now))

    lwcs.CoresetKMeans(5, random_state=0, n_jobs=2, verbose=note).fit(X)
    assert {thread for thread, _ in calls} == {threading.get_ident()}
    first = [now for _, now in calls if now.stage == "reading"]
    assert [now.done for now in first] == sorted(now.done for now in first)
    assert [now.finished for now in first] == [False] * (len(first) - 1) + [True]
    assert (first[-1].done, first[-1].rows) == (first[-1].total, 300_000)
    assert len(first) > 2


def test_a_short_job_calls_only_at_the_end_of_its_stages():
    calls: list[lwcs.Progress] = []
    lwcs.build(np.eye(50), 5, progress=calls.append)
    assert [(now.stage, now.finished, now.rows) for now in calls] == [("reading", True, 50)]


class StopError(Exception):
    """What a callback raises to cancel."""


@pytest.mark.parametrize("stage", ["first pass", "second pass", "Lloyd", "labels"])
def test_what_a_callback_raises_stops_the_job_and_leaves_nothing(X, stage, at_every_step, tmp_path):
    def cancel(now: lwcs.Progress) -> None:
        if now.stage == stage and now.done == 1:
            raise StopError

    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(4)}), path)
    model = lwcs.CoresetKMeans(5, random_state=0, verbose=cancel)
    with pytest.raises(StopError):
        model.fit(X if stage == "labels" else path)
    assert not hasattr(model, "cluster_centers_")
    assert not any(thread.name == READER for thread in threading.enumerate())
    assert lwcs.CoresetKMeans(5, random_state=0).fit(X).labels_.shape == (300_000,)


class Counted:
    """A count of rows that is exact only in the end."""

    def after(self, done: int, _: object) -> int:
        return 10 * done

    def at_end(self, done: int) -> int:
        return 10 * done - 3


def test_results_are_closed_while_the_error_of_a_callback_is_still_held(at_every_step):
    closed = []

    def results():
        try:
            yield from range(5)
        finally:
            closed.append(True)

    def cancel(now: lwcs.Progress) -> None:
        if now.done == 1:
            raise StopError

    with pytest.raises(StopError) as stopped:
        list(Journal(cancel).watch(results(), "reading", 5, rows=Counted()))
    assert stopped.value.__traceback__ is not None
    assert closed == [True]


def test_the_end_of_a_pass_says_the_exact_number_of_rows():
    journal = Journal()
    assert list(journal.watch(range(2), "reading", None, rows=Counted())) == [0, 1]
    assert journal.timings()["reading"]["rows"] == 17


def test_a_comparison_calls_once_per_run(at_every_step):
    calls: list[lwcs.Progress] = []
    rows = np.random.default_rng(0).normal(size=(2_000, 2))
    methods = ["full", "lightweight"]
    lwcs.compare(rows, 3, sizes=[50], methods=methods, repeats=2, progress=calls.append)
    assert {now.stage for now in calls} == {"comparing"}
    assert [(now.done, now.total) for now in calls[1:-1]] == [(i, 4) for i in range(1, 5)]


def test_all_rows_of_a_pass_over_a_file_of_unknown_length_are_counted(X, at_every_step, tmp_path):
    path, calls = tmp_path / "x.csv", []
    pc.write_csv(pa.table({"a": X[:200_001, 0]}), path)
    source = lwcs.scan(str(path))
    assert source.n_rows is None
    lwcs.build(source, 50, random_state=0, progress=calls.append)
    ends = [(now.stage, now.rows) for now in calls if now.finished]
    assert ends == [("first pass", 200_001), ("second pass", 200_001)]

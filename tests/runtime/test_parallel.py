"""Threads are shared, give back what they took, and are there after a fork or an error."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from contextlib import ExitStack

import pytest

from lwcs.runtime import parallel as pool
from lwcs.runtime.parallel import ordered_map, single_threaded_blas, workers

PATIENCE = 30.0
HELPERS = pool._HELPERS


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(pool, "usable_cores", lambda: 4)
    monkeypatch.setattr(pool, "_HELPERS", pool._Helpers())


@pytest.fixture
def loaded(monkeypatch):
    """Libraries that seem to be loaded, each with its number of threads."""

    class Controller:
        def __init__(self):
            self.libraries = list(loaded)

        def limit(self, **_):
            return Limit(self.libraries)

    class Limit:
        def __init__(self, libraries):
            self.before = {name: loaded[name] for name in libraries}

        def __enter__(self):
            loaded.update(dict.fromkeys(self.before, 1))

        def __exit__(self, *_):
            loaded.update(self.before)

    loaded = {"first": 8}
    monkeypatch.setattr("threadpoolctl.ThreadpoolController", Controller)
    monkeypatch.setitem(sys.modules, "a_new_module", object())
    return loaded


def at_once(calls, n_jobs):
    """How many tasks of several callers run at once, once as many as can have started."""
    lock, running, most = threading.Lock(), [0], [0]

    def task(_):
        with lock:
            running[0] += 1
            most[0] = max(most)
            most.append(running[0])
        threading.Event().wait(0.02)
        with lock:
            running[0] -= 1

    def caller():
        with workers(n_jobs) as run:
            list(run(task, range(12)))

    threads = [threading.Thread(target=caller) for _ in range(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(most)


def test_callers_side_by_side_share_the_helpers():
    # Three helpers, and the callers themselves.
    assert at_once(3, 4) <= 6
    assert at_once(1, 2) <= 2


@pytest.mark.parametrize("n_jobs", [2, 4, 7])
def test_so_many_tasks_run_at_once(n_jobs):
    together = threading.Barrier(n_jobs)
    with workers(n_jobs) as run:
        for _ in range(3):
            # Passed only if all of them run at the same time.
            list(run(lambda _: together.wait(PATIENCE), range(n_jobs)))
    results = ordered_map(lambda _: together.wait(PATIENCE), range(3 * n_jobs), n_jobs)
    assert len(list(results)) == 3 * n_jobs


def test_two_callers_get_on_at_the_same_time():
    # Each call has two threads, and ends only after a task of the other.
    seen = {"a": threading.Event(), "b": threading.Event()}

    def task(own, other):
        seen[own].set()
        assert seen[other].wait(PATIENCE)
        return own

    def caller(own, other):
        found[own] = list(ordered_map(lambda _: task(own, other), range(5), 2))

    found = {}
    threads = [threading.Thread(target=caller, args=names) for names in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": ["a"] * 5, "b": ["b"] * 5}


def test_tasks_may_have_tasks():
    def inner(i):
        return sum(ordered_map(lambda j: i * j, range(10), 4))

    def outer(i):
        with workers(4) as run:
            return sum(run(inner, range(i, i + 8)))

    expected = [45 * sum(range(i, i + 8)) for i in range(20)]
    assert list(ordered_map(outer, range(20), 4)) == expected


def test_a_single_task_is_run_by_its_caller():
    # Whose team of native threads shares it; helpers have none.
    with workers(3) as run:
        for _ in range(50):
            assert list(run(lambda _: threading.get_ident(), [0])) == [threading.get_ident()]
        assert list(run(str, [])) == []


def test_an_error_is_raised_in_its_place_and_the_threads_go_on():
    def task(i):
        if i % 10 == 9:
            raise ValueError(f"task {i}")
        return i

    with workers(3) as run:
        found = []
        with pytest.raises(ValueError, match="task 9"):
            found.extend(run(task, range(40)))
        assert found == list(range(9))
        assert list(run(abs, range(-5, 0))) == [5, 4, 3, 2, 1]
    assert list(ordered_map(abs, range(-5, 0), 3)) == [5, 4, 3, 2, 1]


def test_nothing_runs_after_a_generator_was_closed():
    lock, running = threading.Lock(), set()

    def task(i):
        with lock:
            running.add(i)
        threading.Event().wait(0.01)
        with lock:
            running.discard(i)
        return i

    results = ordered_map(task, iter(range(1000)), 4)
    assert next(results) == 0
    results.close()
    assert not running
    assert list(ordered_map(abs, [-1, -2], 4)) == [1, 2]


def test_no_task_starts_after_an_error():
    started = []

    def task(i):
        started.append(i)
        if i == 0:
            raise ValueError("the first")
        threading.Event().wait(0.001)

    with workers(2) as run, pytest.raises(ValueError, match="the first"):
        list(run(task, range(100_000)))
    before = len(started)
    time.sleep(0.05)
    assert len(started) == before < 100_000


def test_an_interrupt_does_not_wait_for_its_turn():
    main, taken, again, own = threading.get_ident(), threading.Event(), threading.Event(), []

    def arguments():
        yield 0
        # The first task is with the helper.
        taken.wait(PATIENCE)
        yield from range(1, 10)

    def task(i):
        if threading.get_ident() != main:
            taken.set()
            again.wait(0.2)
            return
        if own:
            again.set()
        own.append(i)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(ordered_map(task, arguments(), 2))
    assert len(own) == 1
    assert list(ordered_map(abs, [-1, -2], 2)) == [1, 2]


def test_a_helper_turns_to_callers_that_wait(monkeypatch):
    monkeypatch.setattr(pool, "usable_cores", lambda: 2)
    started, ended, together = threading.Event(), threading.Event(), threading.Barrier(2)

    def long():
        def task(_):
            started.set()
            ended.wait(0.001)

        with workers(2) as run:
            list(run(task, range(100_000)))

    other = threading.Thread(target=long)
    other.start()
    started.wait(PATIENCE)
    # There is one helper, and this call needs it; the other one has tasks for a minute.
    try:
        list(ordered_map(lambda _: together.wait(PATIENCE), range(2), 2))
    finally:
        ended.set()
        other.join()


def test_results_that_wait_for_their_turn_do_not_keep_their_arguments():
    class Rows:
        pass

    first, alive, given_up = threading.Event(), weakref.WeakSet(), []

    def arguments():
        for i in range(8):
            rows = Rows()
            alive.add(rows)
            yield i, rows
            del rows

    def task(pair):
        if pair[0] == 0:
            first.wait(PATIENCE)
        elif pair[0] == 7:
            del pair
            # Those of the first task and of this one; other tasks may still be ending.
            deadline = time.monotonic() + PATIENCE
            while len(alive) > 2 and time.monotonic() < deadline:
                time.sleep(0.001)
                gc.collect()
            given_up.append(len(alive) > 2)
            first.set()

    list(ordered_map(task, arguments(), 4))
    assert given_up == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_threads_of_its_own(loaded, monkeypatch):
    monkeypatch.setattr(pool, "_HELPERS", HELPERS)
    together, limit = threading.Barrier(2), ExitStack()
    with limit:
        limit.enter_context(single_threaded_blas())
        list(ordered_map(lambda _: together.wait(PATIENCE), range(2), 2))
        child = os.fork()
        if child == 0:
            try:
                limit.close()
                loaded["first"] = 8
                inside = threading.Barrier(2)
                list(ordered_map(lambda _: inside.wait(5.0), range(2), 2))
                with single_threaded_blas():
                    limited = loaded["first"]
                os._exit(0 if (limited, loaded["first"]) == (1, 8) else 2)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_idle_threads_end(monkeypatch):
    monkeypatch.setattr(pool, "_IDLE", 0.01)
    together, threads = threading.Barrier(3), set()

    def task(_):
        threads.add(threading.current_thread())
        together.wait(PATIENCE)

    for _ in range(3):
        list(ordered_map(task, range(3), 3))
    for thread in threads - {threading.current_thread()}:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    list(ordered_map(task, range(3), 3))


def test_a_library_that_is_loaded_later_is_limited_as_well(loaded, monkeypatch):
    def load(name):
        loaded[name] = 8
        monkeypatch.setitem(sys.modules, f"a_module_with_{name}", object())

    with single_threaded_blas():
        assert loaded == {"first": 1}
        load("second")
        with single_threaded_blas():
            assert loaded == {"first": 1, "second": 1}
        assert loaded == {"first": 1, "second": 1}
    assert loaded == {"first": 8, "second": 8}
    load("third")
    with single_threaded_blas():
        assert set(loaded.values()) == {1}
    assert set(loaded.values()) == {8}

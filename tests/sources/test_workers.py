"""Workers of a cluster are asked for their versions, whatever they have."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

import lwcs
from lwcs.sources.engines.workers import by_value, check_workers, version_checked, versions
from tests.sources.shadow import shadow_lwcs

HERE = versions()


def test_workers_like_here_pass():
    check_workers({"a": HERE, "b": dict(HERE)})
    check_workers({})


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"lwcs": None}, "the worker w has no lwcs, but here it is Python"),
        ({"lwcs": "0.0.9"}, f"w has lwcs 0.0.9, but here .*lwcs {lwcs.__version__}.*install"),
        ({"numpy": None}, "w has no numpy"),
        ({"Python": "3.9.1"}, r"w has Python 3\.9\.1"),
    ],
)
def test_a_worker_that_cannot_do_the_work_is_named(there, said):
    with pytest.raises(RuntimeError, match=said):
        check_workers({"v": HERE, "w": HERE | there})


def test_a_worker_that_cannot_answer_is_named():
    with pytest.raises(RuntimeError, match=r"w cannot say .*\(TypeError: code\)"):
        check_workers({"v": HERE, "w": TypeError("code")})


def test_many_workers_are_counted():
    with pytest.raises(RuntimeError, match=r"w0 has no lwcs, .*w3 has no lwcs and 996 more"):
        check_workers({f"w{i}": HERE | {"lwcs": None} for i in range(1_000)})


def test_another_numpy_is_a_warning():
    with pytest.warns(UserWarning, match=r"w has numpy 1\.0 and kernels numpy.*last bits"):
        check_workers({"w": HERE | {"numpy": "1.0", "kernels": "numpy"}})


def test_another_patch_of_python_passes():
    minor = ".".join(str(HERE["Python"]).split(".")[:2])
    check_workers({"w": HERE | {"Python": f"{minor}.99"}})


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("raise ImportError('gone')", "has no lwcs, but here"),
        ("__version__ = '0.0.9'", "has lwcs 0.0.9, but here"),
    ],
)
def test_a_task_says_what_its_worker_lacks(tmp_path, package, said):
    """In a process with another lwcs, or none: what was sent is read there all the same."""
    cloudpickle = pytest.importorskip("cloudpickle")
    path = shadow_lwcs(tmp_path / "path", package)
    sent = cloudpickle.dumps((version_checked(lwcs.scan, pickle.dumps), versions))
    code = (
        "import pickle, sys\n"
        "task, versions = pickle.load(sys.stdin.buffer)\n"
        "print(versions()['lwcs'])\n"
        "task([[1.0]])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=sent,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
    )
    assert found.returncode == 1
    assert said in found.stderr.decode()
    assert found.stdout.decode().strip() in ("None", "0.0.9")


def test_a_task_runs_where_the_version_is_right():
    assert version_checked(sum, pickle.dumps)([1, 2], 3) == 6


def test_what_is_sent_by_value_keeps_defaults_and_closures():
    outer = 5

    def function(x, y=2):
        return x + y + outer

    copy = by_value(function)
    assert (copy.__module__, copy(1), copy(1, y=0)) == ("__main__", 8, 6)
